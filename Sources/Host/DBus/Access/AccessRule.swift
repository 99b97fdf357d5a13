/// Decides which programs may call, and which may only read. The service checks again what the bus's policy has decided, because the policy
/// may be missing or wrong. The policy also cannot distinguish properties.
public struct AccessRule: Sendable {
  /// Whether a call is passed to its method without a check of the caller: the method performs its own check.
  public let isOpen: @Sendable (Message) -> Bool
  /// Whether a program with these credentials belongs to the group: it may call methods, set properties and read
  /// everything.
  public let allows: @Sendable (Credentials) -> Bool
  /// The error message for other programs.
  public let refusal: String

  public init(
    refusal: String, isOpen: @escaping @Sendable (Message) -> Bool = { _ in false },
    allows: @escaping @Sendable (Credentials) -> Bool
  ) {
    self.refusal = refusal
    self.isOpen = isOpen
    self.allows = allows
  }

  /// Whether a call only reads: introspection, properties, or the list of objects. Every program may read, and receives
  /// the data for its audience.
  static func looks(_ message: Message) -> Bool {
    switch message.interface {
    case StandardName.introspectable, StandardName.objectManager: true
    case StandardName.properties: message.member != "Set"
    default: false
    }
  }
}
