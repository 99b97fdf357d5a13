import Common

/// Packets that leave one after the other, so that a phone can follow. Facts: bitchat.md section 7.
///
/// Each link has two lanes with room of their own: what this node says goes before what it passes on.
struct PacedPackets: Sendable {
  struct Packet: Sendable {
    let bytes: [UInt8]
    let link: LinkID
    let kind: PacketClass
    let due: Instant
  }

  enum Lane: Sendable {
    case own
    case passedOn
  }

  private struct Waiting: Sendable {
    let bytes: [UInt8]
    let kind: PacketClass
    let pause: Duration
    let since: Instant
  }

  /// What waits for a link, in the order of its coming.
  private struct Road: Sendable {
    var own: [Waiting] = []
    var passedOn: [Waiting] = []
    /// When the last packet has left.
    var last: Instant?

    var next: Instant? {
      guard let first = own.first ?? passedOn.first else { return nil }
      return max(first.since, last?.advanced(by: first.pause) ?? first.since)
    }

    mutating func take() -> Waiting { own.isEmpty ? passedOn.removeFirst() : own.removeFirst() }
  }

  /// From one fragment to the next on a link.
  static let pause = Duration.milliseconds(25)
  /// The most packets in one lane of a link: a file of 1 MiB has 2,300.
  static let limit = 2560

  private var roads: [LinkID: Road] = [:]

  var count: Int { roads.values.map { $0.own.count + $0.passedOn.count }.reduce(0, +) }
  /// The packets in the longest lane.
  var longest: Int { roads.values.map { max($0.own.count, $0.passedOn.count) }.max() ?? 0 }
  var deadline: Instant? { roads.isEmpty ? nil : roads.values.compactMap(\.next).min() }

  /// Whether something of this node's own waits for a link.
  func isOwnWaiting(for link: LinkID) -> Bool { roads[link]?.own.isEmpty == false }

  /// Takes packets in that belong together.
  ///
  /// - Returns: whether there is room for all; else none is taken.
  mutating func add(
    _ bytes: [[UInt8]], on link: LinkID, as kind: PacketClass, in lane: Lane, pause: Duration = PacedPackets.pause,
    at now: Instant
  ) -> Bool {
    let place: WritableKeyPath<Road, [Waiting]> =
      switch lane {
      case .own: \.own
      case .passedOn: \.passedOn
      }
    guard roads[link, default: Road()][keyPath: place].count + bytes.count <= Self.limit else { return false }
    roads[link, default: Road()][keyPath: place] += bytes.map {
      Waiting(bytes: $0, kind: kind, pause: pause, since: now)
    }
    return true
  }

  /// - Returns: what leaves now, in the order of its moments.
  mutating func takeDue(at now: Instant) -> [Packet] {
    guard let deadline, deadline <= now else { return [] }
    var due: [Packet] = []
    for link in roads.keys {
      while let next = roads[link]?.next, next <= now, let packet = roads[link]?.take() {
        roads[link]?.last = next
        due.append(Packet(bytes: packet.bytes, link: link, kind: packet.kind, due: next))
      }
    }
    return due.sorted { ($0.due, $0.link.number) < ($1.due, $1.link.number) }
  }

  mutating func forget(_ link: LinkID) { roads[link] = nil }
}
