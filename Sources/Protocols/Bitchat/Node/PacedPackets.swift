import Common

/// Packets that leave one after the other, so that a phone can follow. Facts: bitchat.md section 7.
struct PacedPackets: Sendable {
  struct Packet: Sendable {
    let bytes: [UInt8]
    let link: LinkID
    let kind: PacketClass
    let due: Instant
  }

  /// From one fragment to the next on a link.
  static let pause = Duration.milliseconds(25)
  /// The most packets that wait, for all links.
  static let limit = 4096

  /// In the order of their moments.
  private var packets: [Packet] = []
  /// When the last packet for a link leaves.
  private var last: [LinkID: Instant] = [:]

  var count: Int { packets.count }
  var deadline: Instant? { packets.first?.due }

  /// Whether something waits for a link.
  func isWaiting(for link: LinkID) -> Bool { packets.contains { $0.link == link } }

  /// Takes packets in that belong together.
  ///
  /// - Returns: whether there is room for all; else none is taken.
  mutating func add(
    _ bytes: [[UInt8]], on link: LinkID, as kind: PacketClass, pause: Duration = PacedPackets.pause, at now: Instant
  ) -> Bool {
    guard packets.count + bytes.count <= Self.limit else { return false }
    for packet in bytes {
      let due = max(now, last[link]?.advanced(by: pause) ?? now)
      last[link] = due
      let place = packets.lastIndex { $0.due <= due }.map { $0 + 1 } ?? 0
      packets.insert(Packet(bytes: packet, link: link, kind: kind, due: due), at: place)
    }
    return true
  }

  mutating func takeDue(at now: Instant) -> [Packet] {
    let due = packets.prefix { $0.due <= now }
    packets.removeFirst(due.count)
    return Array(due)
  }

  mutating func forget(_ link: LinkID) {
    packets.removeAll { $0.link == link }
    last[link] = nil
  }
}
