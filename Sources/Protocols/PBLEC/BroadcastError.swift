import Common

/// Why a message or a beacon does not go out.
public enum BroadcastError: CodedError, Hashable {
  case empty
  case tooLong(bytes: Int)
  case controlCharacters(bytes: Int)
  /// As many messages as there may be wait; there is room again in so many seconds.
  case queueFull(seconds: Int)
  /// There is no such message, or it is said already.
  case unknownMessage
  /// A program took it back.
  case cancelled
  /// It got no place on the air in time.
  case noPlace
  /// The radio did not do it; the sentence says why.
  case radioFailed(String)
  /// There is no radio to say it with; the sentence says why.
  case noRadio(String)
  /// It was taken off the air before its time was over.
  case cutShort
  /// Today's beacon is spent; the next one may go out on this day.
  case notifySpent(until: CalendarDay)
  /// A beacon is on the air, or about to be; the next one may go out on this day.
  case notifying(until: CalendarDay)
  /// The clock says a time before 2026, so nobody knows which day it is.
  case clockNotSet

  public var code: String {
    switch self {
    case .empty, .tooLong, .controlCharacters: "InvalidArgs"
    case .queueFull, .notifySpent, .notifying: "LimitExceeded"
    case .unknownMessage: "NotFound"
    case .cancelled: "Cancelled"
    case .noPlace, .radioFailed: "Timeout"
    case .cutShort: "CutShort"
    case .clockNotSet, .noRadio: "NotReady"
    }
  }

  public var sentence: String {
    switch self {
    case .empty: "A message has 1 to \(Limits.textBytes) bytes of text, and this one has 0."
    case .tooLong(let bytes): "A message has 1 to \(Limits.textBytes) bytes of text, and this one has \(bytes)."
    case .controlCharacters(let bytes):
      "This text of \(bytes) bytes has a control character, which a message may not have."
    case .queueFull(let seconds):
      "\(Limits.queue) messages wait to be said. There is room for another one in \(seconds)s."
    case .unknownMessage: "There is no such message that waits or is being said."
    case .cancelled: "The message was taken back."
    case .noPlace: "There was no place on the air within \(Limits.longestWait.components.seconds)s."
    case .noRadio(let why), .radioFailed(let why): why
    case .cutShort: "It was taken off the air before its time was over."
    case .notifySpent(let day): "Others were notified today already. The next time is on \(day)."
    case .notifying(let day): "Others are being notified at this moment. The next time is on \(day)."
    case .clockNotSet: "This machine's clock says a time before 2026. Set it: others are notified once a day."
    }
  }
}
