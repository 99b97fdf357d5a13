import Common

/// Reason why a message or a beacon cannot be broadcast, or was not.
public enum BroadcastError: CodedError, Hashable {
  case empty
  case tooLong(bytes: Int)
  case controlCharacters(bytes: Int)
  /// `Limits.queue` messages are pending. The first of them has been broadcast after `seconds`.
  case queueFull(seconds: Int)
  /// There is no such message, or it has been broadcast.
  case unknownMessage
  /// A local program cancelled the message, or the service stopped.
  case cancelled
  /// There was no advertising slot in time.
  case noPlace
  /// The radio reported an error, described by the sentence.
  case radioFailed(String)
  /// There is no usable radio. The sentence gives the reason.
  case noRadio(String)
  /// The broadcast was stopped before its time was over.
  case cutShort
  /// Today's beacon was sent. The next one is allowed on day `until`.
  case notifySpent(until: CalendarDay)
  /// A beacon is being broadcast, or waits for a slot. The next one is allowed on day `until`.
  case notifying(until: CalendarDay)
  /// The clock shows a time before 2026, so the day is unknown.
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
    case .empty: "A message has 1 to \(Limits.textBytes) bytes of text; this one has 0."
    case .tooLong(let bytes): "A message has 1 to \(Limits.textBytes) bytes of text; this one has \(bytes)."
    case .controlCharacters(let bytes):
      "The text of \(bytes) bytes contains a control character, which a message may not contain."
    case .queueFull(let seconds):
      "\(Limits.queue) messages are queued. There is capacity for another one in \(seconds)s."
    case .unknownMessage: "No message with this number is queued or being broadcast."
    case .cancelled: "The message was cancelled."
    case .noPlace: "No advertising slot was free within \(Limits.longestWait.components.seconds)s."
    case .noRadio(let why), .radioFailed(let why): why
    case .cutShort: "The broadcast was stopped before its time was over."
    case .notifySpent(let day): "Today's notification was broadcast already. The next one is possible on \(day)."
    case .notifying(let day): "A notification is being broadcast. The next one is possible on \(day)."
    case .clockNotSet: "This machine's clock shows a time before 2026. Set it: notifications are limited to one a day."
    }
  }
}
