/// The filter of a signal subscription. A nil part matches everything.
public struct SignalMatch: Hashable, Sendable {
  /// A unique or a well-known name; a well-known one matches signals of its owner.
  public var sender: String?
  public var path: ObjectPath?
  /// Matches this path and all below it. The part is not sent to the bus: dbus-daemon 1.14 treats rules that differ only in it as equal, so
  /// that removing one removes another.
  public var pathNamespace: ObjectPath?
  public var interface: String?
  public var member: String?
  /// The first argument, if it is a string.
  public var arg0: String?

  public init(
    sender: String? = nil, path: ObjectPath? = nil, pathNamespace: ObjectPath? = nil, interface: String? = nil,
    member: String? = nil, arg0: String? = nil
  ) {
    self.sender = sender
    self.path = path
    self.pathNamespace = pathNamespace
    self.interface = interface
    self.member = member
    self.arg0 = arg0
  }

  /// The match rule for the bus; nil if a part is invalid.
  var rule: String? {
    guard sender.map(Validity.isBusName) ?? true, interface.map(Validity.isInterface) ?? true,
      member.map(Validity.isMember) ?? true, arg0.map(Validity.isText) ?? true, path == nil || pathNamespace == nil
    else { return nil }
    var rule = "type='signal'"
    func add(_ key: String, _ value: String?) {
      // Only arg0 can contain an apostrophe: the quotes are closed, the apostrophe is escaped, and the quotes are
      // opened again.
      if let value {
        rule += ",\(key)='\(value.split(separator: "'", omittingEmptySubsequences: false).joined(separator: "'\\''"))'"
      }
    }
    add("sender", sender)
    add("path", path?.string)
    add("interface", interface)
    add("member", member)
    add("arg0", arg0)
    return rule
  }

  /// Whether the signal matches, regardless of its sender.
  func matches(_ message: Message) -> Bool {
    if let member, member != message.member { return false }
    if let interface, interface != message.interface { return false }
    if let path, path != message.path { return false }
    if let pathNamespace, message.path?.isWithin(pathNamespace) != true { return false }
    if let arg0 {
      guard case .string(arg0)? = message.arguments.first else { return false }
    }
    return true
  }
}
