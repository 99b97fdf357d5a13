import Common

/// A D-Bus error, which is sent to a caller or received as the answer to a call.
public struct DBusError: CodedError, Hashable, CustomStringConvertible {
  /// The error's D-Bus name, which clients can handle: `org.earshot.Error.Busy`.
  public let name: String
  /// One sentence for a person.
  public let message: String

  public init(name: String, message: String) {
    self.name = name
    self.message = message
  }

  public init(_ name: Name, _ message: String) {
    self.init(name: name.rawValue, message: message)
  }

  public var code: String { name }
  public var sentence: String { message }
  public var description: String { "\(name): \(message)" }

  /// Whether this error has that name.
  public func `is`(_ name: Name) -> Bool { self.name == name.rawValue }
}

extension DBusError {
  /// The table of all error names: ours, and the standard ones.
  public enum Name: String, CaseIterable, Sendable {
    /// The arguments have the wrong types, or a value is out of range.
    case invalidArgs = "org.earshot.Error.InvalidArgs"
    /// The call is not possible yet: something must be set up, started or connected first.
    case notReady = "org.earshot.Error.NotReady"
    /// The call is not possible now, because another program uses the resource.
    case busy = "org.earshot.Error.Busy"
    /// The item that the call names does not exist.
    case notFound = "org.earshot.Error.NotFound"
    /// The settings or this machine do not support the call.
    case notSupported = "org.earshot.Error.NotSupported"
    /// The caller lacks permission.
    case denied = "org.earshot.Error.Denied"
    /// The time limit was exceeded.
    case timeout = "org.earshot.Error.Timeout"
    /// The peer disconnected before the end.
    case peerLost = "org.earshot.Error.PeerLost"
    /// The peer violated its protocol.
    case protocolError = "org.earshot.Error.Protocol"
    /// A named limit was exceeded.
    case limitExceeded = "org.earshot.Error.LimitExceeded"
    /// An internal failure of the service.
    case failed = "org.earshot.Error.Failed"
    /// The connection to the bus does not exist, or broke during the call.
    case disconnected = "org.freedesktop.DBus.Error.Disconnected"
    case unknownObject = "org.freedesktop.DBus.Error.UnknownObject"
    case unknownInterface = "org.freedesktop.DBus.Error.UnknownInterface"
    case unknownMethod = "org.freedesktop.DBus.Error.UnknownMethod"
    case unknownProperty = "org.freedesktop.DBus.Error.UnknownProperty"
    case readOnly = "org.freedesktop.DBus.Error.PropertyReadOnly"
    /// The called name has no owner. Sent by the bus.
    case serviceUnknown = "org.freedesktop.DBus.Error.ServiceUnknown"
    /// The name has no owner. Sent by the bus.
    case nameHasNoOwner = "org.freedesktop.DBus.Error.NameHasNoOwner"
    /// The callee disconnected, or did not answer. Sent by the bus.
    case noReply = "org.freedesktop.DBus.Error.NoReply"
    /// The bus's policy forbids the call (sent by the bus), or the caller may not read a property (sent by the object
    /// tree).
    case accessDenied = "org.freedesktop.DBus.Error.AccessDenied"
  }

  public static func invalidArgs(_ sentence: String) -> DBusError { DBusError(.invalidArgs, sentence) }
  public static func notReady(_ sentence: String) -> DBusError { DBusError(.notReady, sentence) }
  public static func busy(_ sentence: String) -> DBusError { DBusError(.busy, sentence) }
  public static func notFound(_ sentence: String) -> DBusError { DBusError(.notFound, sentence) }
  public static func denied(_ sentence: String) -> DBusError { DBusError(.denied, sentence) }
  public static func timeout(_ sentence: String) -> DBusError { DBusError(.timeout, sentence) }
  public static func peerLost(_ sentence: String) -> DBusError { DBusError(.peerLost, sentence) }
  public static func protocolError(_ sentence: String) -> DBusError { DBusError(.protocolError, sentence) }
  public static func limitExceeded(_ sentence: String) -> DBusError { DBusError(.limitExceeded, sentence) }
  public static func failed(_ sentence: String) -> DBusError { DBusError(.failed, sentence) }
  public static func disconnected(_ sentence: String) -> DBusError { DBusError(.disconnected, sentence) }
  public static func unknownObject(_ sentence: String) -> DBusError { DBusError(.unknownObject, sentence) }
  public static func unknownInterface(_ sentence: String) -> DBusError { DBusError(.unknownInterface, sentence) }
  public static func unknownMethod(_ sentence: String) -> DBusError { DBusError(.unknownMethod, sentence) }
  public static func unknownProperty(_ sentence: String) -> DBusError { DBusError(.unknownProperty, sentence) }
  public static func readOnly(_ sentence: String) -> DBusError { DBusError(.readOnly, sentence) }
}
