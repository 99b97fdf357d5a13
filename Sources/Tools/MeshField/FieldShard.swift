import Bitchat

/// Part of the nodes and their events. Parts run in parallel: no effect of a node reaches another one sooner than the
/// minimum latency of a frame, so parts are independent for that time.
actor FieldShard {
  private var part: FieldPart

  init(_ part: FieldPart) { self.part = part }

  /// Handles the events before `end`, in nanoseconds since the start.
  func run(_ incoming: [FieldEvent], until end: Int64) -> FieldPart.Step { part.run(incoming, until: end) }

  /// Returns the final state and the results.
  func finish() -> (nodes: [FieldNode], tally: FieldTally, most: MeshEngine.Holdings) { part.finish() }

  /// Updates the maximum holdings.
  func look() { part.look() }
}
