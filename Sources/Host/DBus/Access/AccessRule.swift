/// Which programs may call, and which may only look. The service asks a second time what the bus's policy has decided, for
/// the policy may be missing or mistaken; and the policy cannot tell one property from another.
public struct AccessRule: Sendable {
  /// Whether a call reaches its method without the question which program calls: the method answers that by itself.
  public let isOpen: @Sendable (Message) -> Bool
  /// Whether the program behind a connection is of the group: it may call methods, set properties and see everything.
  public let allows: @Sendable (Credentials) -> Bool
  /// The sentence that other programs are answered.
  public let refusal: String

  public init(
    refusal: String, isOpen: @escaping @Sendable (Message) -> Bool = { _ in false },
    allows: @escaping @Sendable (Credentials) -> Bool
  ) {
    self.refusal = refusal
    self.isOpen = isOpen
    self.allows = allows
  }

  /// Whether a call only looks: at the description of an object, at properties, at the list of objects. Every program may
  /// look, and sees what is for its audience.
  static func looks(_ message: Message) -> Bool {
    switch message.interface {
    case StandardName.introspectable, StandardName.objectManager: true
    case StandardName.properties: message.member != "Set"
    default: false
    }
  }
}
