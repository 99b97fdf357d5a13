import Common

/// Packets that leave one after the other, so that a phone can follow. Facts: bitchat.md section 7.
///
/// Each link has two lanes with room of their own: what this node says goes before what it passes on. Where there is no room for
/// what is passed on, whoever takes most of it loses the last of it.
struct PacedPackets: Sendable {
  struct Packet: Sendable {
    let bytes: [UInt8]
    let link: LinkID
    let kind: PacketClass
    let due: Instant
  }

  enum Lane: Hashable, Sendable {
    case own
    /// What came over that link; nil for answers, which this node gives of its own accord.
    case passedOn(from: LinkID?)

    /// The same in each run, as the order of a dictionary is not.
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

  /// What waits for a link, in the order of its coming.
  private struct Road: Sendable {
    var own: [Waiting] = []
    var passedOn: [Waiting] = []
    /// How many of those each source has.
    var shares: [Lane: Int] = [:]
    /// When the last packet has left.
    var last: Instant?
    /// Until then a fragment of an own file has the link.
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

    /// Takes packets in, if there is room, or another source has more than this one has with them.
    ///
    /// - Returns: how many of others' packets went; nil if these were not taken.
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

  /// From one fragment to the next on a link.
  static let pause = Duration.milliseconds(25)
  /// The most packets in one lane of a link: a file of 1 MiB has 2,300.
  static let limit = 2560

  private var roads: [LinkID: Road] = [:]

  var count: Int { roads.values.map { $0.own.count + $0.passedOn.count }.reduce(0, +) }
  /// The packets in the longest lane.
  var longest: Int { roads.values.map { max($0.own.count, $0.passedOn.count) }.max() ?? 0 }
  var deadline: Instant? { roads.isEmpty ? nil : roads.values.compactMap(\.next).min() }

  /// Whether so much of this node's own waits for a link that it should say nothing more for now.
  func isOwnFull(for link: LinkID) -> Bool { (roads[link]?.own.count ?? 0) >= Self.limit / 2 }

  /// Whether something of this node's own waits for a link.
  func isOwnWaiting(for link: LinkID) -> Bool { roads[link]?.own.isEmpty == false }

  /// A fragment of an own file goes over a link now, and what waits for that leaves after it.
  mutating func giveWay(on link: LinkID, at now: Instant) {
    roads[link, default: Road()].heldUntil = now.advanced(by: Self.pause)
  }

  /// Takes packets in that belong together.
  ///
  /// - Returns: how many of others' packets had to make room; nil where there is none for all of these, and none is taken.
  mutating func add(
    _ bytes: [[UInt8]], on link: LinkID, as kind: PacketClass, in lane: Lane, pause: Duration = PacedPackets.pause,
    at now: Instant
  ) -> Int? {
    let packets = bytes.map { Waiting(bytes: $0, kind: kind, pause: pause, since: now, lane: lane) }
    return roads[link, default: Road()].add(packets, from: lane)
  }

  /// - Parameter isShared: whether fragments of an own file wait for the link as well: those leave in turn with these.
  /// - Returns: what leaves now, in the order of its moments.
  mutating func takeDue(at now: Instant, isShared: (LinkID) -> Bool = { _ in false }) -> [Packet] {
    guard let deadline, deadline <= now else { return [] }
    var due: [Packet] = []
    for link in roads.keys {
      while let next = roads[link]?.next, next <= now, let packet = roads[link]?.take() {
        // After a standstill they do not all leave at once: a phone could not follow.
        let moment = max(next, now.advanced(by: .zero - OutgoingFiles.lateness))
        roads[link]?.last = moment
        if isShared(link) { roads[link]?.heldUntil = moment.advanced(by: Self.pause * 2) }
        due.append(Packet(bytes: packet.bytes, link: link, kind: packet.kind, due: next))
      }
    }
    return due.sorted { ($0.due, $0.link.number) < ($1.due, $1.link.number) }
  }

  /// Takes packets out that are not wanted any more.
  mutating func remove(where isUnwanted: ([UInt8]) -> Bool) {
    for link in roads.keys { roads[link]?.remove(where: isUnwanted) }
  }

  mutating func forget(_ link: LinkID) { roads[link] = nil }
}
