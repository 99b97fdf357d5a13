import Common

/// A type that may appear in a log line. Conforming is a promise that `logText` holds no secret and no payload.
public protocol Loggable {
  /// What the log shows; it is cleaned and cut like any foreign string.
  var logText: String { get }
}

extension LinkID: Loggable {
  public var logText: String { description }
}
