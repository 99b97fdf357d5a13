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
    case .empty: "An empty text cannot be encoded as a QR code."
    case .containsNUL: "A text with a NUL character cannot be encoded as a QR code."
    case .tooLong: "The text is too long for a QR code."
    case .outOfMemory: "Out of memory while encoding the QR code."
    }
  }
}
