/// The envelopes that this node carries for others. Facts: bitchat.md section 8.5.
///
/// Strangers have half of the places, so that the mail of favourites always finds one. What was handed to its recipient stays for its life,
/// in case it did not arrive; it counts for nobody and goes first.
struct CourierBag: Sendable {
  /// The places of a node that is no mailbox.
  static let usualLimit = 40
  /// The most bytes, however many places there are.
  static let byteLimit = 8 << 20

  /// Why an envelope is not taken.
  enum Refusal: Error, Hashable, Sendable {
    /// Its depositor has as many here as it may have.
    case tooManyOfDepositor
    /// Strangers have as many here as they may have.
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

  mutating func add(_ carried: CarriedEnvelope) throws(Refusal) -> Taken {
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
    guard carried.isOfFavourite || waiting.count(where: { !$0.isOfFavourite }) < strangerLimit else {
      throw .tooManyOfStrangers
    }
    var dropped: [CarriedEnvelope] = []
    while envelopes.count >= limit || bytes + carried.size > Self.byteLimit {
      guard let victim = victim(of: carried) else {
        for other in dropped { put(other) }
        throw .full
      }
      remove(victim.id)
      dropped.append(victim)
    }
    enter(carried)
    return Taken(isNew: true, dropped: dropped.map(\.id))
  }

  /// The envelope that gives way: one that was handed over, else the oldest of a stranger's, else the oldest. Only a favourite's may take
  /// the place of one that still waits.
  private func victim(of newcomer: CarriedEnvelope) -> CarriedEnvelope? {
    let first = envelopes.values.min { rank($0) < rank($1) }
    guard let first, first.handed > 0 || newcomer.isOfFavourite else { return nil }
    return first
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
