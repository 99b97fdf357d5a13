import Loop

/// What a service brings to the tool: its commands, and its part of `earshot status`.
public struct ToolPart: Sendable {
  /// Every object of the service on the bus, by path.
  public typealias Objects = [String: Client.Properties]

  public let verbs: [Verb]
  /// The service's lines of `earshot status`, each with its newline; empty if there is nothing to show.
  public let status: @LoopActor @Sendable (Objects) -> String

  public init(verbs: [Verb], status: @escaping @LoopActor @Sendable (Objects) -> String) {
    self.verbs = verbs
    self.status = status
  }
}
