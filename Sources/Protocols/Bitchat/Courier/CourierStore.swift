import BitchatWire
import Common

/// Stores the envelopes that this node carries for others. Facts: bitchat.md section 8.5.
///
/// Depositors that are not favourites ("strangers") share half of the capacity. When it is full, the device with the
/// most envelopes loses one, if it has more than the newcomer's device. Changing its name therefore does not help a
/// device to displace others.
///
/// If a depositor of a device was in range for `PeerTable.acquaintance`, the first envelopes, up to one depositor's
/// limit, count as one. Devices that are in range only briefly therefore do not evict them. A handed-over envelope
/// stays until it expires, in case it did not arrive. It counts for no depositor and is evicted first.
struct CourierStore: Sendable {
  /// Maximum envelopes of a node that is not a mailbox.
  static let usualLimit = 40
  /// Maximum bytes, whatever the limit on envelopes.
  static let byteLimit = 8 << 20

  /// Reason why an envelope is rejected.
  enum Refusal: Error, Hashable, Sendable {
    /// The depositor has reached its limit.
    case tooManyOfDepositor
    /// The capacity for strangers is used up, and no device has more envelopes than this one.
    case tooManyOfStrangers
    /// The store is full, and this envelope may not evict another.
    case full
  }

  /// Effect of an envelope that the store has accepted.
  struct Taken: Hashable, Sendable {
    /// False if the envelope was stored before.
    var isNew: Bool
    /// Envelopes that were evicted for the accepted one.
    var dropped: [CourierID] = []
    /// Whether the change must be persisted.
    var isChanged = true
  }

  /// Maximum number of envelopes. After it is lowered, the excess is evicted when the next envelope arrives.
  var limit: Int
  private(set) var envelopes: [CourierID: CarriedEnvelope] = [:]
  private var places: [CourierTag: Set<CourierID>] = [:]
  private(set) var bytes = 0
  private var nextNumber: UInt64 = 0

  init(limit: Int = usualLimit) {
    self.limit = limit
  }

  /// Number of envelopes that were not yet handed over.
  var count: Int { envelopes.values.count { $0.handed == 0 } }
  var isEmpty: Bool { envelopes.isEmpty }

  /// Maximum envelopes of all strangers together: half of `limit`.
  var strangerLimit: Int { limit / 2 }
  /// Maximum envelopes of one depositor: an eighth of `limit` for a favourite, a twentieth for others, at least 1.
  func limit(isFavourite: Bool) -> Int { max(1, isFavourite ? limit / 8 : limit / 20) }
  /// Maximum envelopes that the apps, and nodes with the usual limit, carry for a depositor that is not a favourite.
  static let usualPlaces = usualLimit / 20
  /// Minimum envelopes for a favourite at a courier that accepts `places` envelopes from other depositors.
  static func favouritePlaces(_ places: Int) -> Int { places < 2 ? places : places * 20 / 8 }

  /// Stores an envelope.
  ///
  /// - Parameter knownFor: total time that a depositor has been in range.
  mutating func add(
    _ carried: CarriedEnvelope, knownFor: (PeerID) -> Duration = { _ in .zero }
  ) throws(Refusal) -> Taken {
    if let known = envelopes[carried.id] {
      // A copy may arrive before the original with more copies. Copies already given away do not come back.
      guard known.givenTo.isEmpty, known.envelope.copies < carried.envelope.copies else {
        return Taken(isNew: false, isChanged: false)
      }
      envelopes[carried.id]?.envelope.copies = carried.envelope.copies
      return Taken(isNew: false)
    }
    let waiting = envelopes.values.filter { $0.handed == 0 }
    guard waiting.count(where: { $0.depositor == carried.depositor }) < limit(isFavourite: carried.isOfFavourite) else {
      throw .tooManyOfDepositor
    }
    var dropped: [CarriedEnvelope] = []
    if !carried.isOfFavourite, waiting.count(where: { !$0.isOfFavourite }) >= strangerLimit {
      guard let victim = strangersVictim(of: carried, knownFor) else { throw .tooManyOfStrangers }
      remove(victim.id)
      dropped.append(victim)
    }
    while envelopes.count >= limit || bytes + carried.size > Self.byteLimit {
      guard let victim = victim(of: carried, knownFor) else {
        for other in dropped { put(other) }
        throw .full
      }
      remove(victim.id)
      dropped.append(victim)
    }
    enter(carried)
    return Taken(isNew: true, dropped: dropped.map(\.id))
  }

  /// Returns the envelope to evict: the oldest handed-over one, else the oldest of a stranger, else the oldest of
  /// all. For a stranger's new envelope only a handed-over one, or one of a device with more envelopes, is evicted.
  private func victim(of newcomer: CarriedEnvelope, _ knownFor: (PeerID) -> Duration) -> CarriedEnvelope? {
    guard let first = envelopes.values.min(by: { rank($0) < rank($1) }) else { return nil }
    if first.handed > 0 || newcomer.isOfFavourite { return first }
    return strangersVictim(of: newcomer, knownFor)
  }

  /// Returns the oldest envelope of the device with the most envelopes of strangers, if it has more than the newcomer's
  /// device. Among such devices, the one whose depositor was in range for the shortest time loses.
  private func strangersVictim(
    of newcomer: CarriedEnvelope, _ knownFor: (PeerID) -> Duration
  ) -> CarriedEnvelope? {
    let strangers = envelopes.values.filter { $0.handed == 0 && !$0.isOfFavourite }
    let ofDevice = Dictionary(grouping: strangers, by: \.via)
    func weight(_ carried: [CarriedEnvelope]) -> Int {
      let isOfAcquaintance = carried.contains { knownFor($0.depositor) >= PeerTable.acquaintance }
      return isOfAcquaintance ? max(1, carried.count + 1 - limit(isFavourite: false)) : carried.count
    }
    let own = ofDevice[newcomer.via].map(weight) ?? 0
    let most = ofDevice.values.map(weight).max() ?? 0
    guard most > own else { return nil }
    let candidates = ofDevice.values.filter { weight($0) == most }.joined()
    return candidates.min {
      (knownFor($0.depositor), $0.number) < (knownFor($1.depositor), $1.number)
    }
  }

  private func rank(_ carried: CarriedEnvelope) -> (Int, UInt64) {
    (carried.handed > 0 ? 0 : carried.isOfFavourite ? 2 : 1, carried.number)
  }

  /// Restores an envelope of an earlier run, if it is new and there is capacity.
  ///
  /// - Returns: whether the envelope was stored.
  mutating func restore(_ carried: CarriedEnvelope) -> Bool {
    guard envelopes[carried.id] == nil, envelopes.count < limit, bytes + carried.size <= Self.byteLimit else {
      return false
    }
    enter(carried)
    return true
  }

  private mutating func enter(_ carried: CarriedEnvelope) {
    var carried = carried
    carried.number = nextNumber
    nextNumber += 1
    put(carried)
  }

  private mutating func put(_ carried: CarriedEnvelope) {
    envelopes[carried.id] = carried
    places[carried.envelope.tag, default: []].insert(carried.id)
    bytes += carried.size
  }

  mutating func remove(_ id: CourierID) {
    guard let carried = envelopes.removeValue(forKey: id) else { return }
    places[carried.envelope.tag]?.remove(id)
    if places[carried.envelope.tag]?.isEmpty == true { places[carried.envelope.tag] = nil }
    bytes -= carried.size
  }

  mutating func change(_ id: CourierID, _ body: (inout CarriedEnvelope) -> Void) {
    if var carried = envelopes[id] {
      body(&carried)
      envelopes[id] = carried
    }
  }

  /// Envelopes with one of these tags, oldest first.
  func addressed(to tags: [CourierTag]) -> [CarriedEnvelope] {
    Self.sorted(Set(tags).flatMap { places[$0] ?? [] }.compactMap { envelopes[$0] })
  }

  /// Envelopes of which a courier may get a copy, oldest first. Excludes those addressed to it, deposited by it, or
  /// already given to it.
  ///
  /// - Parameter tags: tags of the courier itself.
  func copies(for courier: PeerID, tags: [CourierTag]) -> [CarriedEnvelope] {
    Self.sorted(
      envelopes.values.filter {
        $0.envelope.copies > 1 && $0.handed == 0 && $0.depositor != courier && !$0.givenTo.contains(courier)
          && !tags.contains($0.envelope.tag)
      })
  }

  /// Number of envelopes of which a courier has a copy from this node.
  func copied(to courier: PeerID) -> Int { envelopes.values.count { $0.givenTo.contains(courier) } }

  private static func sorted(_ envelopes: [CarriedEnvelope]) -> [CarriedEnvelope] {
    envelopes.sorted { $0.number < $1.number }
  }

  /// Removes expired envelopes.
  ///
  /// - Parameter time: milliseconds since 1970.
  /// - Returns: IDs of the removed envelopes.
  mutating func expire(at time: UInt64) -> [CourierID] {
    let old = envelopes.values.filter { $0.envelope.expiry <= time }.map(\.id).sorted()
    for id in old { remove(id) }
    return old
  }
}

extension CourierStore.Refusal {
  /// Counter of envelopes that were rejected for this reason.
  var counter: WritableKeyPath<NodeCounters, UInt64> {
    switch self {
    case .tooManyOfDepositor: \.courier.tooManyOfDepositor
    case .tooManyOfStrangers: \.courier.tooManyOfStrangers
    case .full: \.courier.noPlace
    }
  }
}
