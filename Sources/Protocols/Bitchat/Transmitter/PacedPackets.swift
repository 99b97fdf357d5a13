import BitchatWire
import Common

/// Packets that are sent at intervals, so that a phone can follow. Facts: bitchat.md section 7.
///
/// Each link has two lanes with separate capacity: own packets are sent before relayed ones. If the relay lane is full,
/// the source with the most packets loses its last ones.
struct PacedPackets: Sendable {
  struct Packet: Sendable {
    let bytes: [UInt8]
    let link: LinkID
    let kind: PacketClass
    let due: Instant
  }

  enum Lane: Hashable, Sendable {
    case own
    /// Packets of other nodes that arrived over this link; nil for answers of this node to sync requests.
    case passedOn(from: LinkID?)

    /// Order for ties, which is the same in each run, unlike that of a dictionary.
    fileprivate var order: UInt64 {
      switch self {
      case .own, .passedOn(from: nil): 0
      case .passedOn(from: let link?): link.number
      }
    }
  }

  private struct Waiting: Sendable {
    let bytes: [UInt8]
    let kind: PacketClass
    let pause: Duration
    let since: Instant
    let lane: Lane
  }

  /// Waiting packets of a link, in order of arrival.
  private struct Road: Sendable {
    var own: [Waiting] = []
    var passedOn: [Waiting] = []
    /// Number of waiting packets per source.
    var shares: [Lane: Int] = [:]
    /// When the last packet was sent.
    var last: Instant?
    /// End of the time reserved for a fragment of an own file.
    var heldUntil = Instant.zero

    var next: Instant? {
      guard let first = own.first ?? passedOn.first else { return nil }
      return max(first.since, last?.advanced(by: first.pause) ?? first.since, heldUntil)
    }

    mutating func take() -> Waiting {
      guard own.isEmpty else { return own.removeFirst() }
      let waiting = passedOn.removeFirst()
      release(waiting.lane)
      return waiting
    }

    /// Queues packets if there is capacity, or if another source would still have as many after losing some.
    ///
    /// - Returns: number of other packets dropped; nil if these were rejected.
    mutating func add(_ packets: [Waiting], from lane: Lane) -> Int? {
      guard lane != .own else {
        guard own.count + packets.count <= PacedPackets.limit else { return nil }
        own += packets
        return 0
      }
      let missing = passedOn.count + packets.count - PacedPackets.limit
      if missing > 0 {
        guard let most = shares.max(by: { ($0.value, $0.key.order) < ($1.value, $1.key.order) }), most.key != lane,
          most.value - missing >= shares[lane, default: 0] + packets.count
        else { return nil }
        for _ in 0..<missing {
          guard let place = passedOn.lastIndex(where: { $0.lane == most.key }) else { break }
          passedOn.remove(at: place)
          release(most.key)
        }
      }
      passedOn += packets
      shares[lane, default: 0] += packets.count
      return max(0, missing)
    }

    mutating func remove(where isUnwanted: ([UInt8]) -> Bool) {
      own.removeAll { isUnwanted($0.bytes) }
      for waiting in passedOn where isUnwanted(waiting.bytes) { release(waiting.lane) }
      passedOn.removeAll { isUnwanted($0.bytes) }
    }

    private mutating func release(_ lane: Lane) {
      shares[lane, default: 1] -= 1
      if shares[lane] == 0 { shares[lane] = nil }
    }
  }

  /// Minimum time between fragments on a link.
  static let pause = Limits.fragmentPause
  /// Maximum packets per lane of a link: a file of 1 MiB has 2,300.
  static let limit = 2560

  private var roads: [LinkID: Road] = [:]

  var count: Int { roads.values.map { $0.own.count + $0.passedOn.count }.reduce(0, +) }
  /// Number of packets in the longest lane.
  var longest: Int { roads.values.map { max($0.own.count, $0.passedOn.count) }.max() ?? 0 }
  var deadline: Instant? { roads.isEmpty ? nil : roads.values.compactMap(\.next).min() }

  /// Whether half of the lane for own packets is used, so that new messages should wait.
  func isOwnFull(for link: LinkID) -> Bool { (roads[link]?.own.count ?? 0) >= Self.limit / 2 }

  /// Whether an own packet waits for a link.
  func isOwnWaiting(for link: LinkID) -> Bool { roads[link]?.own.isEmpty == false }

  /// Delays waiting packets after a fragment of an own file.
  mutating func giveWay(on link: LinkID, at now: Instant) {
    roads[link, default: Road()].heldUntil = now.advanced(by: Self.pause)
  }

  /// Queues packets that belong together.
  ///
  /// - Returns: number of other packets dropped; nil if there is not enough capacity for all, and none was queued.
  mutating func add(
    _ bytes: [[UInt8]], on link: LinkID, as kind: PacketClass, in lane: Lane, pause: Duration = PacedPackets.pause,
    at now: Instant
  ) -> Int? {
    let packets = bytes.map { Waiting(bytes: $0, kind: kind, pause: pause, since: now, lane: lane) }
    return roads[link, default: Road()].add(packets, from: lane)
  }

  /// Takes the packets that are due.
  ///
  /// - Parameter isShared: whether fragments of an own file also wait for the link, and alternate with these packets.
  /// - Returns: packets to be sent now, in order.
  mutating func takeDue(at now: Instant, isShared: (LinkID) -> Bool = { _ in false }) -> [Packet] {
    guard let deadline, deadline <= now else { return [] }
    var due: [Packet] = []
    for link in roads.keys {
      while let next = roads[link]?.next, next <= now, let packet = roads[link]?.take() {
        // After a standstill, packets do not leave all at once: a phone could not follow.
        let moment = max(next, now.advanced(by: .zero - Limits.fragmentLateness))
        roads[link]?.last = moment
        if isShared(link) { roads[link]?.heldUntil = moment.advanced(by: Self.pause * 2) }
        due.append(Packet(bytes: packet.bytes, link: link, kind: packet.kind, due: next))
      }
    }
    return due.sorted { ($0.due, $0.link.number) < ($1.due, $1.link.number) }
  }

  /// Removes the packets for which `isUnwanted` holds.
  mutating func remove(where isUnwanted: ([UInt8]) -> Bool) {
    for link in roads.keys { roads[link]?.remove(where: isUnwanted) }
  }

  mutating func forget(_ link: LinkID) { roads[link] = nil }
}
