import Common

/// A D-Bus error: answered to a caller, or received as the answer to a call.
public struct DBusError: CodedError, Hashable, CustomStringConvertible {
  /// The error's name on the bus: `org.earshot.Error.Busy`. Clients decide by it.
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

  /// Whether this is the error of that name.
  public func `is`(_ name: Name) -> Bool { self.name == name.rawValue }
}

extension DBusError {
  /// The one table of the errors' names: ours, and those that every D-Bus program knows.
  public enum Name: String, CaseIterable, Sendable {
    /// The arguments are not what the method takes, or a value is out of its range.
    case invalidArgs = "org.earshot.Error.InvalidArgs"
    /// Not possible yet: something has to be set up, started or plugged in first.
    case notReady = "org.earshot.Error.NotReady"
    /// Not possible now: another program is using it.
    case busy = "org.earshot.Error.Busy"
    /// What the call names does not exist.
    case notFound = "org.earshot.Error.NotFound"
    /// The settings or this machine do not let it be done at all.
    case notSupported = "org.earshot.Error.NotSupported"
    /// The caller may not do that.
    case denied = "org.earshot.Error.Denied"
    /// It took too long.
    case timeout = "org.earshot.Error.Timeout"
    /// The peer went away before the end.
    case peerLost = "org.earshot.Error.PeerLost"
    /// The peer said something that its protocol does not allow.
    case protocolError = "org.earshot.Error.Protocol"
    /// More than a named limit allows.
    case limitExceeded = "org.earshot.Error.LimitExceeded"
    /// Something failed here.
    case failed = "org.earshot.Error.Failed"
    /// There is no connection to the bus, or it broke while the answer was awaited.
    case disconnected = "org.freedesktop.DBus.Error.Disconnected"
    case unknownObject = "org.freedesktop.DBus.Error.UnknownObject"
    case unknownInterface = "org.freedesktop.DBus.Error.UnknownInterface"
    case unknownMethod = "org.freedesktop.DBus.Error.UnknownMethod"
    case unknownProperty = "org.freedesktop.DBus.Error.UnknownProperty"
    case readOnly = "org.freedesktop.DBus.Error.PropertyReadOnly"
    /// The name that was called has no owner. From the bus.
    case serviceUnknown = "org.freedesktop.DBus.Error.ServiceUnknown"
    /// The name has no owner. From the bus.
    case nameHasNoOwner = "org.freedesktop.DBus.Error.NameHasNoOwner"
    /// The callee went away, or never answered. From the bus.
    case noReply = "org.freedesktop.DBus.Error.NoReply"
    /// The bus's policy is against the call, from the bus; or a property is not for the caller, from the object tree.
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
