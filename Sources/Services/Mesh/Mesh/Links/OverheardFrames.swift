import Common

/// Frames that links have heard while they were notified for another one: on a radio that does not keep its clients apart.
struct OverheardFrames {
  /// Within this time each link's own turn comes, for fragments keep a pace of their own on each link. A frame that the node sends again
  /// later goes out again.
  static let lifetime = Duration.seconds(1)
  static let limit = 256

  private struct Entry {
    let frame: [UInt8]
    var links: Set<LinkID>
    let end: Instant
  }

  /// In the order of their ends.
  private var entries: [Entry] = []

  mutating func note(_ frame: [UInt8], on links: [LinkID], at now: Instant) {
    entries.removeAll { $0.end <= now }
    guard !links.isEmpty else { return }
    if entries.count >= Self.limit { entries.removeFirst() }
    entries.append(Entry(frame: frame, links: Set(links), end: now.advanced(by: Self.lifetime)))
  }

  /// Whether a link has heard the frame whose turn it is there. One hearing answers for one turn.
  mutating func take(_ frame: [UInt8], on link: LinkID, at now: Instant) -> Bool {
    let place = entries.firstIndex { $0.end > now && $0.links.contains(link) && $0.frame == frame }
    guard let place else { return false }
    entries[place].links.remove(link)
    return true
  }
}
