import Common
import Crypto
import Loop
import MeshStore
import MeshSupport
import Radio
import TestSupport
import Testing

@testable import Bitchat
@testable import BitchatWire
@testable import Mesh

@Suite("Link slots of a mesh node")
struct LinkSlotsTests {
  private typealias Holder = LinkSlots.Holder

  private static let now = Instant.zero.advanced(by: .seconds(1000))

  /// A link that has held its slot for this number of seconds.
  private static func holder(
    _ number: UInt64, _ peer: Holder.Peer = .known, age: Double = 10, isOurs: Bool = false, isAttempt: Bool = false
  ) -> Holder {
    Holder(
      link: LinkID(number), isOurs: isOurs || isAttempt, isAttempt: isAttempt,
      since: now.advanced(by: .seconds(-age)), peer: peer)
  }

  private static func outcome(_ limit: Int, _ holders: [Holder]) -> LinkSlots.Outcome {
    LinkSlots(limit, holders).outcome(at: now)
  }

  @Test(
    "A third of a mesh node's link slots is reserved for outgoing links: at least 2 if there are 3 or more",
    arguments: [(1, 0), (2, 0), (3, 2), (4, 2), (7, 2), (8, 2), (9, 3), (64, 21)])
  func own(limit: Int, own: Int) {
    #expect(LinkSlots(limit, []).own == own)
    let theirs = (0..<(limit - own)).map { Self.holder(UInt64($0)) }
    #expect(Self.outcome(limit, Array(theirs.dropLast())) == .free)
    #expect(Self.outcome(limit, theirs) == .full)
  }

  @Test("Outgoing links may use all link slots, and are not replaced")
  func ownLinks() {
    let ours = (0..<7).map { Self.holder(UInt64($0), .unknown, age: 900, isOurs: true) }
    #expect(Self.outcome(7, ours) == .full)
    let six = Array(ours.dropLast())
    #expect(Self.outcome(7, six) == .free)
    #expect(Self.outcome(7, six + [Self.holder(9, age: 300)]) == .insteadOf(LinkID(9)))
  }

  @Test("A connecting peer gets the slot of a connection attempt while peers have fewer slots than their share")
  func attempt() {
    let attempt = Self.holder(9, .unknown, age: 0, isAttempt: true)
    #expect(Self.outcome(1, [attempt]) == .insteadOf(LinkID(9)))
    let ours = [Self.holder(1, isOurs: true), Self.holder(2, isOurs: true)]
    let theirs = (3...6).map { Self.holder($0) }
    #expect(Self.outcome(7, ours + theirs + [attempt]) == .insteadOf(LinkID(9)))
    #expect(Self.outcome(7, ours + theirs + [Self.holder(9, isOurs: true)]) == .full)
    #expect(Self.outcome(7, theirs + [Self.holder(7), attempt]) == .full, "peers have their five")
    #expect(Self.outcome(7, Array(ours.prefix(1)) + theirs + [attempt]) == .free)
  }

  @Test("An incoming link whose peer has not announced itself within 5 s is replaced first")
  func unknown() {
    let others = [Self.holder(1, age: 900), Self.holder(2, age: 900), Self.holder(3, age: 900)]
    func first(_ one: Holder, _ two: Holder) -> LinkSlots.Outcome { Self.outcome(7, others + [one, two]) }
    #expect(first(Self.holder(4, age: 900), Self.holder(5, .unknown, age: 5)) == .insteadOf(LinkID(5)))
    #expect(first(Self.holder(4, age: 900), Self.holder(5, .unknown, age: 4.9)) == .insteadOf(LinkID(1)))
    #expect(first(Self.holder(5, .unknown, age: 7), Self.holder(6, .unknown, age: 8)) == .insteadOf(LinkID(6)))
  }

  @Test("An incoming link of over 5 min is replaced, the oldest first, unless a favourite or verified peer's")
  func oldest() {
    let dear = [Self.holder(1, .chosen, age: 9000), Self.holder(2, .chosen, age: 8000)]
    let young = [Self.holder(3, age: 299), Self.holder(4, age: 200), Self.holder(5, age: 100)]
    #expect(Self.outcome(7, dear + young) == .full)
    let old = [Self.holder(3, age: 301), Self.holder(4, age: 400), Self.holder(5, age: 100)]
    #expect(Self.outcome(7, dear + old) == .insteadOf(LinkID(4)))
    let edge = [Self.holder(3, age: 300), Self.holder(4, age: 200), Self.holder(5, age: 100)]
    #expect(Self.outcome(7, dear + edge) == .insteadOf(LinkID(3)))
  }

  @Test("If there are more links than the configured limit, no link is replaced")
  func lowered() {
    let many = (0..<6).map { Self.holder(UInt64($0), age: 900) }
    #expect(Self.outcome(7, many) == .full)
    #expect(Self.outcome(7, Array(many.dropLast())) == .insteadOf(LinkID(0)))
  }
}

@Suite("Competition for the link slots of a mesh node")
struct CrowdedDoorstepTests {
  init() { EventLoop.shared.runInBackground() }

  /// A node with seven link slots, and passers.
  @LoopActor
  private final class Door {
    let village = Village()
    let doorstep: Doorstep
    let mesh: MeshService
    private let clock: VirtualWallClock
    private(set) var passers: [Passer] = []
    private var addresses: UInt64 = 0xC000_0000_0000

    init() {
      clock = VirtualWallClock(village.time)
      doorstep = Doorstep(village.time)
      var settings = MeshSettings()
      settings.nickname = "node"
      let keeper = NodeStore(
        directory: "", settings: settings.kept, scheduler: village.time, disk: village.time, clock: clock)
      var made: UInt64 = 0
      mesh = MeshService(
        radio: doorstep, scheduler: village.time, settings: settings, keeper: keeper, clock: clock,
        random: {
          made += 1
          return SeededRandom(seed: 4000 + made)
        })
      mesh.start()
      village.time.advance(by: .seconds(1))
    }

    /// Puts a new passer in range, and gives it two seconds to connect.
    @discardableResult
    func add(connects: Bool = true) -> Passer {
      let passer = Passer("passer \(passers.count)", seed: UInt64(passers.count) + 100, doorstep, clock)
      passers.append(passer)
      come(passer, connects: connects)
      village.time.advance(by: .seconds(2))
      return passer
    }

    func come(_ passer: Passer, connects: Bool = true) {
      addresses += 1
      doorstep.come(passer, as: BluetoothAddress(addresses), connects: connects)
    }

    /// The indices of the passers with a link, in the order of their first arrival.
    var linked: [Int] { passers.indices.filter { passers[$0].isLinked } }

    func close() {
      mesh.stop()
      village.time.advance(by: .seconds(2))
    }
  }

  @Test("Clients use 5 of 7 link slots of a node, and outgoing connections use 2")
  @LoopActor
  func shares() {
    let door = Door()
    for _ in 0..<8 { door.add() }
    #expect(door.linked == [0, 1, 2, 3, 4] && door.mesh.links.ports.count == 5)
    for _ in 0..<3 { door.add(connects: false) }
    door.village.time.advance(by: .seconds(30))
    #expect(door.linked.count == 7 && door.linked.prefix(5) == [0, 1, 2, 3, 4])
    #expect(door.mesh.neighbours == 7 && door.mesh.links.ports.values.count { $0.isOurs } == 2)
    door.close()
  }

  @Test("After 5 min a newly connecting peer replaces the oldest client, but not a favourite")
  @LoopActor
  func newcomer() throws {
    let door = Door()
    for _ in 0..<5 { door.add() }
    try door.mesh.peers.favourite(door.passers[0].id, true)
    door.village.time.advance(by: .seconds(240))
    door.add()
    #expect(door.linked == [0, 1, 2, 3, 4])
    door.village.time.advance(by: .seconds(60))
    door.come(door.passers[5])
    door.village.time.advance(by: .seconds(2))
    #expect(door.linked == [0, 2, 3, 4, 5] && door.mesh.neighbours == 5 && door.mesh.links.ports.count == 5)
    door.close()
  }

  @Test("A peer that only replays a favourite's announces is replaced like other peers")
  @LoopActor
  func repeatedFavourite() throws {
    let door = Door()
    for _ in 0..<5 { door.add() }
    let favourite = door.passers[0].id
    try door.mesh.peers.favourite(favourite, true)
    door.village.time.advance(by: .seconds(280))
    let link = try #require(door.mesh.links.ports.values.first { $0.peer == door.passers[1].id }?.id)
    let announce = try #require(door.mesh.node.engine?.gossip.archive.announce(of: favourite)?.bytes)
    try door.mesh.links.written(announce, to: BitchatGATT.characteristic, on: link)
    #expect(door.mesh.links.ports[link]?.peer == favourite)
    door.village.time.advance(by: .seconds(20))
    door.add()
    #expect(door.linked == [0, 2, 3, 4, 5])
    door.close()
  }

  @Test("Each of 8 clients that compete for 5 slots has its slot for 5 min")
  @LoopActor
  func noEndlessRound() {
    let door = Door()
    for _ in 0..<8 { door.add() }
    // The first passers have held their slots for some seconds.
    var since = Dictionary(uniqueKeysWithValues: door.linked.map { ($0, Instant.zero) })
    var stays: [Duration] = []
    for second in 0..<1200 {
      door.village.time.advance(by: .seconds(1))
      let now = door.village.time.now
      let linked = Set(door.linked)
      for place in linked where since[place] == nil { since[place] = now }
      for (place, begin) in since where !linked.contains(place) {
        stays.append(begin.duration(to: now))
        since[place] = nil
      }
      guard second % 10 == 0 else { continue }
      for (place, passer) in door.passers.enumerated() where !linked.contains(place) { door.come(passer) }
    }
    #expect(stays.count >= 5 && stays.allSatisfy { $0 >= .seconds(298) }, "\(stays)")
    #expect(door.linked.count == 5)
    door.close()
  }

  @Test("A client that does not announce itself is replaced after 5 s and not before")
  @LoopActor
  func silent() {
    let village = Village()
    let ann = village.add("ann") { $0.links = 1 }
    village.time.advance(by: .seconds(1))
    func stranger() -> Stranger {
      let stranger = Stranger(on: village, to: ann)
      #expect(village.wait(.seconds(1)) { stranger.isLinked })
      stranger.write([0xFF], as: .command)
      village.time.advance(by: .milliseconds(500))
      return stranger
    }
    let first = stranger()
    let early = stranger()
    #expect(first.isLinked && !early.isLinked && ann.mesh.links.ports.count == 1)
    village.time.advance(by: .milliseconds(4500))
    let late = stranger()
    #expect(!first.isLinked && late.isLinked && ann.mesh.links.ports.count == 1)
  }

  /// Ann with one link slot, a stranger whose link does not use her service yet, and a phone that she is about to
  /// connect to.
  @LoopActor
  private struct OnePlace {
    let village = Village()
    let ann: Village.House
    let stranger: Stranger
    let phone: WaitingPhone

    init() throws {
      ann = village.add("ann") { $0.links = 1 }
      village.time.advance(by: .seconds(1))
      stranger = Stranger(on: village, to: ann)
      village.time.advance(by: .seconds(1))
      phone = try WaitingPhone(on: village, isNode: true)
    }
  }

  @Test("A client that connects while a connection attempt uses the only slot gets the slot")
  @LoopActor
  func comesAmidAttempt() throws {
    let place = try OnePlace()
    let (village, ann, stranger, phone) = (place.village, place.ann, place.stranger, place.phone)
    try #require(stranger.isLinked)
    #expect(village.wait(.seconds(1)) { ann.mesh.links.search.attempt != nil && ann.mesh.links.ports.count == 1 })
    stranger.write([0xFF], as: .command)
    village.time.advance(by: .milliseconds(500))
    #expect(
      stranger.isLinked && ann.mesh.links.search.attempt == nil && ann.mesh.links.ports.values.map(\.isServed) == [true]
    )
    // The phone did not cause the failure.
    stranger.disconnect()
    #expect(village.wait(.seconds(8)) { phone.subscribers.count == 1 })
    phone.leave()
  }

  @Test("An outgoing link that comes up after a peer took the last slot is closed")
  @LoopActor
  func arrivesLate() throws {
    let place = try OnePlace()
    let (village, ann, stranger, phone) = (place.village, place.ann, place.stranger, place.phone)
    try #require(stranger.isLinked)
    #expect(village.wait(.seconds(1)) { ann.mesh.links.search.attempt != nil && ann.mesh.links.ports.isEmpty })
    stranger.write([0xFF], as: .command)
    #expect(village.wait(.seconds(5)) { ann.mesh.links.search.attempt == nil })
    #expect(stranger.isLinked && ann.mesh.links.ports.values.map(\.isServed) == [true] && phone.subscribers.isEmpty)
    phone.leave()
  }
}
