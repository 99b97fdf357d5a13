import MeshViews

/// Which messages `earshot chat` has written as lines. A value.
///
/// Of those that are there at the start, the unread ones are written. Of those that come later the numbers alone decide: several
/// programs may read from one service, and the first one to do so marks a message as seen for all of them.
struct LinesPosition: Sendable {
  /// The number of the last message that was looked at.
  private var last: UInt32 = 0
  /// How often the service has begun to list what there is.
  private var listings = 0
  private var node = ""

  /// The service lists what there is, beginning with the node.
  mutating func begin(_ node: MeshView) {
    listings += 1
    // After a wipe the node is somebody else, and so is one without a disk after a restart: numbers may begin anew.
    if !node.id.isEmpty {
      if !self.node.isEmpty, node.id != self.node { last = 0 }
      self.node = node.id
    }
  }

  /// The messages of others that are to be written, in their order.
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
