import Loop

/// The part of the tool that a service provides: its commands, its part of `earshot status`, and sentences for its
/// events and counters.
public struct ToolPart: Sendable {
  /// Every object of the service on the bus, by path.
  public typealias Objects = [String: Client.Properties]

  public let verbs: [Verb]
  /// The service's lines of `earshot status`, each with its newline; empty if there is nothing to show.
  public let status: @LoopActor @Sendable (Objects) -> String

  /// Returns an event as a sentence; nil if this service has none for it.
  let event: @LoopActor @Sendable (ServiceEvent) -> String?
  /// The meanings of its counters; nil if it has none.
  let counters: CounterMeanings?

  public init(
    verbs: [Verb], status: @escaping @LoopActor @Sendable (Objects) -> String,
    event: @escaping @LoopActor @Sendable (ServiceEvent) -> String? = { _ in nil }, counters: CounterMeanings? = nil
  ) {
    self.verbs = verbs
    self.status = status
    self.event = event
    self.counters = counters
  }
}
