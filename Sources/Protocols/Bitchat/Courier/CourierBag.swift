/// The envelopes that this node carries for others. Facts: bitchat.md section 8.5.
///
/// Depositors that are not favourites ("strangers") share half of the places. If these are taken, the device with the most envelopes loses one,
/// provided that it has more than the newcomer's device. So a device that returns under other names takes no place from other devices. If a
/// depositor of a device was in range for `PeerTable.acquaintance`, as many envelopes as one depositor may have count as one, so that devices
/// which pass by do not evict them. An envelope that was handed to its recipient is kept until it expires, in case it did not arrive; it
/// counts for no depositor and is evicted first.
struct CourierBag: Sendable {
  /// The places of a node that is no mailbox.
  static let usualLimit = 40
  /// The most bytes, however many places there are.
  static let byteLimit = 8 << 20

  /// Why an envelope is not taken.
  enum Refusal: Error, Hashable, Sendable {
    /// Its depositor has as many here as it may have.
    case tooManyOfDepositor
    /// Strangers have no place left, and no device has more envelopes than this one.
    case tooManyOfStrangers
    /// There is no place, and none that it may take.
    case full
  }

  /// What became of an envelope that was taken.
  struct Taken: Hashable, Sendable {
    /// False if it was here before.
    var isNew: Bool
    /// Those that had to go for it.
    var dropped: [CourierID] = []
    /// Whether there is something to be kept.
    var isChanged = true
  }

  /// How many envelopes there may be; those that are too many go when the next one comes.
  var limit: Int
  private(set) var envelopes: [CourierID: CarriedEnvelope] = [:]
  private var places: [CourierTag: Set<CourierID>] = [:]
  private(set) var bytes = 0
  private var nextNumber: UInt64 = 0

  init(limit: Int = usualLimit) {
    self.limit = limit
  }

  /// How many envelopes wait for their recipients.
  var count: Int { envelopes.values.count { $0.handed == 0 } }
  var isEmpty: Bool { envelopes.isEmpty }

  /// The places that strangers have, and those of one depositor: 20, 5 and 2 of 40, and of more in proportion.
  var strangerLimit: Int { limit / 2 }
  func limit(isFavourite: Bool) -> Int { max(1, isFavourite ? limit / 8 : limit / 20) }
  /// The places of one depositor who is no favourite at an app, and at a node that is no mailbox.
  static let usualPlaces = usualLimit / 20
  /// The same of a favourite, at least, where others have so many.
  static func favouritePlaces(_ places: Int) -> Int { places < 2 ? places : places * 20 / 8 }

  /// - Parameter knownFor: how long a depositor has been in range in all.
  mutating func add(
    _ carried: CarriedEnvelope, knownFor: (PeerID) -> Duration = { _ in .zero }
  ) throws(Refusal) -> Taken {
    if let known = envelopes[carried.id] {
      // A copy may come before the one that may be copied. Copies that were made do not come back.
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

  /// The envelope that is evicted: the oldest that was handed over, else the oldest of a stranger, else the oldest. For a stranger's envelope only
  /// one that was handed over is evicted, or one of a device that has more.
  private func victim(of newcomer: CarriedEnvelope, _ knownFor: (PeerID) -> Duration) -> CarriedEnvelope? {
    guard let first = envelopes.values.min(by: { rank($0) < rank($1) }) else { return nil }
    if first.handed > 0 || newcomer.isOfFavourite { return first }
    return strangersVictim(of: newcomer, knownFor)
  }

  /// The oldest envelope of the device with the most of strangers' envelopes, if it has more than the newcomer's device. Among several such
  /// devices it is the one whose depositor was in range for the shortest time.
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

  /// Takes over what an earlier run carried, as far as there is room.
  ///
  /// - Returns: whether there was.
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

  /// The envelopes with one of these tags, the oldest first.
  func addressed(to tags: [CourierTag]) -> [CarriedEnvelope] {
    Self.sorted(Set(tags).flatMap { places[$0] ?? [] }.compactMap { envelopes[$0] })
  }

  /// The envelopes of which a courier may get a copy: those that are not its own, that it did not bring and does not have.
  ///
  /// - Parameter tags: the courier's own.
  func copies(for courier: PeerID, tags: [CourierTag]) -> [CarriedEnvelope] {
    Self.sorted(
      envelopes.values.filter {
        $0.envelope.copies > 1 && $0.handed == 0 && $0.depositor != courier && !$0.givenTo.contains(courier)
          && !tags.contains($0.envelope.tag)
      })
  }

  /// Of how many envelopes a courier has a copy from here.
  func copied(to courier: PeerID) -> Int { envelopes.values.count { $0.givenTo.contains(courier) } }

  private static func sorted(_ envelopes: [CarriedEnvelope]) -> [CarriedEnvelope] {
    envelopes.sorted { $0.number < $1.number }
  }

  /// Throws away what is too old.
  ///
  /// - Parameter time: milliseconds since 1970.
  /// - Returns: those.
  mutating func expire(at time: UInt64) -> [CourierID] {
    let old = envelopes.values.filter { $0.envelope.expiry <= time }.map(\.id).sorted()
    for id in old { remove(id) }
    return old
  }
}
