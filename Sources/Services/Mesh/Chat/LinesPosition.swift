import MeshViews

/// Tracks which messages `earshot chat` has written as lines.
///
/// Existing messages are written if unread. Later ones are selected by number only: if several programs read from one
/// service, the first marks a message as seen for all.
struct LinesPosition: Sendable {
  /// Number of the last examined message.
  private var last: UInt32 = 0
  /// Number of listings by the service.
  private var listings = 0
  private var node = ""

  /// Records that the service begins a listing with the node.
  mutating func begin(_ node: MeshView) {
    listings += 1
    // After a wipe, or a restart without a disk, the node has a new identity, and numbers may begin anew.
    if !node.id.isEmpty {
      if !self.node.isEmpty, node.id != self.node { last = 0 }
      self.node = node.id
    }
  }

  /// Messages of others to be written, in order.
  mutating func take(_ messages: [MeshMessageView], own: String) -> [MeshMessageView] {
    var taken: [MeshMessageView] = []
    for message in messages where message.number > last {
      last = message.number
      guard message.sender != own, message.state == .unread || listings > 1 else { continue }
      taken.append(message)
    }
    return taken
  }
}
