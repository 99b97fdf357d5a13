import Common

/// Frames that links received while another link was notified, on a radio that does not keep its clients apart.
struct OverheardFrames {
  /// Time in which the frame becomes due on the other links, whose fragments are paced separately. A frame that is sent
  /// again later is not suppressed.
  static let lifetime = Duration.seconds(1)
  static let limit = 256

  private struct Entry {
    let frame: [UInt8]
    var links: Set<LinkID>
    let end: Instant
  }

  /// In order of expiry.
  private var entries: [Entry] = []

  mutating func note(_ frame: [UInt8], on links: [LinkID], at now: Instant) {
    entries.removeAll { $0.end <= now }
    guard !links.isEmpty else { return }
    if entries.count >= Self.limit { entries.removeFirst() }
    entries.append(Entry(frame: frame, links: Set(links), end: now.advanced(by: Self.lifetime)))
  }

  /// Whether a link has already received a due frame. Each reception counts once.
  mutating func take(_ frame: [UInt8], on link: LinkID, at now: Instant) -> Bool {
    let place = entries.firstIndex { $0.end > now && $0.links.contains(link) && $0.frame == frame }
    guard let place else { return false }
    entries[place].links.remove(link)
    return true
  }
}
