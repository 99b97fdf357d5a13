import Common

/// The reason why a text cannot be encoded as a QR code.
public struct QRCodeError: CodedError, Equatable {
  enum Reason: String, Sendable {
    case empty, containsNUL, tooLong, outOfMemory
  }

  let reason: Reason

  init(_ reason: Reason) {
    self.reason = reason
  }

  /// The stable name.
  public var code: String { reason.rawValue }

  /// The cause, for a person.
  public var sentence: String {
    switch reason {
    case .empty: "An empty text has no QR code."
    case .containsNUL: "A text with a NUL character has no QR code here."
    case .tooLong: "The text is too long for a QR code."
    case .outOfMemory: "There is not enough memory for the QR code."
    }
  }
}
