/// One message as a plain value.
public struct Message: Hashable, Sendable {
  public enum Kind: Hashable, Sendable {
    case methodCall, methodReturn, error, signal
  }

  public var kind: Kind
  /// The sender's serial number; 0 before it is sent.
  public var serial: UInt32 = 0
  /// The serial of the call that a return or an error answers.
  public var replySerial: UInt32?
  /// The sender's unique name. The bus sets it, so it is authentic.
  public var sender: String?
  public var destination: String?
  public var path: ObjectPath?
  public var interface: String?
  public var member: String?
  public var errorName: String?
  public var expectsReply = true
  public var arguments: [DBusValue]

  /// The error that occurred while the arguments of a received message were decoded; nil if there was none. After an
  /// error `arguments` is empty.
  var fault: DBusError?

  init(_ kind: Kind, arguments: [DBusValue] = []) {
    self.kind = kind
    self.arguments = arguments
  }

  public static func call(
    _ destination: String, _ path: ObjectPath, _ interface: String, _ method: String, _ arguments: [DBusValue] = []
  ) -> Message {
    var message = Message(.methodCall, arguments: arguments)
    message.destination = destination
    message.path = path
    message.interface = interface
    message.member = method
    return message
  }

  public static func signal(
    _ path: ObjectPath, _ interface: String, _ signal: String, _ arguments: [DBusValue] = [],
    to destination: String? = nil
  ) -> Message {
    var message = Message(.signal, arguments: arguments)
    message.destination = destination
    message.path = path
    message.interface = interface
    message.member = signal
    return message
  }

  static func reply(to serial: UInt32, at destination: String?, _ arguments: [DBusValue]) -> Message {
    var message = Message(.methodReturn, arguments: arguments)
    message.replySerial = serial
    message.destination = destination
    return message
  }

  static func error(_ error: DBusError, to serial: UInt32, at destination: String?) -> Message {
    var message = Message(.error, arguments: [.string(error.sendableMessage)])
    message.errorName = Validity.isErrorName(error.name) ? error.name : DBusError.Name.failed.rawValue
    message.replySerial = serial
    message.destination = destination
    return message
  }

  /// The error that an error message carries.
  var error: DBusError {
    DBusError(name: errorName ?? DBusError.Name.failed.rawValue, message: arguments.first?.asString ?? "")
  }
}

extension DBusError {
  private static let longestMessage = 1000

  /// The sentence, cut to `longestMessage` code points: it may contain a long nickname of a peer.
  fileprivate var sendableMessage: String {
    guard message.utf8.count > Self.longestMessage else { return message }
    return String(String.UnicodeScalarView(message.unicodeScalars.prefix(Self.longestMessage)))
  }
}
