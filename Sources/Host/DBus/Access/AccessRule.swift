/// Who may call what is not for everybody. A second look behind the bus's policy, which may be missing or mistaken.
public struct AccessRule: Sendable {
  /// Calls that anybody may make.
  public let isPublic: @Sendable (Message) -> Bool
  /// Whether who is behind a connection may make the others.
  public let allows: @Sendable (Credentials) -> Bool
  /// What the others are told: one sentence.
  public let refusal: String

  public init(
    refusal: String, isPublic: @escaping @Sendable (Message) -> Bool,
    allows: @escaping @Sendable (Credentials) -> Bool
  ) {
    self.refusal = refusal
    self.isPublic = isPublic
    self.allows = allows
  }

  /// Calls that only look: introspection, pings, reading properties, listing objects.
  public static func onlyLooks(_ message: Message) -> Bool {
    switch message.interface {
    case "org.freedesktop.DBus.Introspectable", "org.freedesktop.DBus.Peer", "org.freedesktop.DBus.ObjectManager": true
    case "org.freedesktop.DBus.Properties": message.member != "Set"
    default: false
    }
  }
}
