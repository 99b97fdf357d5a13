import Common

/// Puts packets together from fragments in any order, within bounds that no sender can exceed. Facts: bitchat.md section 7.
///
/// Where a bound is reached, a set gives way: of those that the sender began over the same link where these are too many, otherwise
/// of the link that takes the most room. Of those it is one of an unknown sender, if there is one, and the one that was begun first.
/// Nobody signs fragments: their sender can be forged, and the link that they come over cannot. So a fragment that contradicts a set
/// ends nothing.
public struct FragmentAssembler: Sendable {
  /// How much is kept.
  public struct Bounds: Hashable, Sendable {
    /// Packets under way, in all and from one sender over one link.
    public var sets = 128
    public var setsPerSender = 8
    /// How long after its latest new fragment another one must come.
    public var time = Duration.seconds(30)
    /// How long after its first fragment a packet must be complete. What is missing of a public one may be asked for meanwhile.
    public var longestTime = Duration.seconds(300)
    /// Bytes of slices for one packet.
    public var setBytes = Limits.payloadBytes
    /// Bytes in all, with what it costs to keep each slice.
    public var bytes = 8 << 20

    public init() {}
  }

  /// What became of a fragment.
  public enum Outcome: Hashable, Sendable {
    case stored
    /// The fragment had come before, with the same slice.
    case duplicate
    /// The fragment was the last one missing: the bytes of the packet.
    case complete([UInt8])
    /// The fragment was not taken: the one of its index that came before has another slice.
    case otherSlice
    /// The fragment was not taken: the packet would be too long.
    case tooLong
  }

  private typealias Key = FragmentSetID

  private struct Set {
    let begin: Instant
    let isPublic: Bool
    /// When the latest fragment came that had not come before.
    var latest: Instant
    /// How often others were asked for what is missing.
    var questions = 0
    /// The percentage that was reported last; nil before the first report.
    var reported: Int?
    /// Where its first fragment came from.
    let link: LinkID?
    let isKnown: Bool
    var slices: [UInt16: [UInt8]] = [:]
    /// Bytes of the slices.
    var bytes = 0
    /// The lowest time to live of its fragments.
    var timeToLive = UInt8.max

    /// What it costs to keep the set.
    var cost: Int { bytes + slices.count * FragmentAssembler.sliceCost }

    /// When it is given up.
    func end(_ bounds: Bounds) -> Instant {
      let end = begin.advanced(by: bounds.longestTime)
      return isPublic ? end : min(end, latest.advanced(by: bounds.time))
    }
  }

  /// What it costs to keep a slice, beside its bytes: the array's header and the place in the table.
  static let sliceCost = 80

  private let bounds: Bounds
  private var sets: [Key: Set] = [:]
  /// The sum of the sets' costs.
  private var cost = 0
  /// Packets that were not complete in time, or gave way to others.
  public private(set) var abandoned = 0
  /// Abandoned packets whose progress was reported, until `takeLost` returns them.
  private var lost: [FragmentSetID] = []

  public init(bounds: Bounds = .init()) {
    self.bounds = bounds
  }

  /// Packets under way.
  public var count: Int { sets.count }
  /// Bytes that are kept, with what it costs to keep each slice.
  public var bytes: Int { cost }

  /// When `expire` has something to do; nil if there is nothing under way.
  public var deadline: Instant? {
    var first: Instant?
    for set in sets.values { first = min(first ?? set.end(bounds), set.end(bounds)) }
    return first
  }

  /// Drops the packets that were not complete in time.
  public mutating func expire(at now: Instant) {
    guard let deadline, deadline <= now else { return }
    for (key, set) in sets where set.end(bounds) <= now { abandon(key) }
  }

  /// Takes a fragment that came with this sender.
  ///
  /// - Parameters:
  ///   - isKnown: whether the sender has announced itself.
  ///   - isPublic: whether it is for everybody: then others may have what is missing.
  ///   - link: the link that it came over.
  ///   - timeToLive: the time to live of the fragment; nil leaves that of the packet as it is. The packet gets the
  ///     lowest time to live of its fragments, so the last fragment alone cannot make the packet seem to come from
  ///     nearer.
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
    // The set is taken out of the table while it changes, so that its slices are not copied.
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

  // MARK: What is missing

  /// So often others are asked for what is missing, as long as nothing of it comes.
  private static let questions = 8

  /// When a public set will have had no new fragment for so long; nil if there is none to ask for.
  func nextStalled(_ pause: Duration) -> Instant? {
    var first: Instant?
    for set in sets.values where set.isPublic && set.questions < Self.questions {
      first = min(first ?? set.latest, set.latest)
    }
    return first?.advanced(by: pause)
  }

  /// The public sets that had no new fragment for so long, the oldest first; each is counted as asked for.
  mutating func askForStalled(_ pause: Duration, at now: Instant, limit: Int) -> [FragmentID] {
    let stalled = sets.filter {
      $0.value.isPublic && $0.value.questions < Self.questions && $0.value.latest.advanced(by: pause) <= now
    }
    let first = stalled.sorted(by: Self.isOlder).prefix(limit).map(\.key)
    for key in first { sets[key]?.questions += 1 }
    return first.map(\.id)
  }

  /// How many fragments of such a packet are here, in all sets that say so.
  func count(of id: FragmentID) -> Int { sets.reduce(0) { $0 + ($1.key.id == id ? $1.value.slices.count : 0) } }

  /// A set that `sender` begins over a link, for which there is room now.
  private mutating func begin(
    from sender: PeerID, isPublic: Bool, isKnown: Bool, over link: LinkID?, at now: Instant
  ) -> Set {
    if sets.count >= bounds.sets { expire(at: now) }
    let others = sets.filter { $0.key.sender == sender && $0.value.link == link }
    if others.count >= bounds.setsPerSender, let oldest = others.min(by: Self.isOlder) { abandon(oldest.key) }
    if sets.count >= bounds.sets, let victim = victim(by: { _ in 1 }) { abandon(victim) }
    return Set(begin: now, isPublic: isPublic, latest: now, link: link, isKnown: isKnown)
  }

  /// Which of two was begun first. A dictionary has another order in each run: of two that were begun at one moment the key decides.
  private static func isOlder(_ one: [Key: Set].Element, _ other: [Key: Set].Element) -> Bool {
    (one.value.begin, one.key) < (other.value.begin, other.key)
  }

  /// Which of two of one link gives way first.
  private static func isSooner(_ one: [Key: Set].Element, _ other: [Key: Set].Element) -> Bool {
    one.value.isKnown == other.value.isKnown ? isOlder(one, other) : other.value.isKnown
  }

  /// The set that gives way, of the link whose sets together weigh the most.
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
