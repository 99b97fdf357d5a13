import BitchatWire
import Common

/// Reassembles packets from fragments in any order, within bounds that no sender can exceed. Facts: bitchat.md section
/// 7.
///
/// At a bound, the assembler evicts a set. If a sender has too many sets over one link, its oldest is evicted.
/// Otherwise a set of the link that uses the most is evicted: sets of unknown senders first, then the oldest.
///
/// Fragments are not signed: their sender can be forged, but not the link. A fragment that contradicts a set therefore
/// does not end the set.
public struct FragmentAssembler: Sendable {
  /// Limits on the number, age and size of incomplete packets.
  public struct Bounds: Hashable, Sendable {
    /// Maximum number of incomplete packets of all senders together.
    public var sets = 128
    /// Maximum incomplete packets per sender and link.
    public var setsPerSender = 8
    /// Maximum time between new fragments of a packet that is not public.
    public var time = Duration.seconds(30)
    /// Maximum time from the first fragment to the complete packet. Missing fragments of a public packet may be
    /// requested meanwhile.
    public var longestTime = Duration.seconds(300)
    /// Maximum bytes of slices per packet.
    public var setBytes = Limits.payloadBytes
    /// Maximum bytes in all, including the overhead of each slice.
    public var bytes = 8 << 20

    public init() {}
  }

  /// Result of adding a fragment to the set of its packet.
  public enum Outcome: Hashable, Sendable {
    case stored
    /// The fragment had come before, with the same slice.
    case duplicate
    /// The fragment was the last missing one. The value is the bytes of the packet.
    case complete([UInt8])
    /// Rejected: another slice is stored for its index.
    case otherSlice
    /// Rejected: the packet would exceed `setBytes`.
    case tooLong
  }

  private typealias Key = FragmentSetID

  private struct Set {
    let begin: Instant
    let isPublic: Bool
    /// Arrival of the latest new fragment.
    var latest: Instant
    /// Number of requests for missing fragments since the last new fragment arrived.
    var questions = 0
    /// Last reported percentage; nil before the first report.
    var reported: Int?
    /// Link over which the first fragment of the set arrived; nil without a link.
    let link: LinkID?
    let isKnown: Bool
    var slices: [UInt16: [UInt8]] = [:]
    /// Sum of the lengths of the received slices.
    var bytes = 0
    /// Lowest TTL with which a fragment of the set arrived.
    var timeToLive = UInt8.max

    /// Memory that the set uses, in bytes.
    var cost: Int { bytes + slices.count * FragmentAssembler.sliceCost }

    /// Returns when the set is dropped if no further fragment arrives.
    func end(_ bounds: Bounds) -> Instant {
      let end = begin.advanced(by: bounds.longestTime)
      return isPublic ? end : min(end, latest.advanced(by: bounds.time))
    }
  }

  /// Overhead of a stored slice, in bytes: array header and table entry.
  static let sliceCost = 80

  private let bounds: Bounds
  private var sets: [Key: Set] = [:]
  /// Sum of the costs of all sets.
  private var cost = 0
  /// Packets that timed out or were evicted.
  public private(set) var abandoned = 0
  /// Abandoned packets whose progress was reported, until `takeLost` returns them.
  private var lost: [FragmentSetID] = []

  public init(bounds: Bounds = .init()) {
    self.bounds = bounds
  }

  /// Number of packets of which fragments are missing.
  public var count: Int { sets.count }
  /// Bytes in use, including the overhead of each slice.
  public var bytes: Int { cost }

  /// Next time at which a set expires; nil if there is no set.
  public var deadline: Instant? {
    var first: Instant?
    for set in sets.values { first = min(first ?? set.end(bounds), set.end(bounds)) }
    return first
  }

  /// Drops the packets that have timed out.
  public mutating func expire(at now: Instant) {
    guard let deadline, deadline <= now else { return }
    for (key, set) in sets where set.end(bounds) <= now { abandon(key) }
  }

  /// Adds a received fragment.
  ///
  /// - Parameters:
  ///   - isKnown: whether the sender has announced itself.
  ///   - isPublic: whether the fragment is for everybody; neighbours may then have missing ones.
  ///   - link: link of arrival.
  ///   - timeToLive: TTL of the fragment; nil leaves the packet's TTL unchanged. The packet gets the lowest TTL of its
  ///     fragments, so that the last one alone cannot make the sender seem nearer.
  public mutating func add(
    _ fragment: Fragment, from sender: PeerID, isKnown: Bool = false, isPublic: Bool = false,
    over link: LinkID? = nil, timeToLive: UInt8? = nil, at now: Instant
  ) -> Outcome {
    let key = Key(sender: sender, id: fragment.id, type: fragment.type, total: fragment.total)
    guard fragment.slice.count <= bounds.setBytes else { return .tooLong }
    if let set = sets[key] {
      if set.end(bounds) <= now {
        abandon(key)
      } else if let slice = set.slices[fragment.index] {
        return slice == fragment.slice ? .duplicate : .otherSlice
      } else if set.bytes + fragment.slice.count > bounds.setBytes {
        return .tooLong
      }
    }
    // Taking the set out of the table while it changes avoids a copy of its slices.
    var set = take(key) ?? begin(from: sender, isPublic: isPublic, isKnown: isKnown, over: link, at: now)
    set.slices[fragment.index] = fragment.slice
    set.bytes += fragment.slice.count
    (set.latest, set.questions) = (now, 0)
    if let timeToLive { set.timeToLive = min(set.timeToLive, timeToLive) }
    guard set.slices.count < Int(key.total) else {
      var bytes: [UInt8] = []
      bytes.reserveCapacity(set.bytes)
      for index in 0..<key.total { bytes += set.slices[index] ?? [] }
      if timeToLive != nil, bytes.count > 2 { bytes[2] = set.timeToLive }
      return .complete(bytes)
    }
    cost += set.cost
    sets[key] = set
    while cost > bounds.bytes, let victim = victim(but: key, by: \.cost) { abandon(victim) }
    return .stored
  }

  // MARK: Progress

  /// Returns how much of a packet has arrived, in percent below 100, and records it as reported; nil if that is not
  /// more than the last report.
  ///
  /// - Parameters:
  ///   - fewest: the number of fragments that must have arrived before anything is reported.
  ///   - age: the time since the first fragment before anything is reported.
  mutating func report(_ id: FragmentSetID, fewest: Int, age: Duration, at now: Instant) -> Int? {
    guard let set = sets[id], set.slices.count >= fewest, set.begin.advanced(by: age) <= now else { return nil }
    let percent = min(99, set.slices.count * 100 / Int(id.total))
    guard percent > set.reported ?? -1 else { return nil }
    sets[id]?.reported = percent
    return percent
  }

  /// Returns the packets whose progress was reported and that were abandoned since the last call.
  mutating func takeLost() -> [FragmentSetID] {
    guard !lost.isEmpty else { return [] }
    defer { lost = [] }
    return lost.sorted()
  }

  // MARK: Missing fragments

  /// Maximum requests for the missing fragments of a set without a new fragment in between.
  private static let questions = 8

  /// Returns when the next public set will have been without a new fragment for `pause`; nil if there is none.
  func nextStalled(_ pause: Duration) -> Instant? {
    var first: Instant?
    for set in sets.values where set.isPublic && set.questions < Self.questions {
      first = min(first ?? set.latest, set.latest)
    }
    return first?.advanced(by: pause)
  }

  /// Returns the public sets without a new fragment for `pause`, oldest first, and counts a request for each.
  mutating func askForStalled(_ pause: Duration, at now: Instant, limit: Int) -> [FragmentID] {
    let stalled = sets.filter {
      $0.value.isPublic && $0.value.questions < Self.questions && $0.value.latest.advanced(by: pause) <= now
    }
    let first = stalled.sorted(by: Self.isOlder).prefix(limit).map(\.key)
    for key in first { sets[key]?.questions += 1 }
    return first.map(\.id)
  }

  /// Number of stored fragments with this ID, in the sets of all senders.
  func count(of id: FragmentID) -> Int { sets.reduce(0) { $0 + ($1.key.id == id ? $1.value.slices.count : 0) } }

  /// Begins a set of a sender's fragments over a link. At a bound, evicts other sets first.
  private mutating func begin(
    from sender: PeerID, isPublic: Bool, isKnown: Bool, over link: LinkID?, at now: Instant
  ) -> Set {
    if sets.count >= bounds.sets { expire(at: now) }
    let others = sets.filter { $0.key.sender == sender && $0.value.link == link }
    if others.count >= bounds.setsPerSender, let oldest = others.min(by: Self.isOlder) { abandon(oldest.key) }
    if sets.count >= bounds.sets, let victim = victim(by: { _ in 1 }) { abandon(victim) }
    return Set(begin: now, isPublic: isPublic, latest: now, link: link, isKnown: isKnown)
  }

  /// Whether a set began before another one. The key decides ties, because the order of a dictionary differs in each
  /// run.
  private static func isOlder(_ one: [Key: Set].Element, _ other: [Key: Set].Element) -> Bool {
    (one.value.begin, one.key) < (other.value.begin, other.key)
  }

  /// Whether a set is evicted before another one of the same link.
  private static func isSooner(_ one: [Key: Set].Element, _ other: [Key: Set].Element) -> Bool {
    one.value.isKnown == other.value.isKnown ? isOlder(one, other) : other.value.isKnown
  }

  /// Returns the set to evict, of the link whose sets together weigh the most.
  private func victim(but key: Key? = nil, by weight: (Set) -> Int) -> Key? {
    var weights: [LinkID?: Int] = [:]
    for set in sets.values { weights[set.link, default: 0] += weight(set) }
    let links = weights.sorted { ($0.value, $0.key?.number ?? 0) > ($1.value, $1.key?.number ?? 0) }.map(\.key)
    for link in links {
      let ofLink = sets.filter { $0.key != key && $0.value.link == link }
      if let first = ofLink.min(by: Self.isSooner) { return first.key }
    }
    return nil
  }

  private mutating func abandon(_ key: Key) {
    abandoned += 1
    if take(key)?.reported != nil { lost.append(key) }
  }

  private mutating func take(_ key: Key) -> Set? {
    guard let set = sets.removeValue(forKey: key) else { return nil }
    cost -= set.cost
    return set
  }
}
