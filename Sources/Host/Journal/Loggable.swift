import Common

/// A type that may appear in a log line. A conforming type guarantees that `logText` contains no secret and no payload.
public protocol Loggable {
  /// The text in the log; it is made printable and limited in length like any untrusted string.
  var logText: String { get }
}

extension LinkID: Loggable {
  public var logText: String { description }
}
