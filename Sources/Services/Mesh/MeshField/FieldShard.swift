import Bitchat

/// A part of the nodes, and what happens to them. Parts run side by side: nothing that a node does reaches another one sooner than a
/// frame's shortest way takes, so for as long no part needs to know of the others.
actor FieldShard {
  private var part: FieldPart

  init(_ part: FieldPart) { self.part = part }

  /// Lets happen what is before `end`, in nanoseconds since the beginning.
  func run(_ incoming: [FieldEvent], until end: Int64) -> FieldPart.Step { part.run(incoming, until: end) }

  /// What became of everything.
  func finish() -> (nodes: [FieldNode], tally: FieldTally, most: MeshEngine.Holdings) { part.finish() }

  /// Looks at what the nodes keep.
  func look() { part.look() }
}
