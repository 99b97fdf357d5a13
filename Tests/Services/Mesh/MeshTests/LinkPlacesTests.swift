import Common
import Crypto
import Loop
import MeshStore
import Radio
import Testing

@testable import Bitchat
@testable import Mesh

@Suite("Who has the places for links")
struct LinkPlacesTests {
  private typealias Holder = LinkPlaces.Holder

  private static let now = Instant.zero.advanced(by: .seconds(1000))

  /// A link that has had its place for so many seconds.
  private static func holder(
    _ number: UInt64, _ peer: Holder.Peer = .known, age: Double = 10, isOurs: Bool = false, isAttempt: Bool = false
  ) -> Holder {
    Holder(
      link: LinkID(number), isOurs: isOurs || isAttempt, isAttempt: isAttempt,
      since: now.advanced(by: .seconds(-age)), peer: peer)
  }

  private static func outcome(_ limit: Int, _ holders: [Holder]) -> LinkPlaces.Outcome {
    LinkPlaces(limit, holders).outcome(at: now)
  }

  @Test(
    "A third of the places is for the node's own links, and no fewer than two where there are three",
    arguments: [(1, 0), (2, 0), (3, 2), (4, 2), (7, 2), (8, 2), (9, 3), (64, 21)])
  func own(limit: Int, own: Int) {
    #expect(LinkPlaces(limit, []).own == own)
    let theirs = (0..<(limit - own)).map { Self.holder(UInt64($0)) }
    #expect(Self.outcome(limit, Array(theirs.dropLast())) == .free)
    #expect(Self.outcome(limit, theirs) == .full)
  }

  @Test("The node's own links may take all places, and none of them gives way")
  func ownLinks() {
    let ours = (0..<7).map { Self.holder(UInt64($0), .unknown, age: 900, isOurs: true) }
    #expect(Self.outcome(7, ours) == .full)
    let six = Array(ours.dropLast())
    #expect(Self.outcome(7, six) == .free)
    #expect(Self.outcome(7, six + [Self.holder(9, age: 300)]) == .insteadOf(LinkID(9)))
  }

  @Test("What the node is still making gives way to a link that is there, while peers have fewer places than theirs")
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

  @Test("A peer that has not said who it is goes first, once it has had five seconds for it")
  func unknown() {
    let others = [Self.holder(1, age: 900), Self.holder(2, age: 900), Self.holder(3, age: 900)]
    func first(_ one: Holder, _ two: Holder) -> LinkPlaces.Outcome { Self.outcome(7, others + [one, two]) }
    #expect(first(Self.holder(4, age: 900), Self.holder(5, .unknown, age: 5)) == .insteadOf(LinkID(5)))
    #expect(first(Self.holder(4, age: 900), Self.holder(5, .unknown, age: 4.9)) == .insteadOf(LinkID(1)))
    #expect(first(Self.holder(5, .unknown, age: 7), Self.holder(6, .unknown, age: 8)) == .insteadOf(LinkID(6)))
  }

  @Test("Else the oldest one goes, after five minutes in its place; never that of a favourite or a verified peer")
  func oldest() {
    let dear = [Self.holder(1, .chosen, age: 9000), Self.holder(2, .chosen, age: 8000)]
    let young = [Self.holder(3, age: 299), Self.holder(4, age: 200), Self.holder(5, age: 100)]
    #expect(Self.outcome(7, dear + young) == .full)
    let old = [Self.holder(3, age: 301), Self.holder(4, age: 400), Self.holder(5, age: 100)]
    #expect(Self.outcome(7, dear + old) == .insteadOf(LinkID(4)))
    let edge = [Self.holder(3, age: 300), Self.holder(4, age: 200), Self.holder(5, age: 100)]
    #expect(Self.outcome(7, dear + edge) == .insteadOf(LinkID(3)))
  }

  @Test("Where there are more links than the settings let there be, none is exchanged for another")
  func lowered() {
    let many = (0..<6).map { Self.holder(UInt64($0), age: 900) }
    #expect(Self.outcome(7, many) == .full)
    #expect(Self.outcome(7, Array(many.dropLast())) == .insteadOf(LinkID(0)))
  }
}

@Suite("Many who want a place at one node")
struct CrowdedDoorstepTests {
  init() { EventLoop.shared.runInBackground() }

  /// A node of seven places, and people who come by.
  @LoopActor
  private final class Door {
    let village = Village()
    let doorstep: Doorstep
    let mesh: MeshService
    private let clock: Village.Clock
    private(set) var passers: [Passer] = []
    private var addresses: UInt64 = 0xC000_0000_0000

    init() {
      clock = Village.Clock(village.time)
      doorstep = Doorstep(village.time)
      var settings = MeshService.Settings()
      settings.nickname = "node"
      let keeper = MeshKeeper(
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

    /// Somebody new is near, and has had two seconds to connect.
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

    /// The places of those who have a link, in the order in which they came first.
    var linked: [Int] { passers.indices.filter { passers[$0].isLinked } }

    func close() {
      mesh.stop()
      village.time.advance(by: .seconds(2))
    }
  }

  @Test("Those who connect take five places of seven; two are for those whom the node connects to")
  @LoopActor
  func shares() {
    let door = Door()
    for _ in 0..<8 { door.add() }
    #expect(door.linked == [0, 1, 2, 3, 4] && door.mesh.ports.count == 5)
    for _ in 0..<3 { door.add(connects: false) }
    door.village.time.advance(by: .seconds(30))
    #expect(door.linked.count == 7 && door.linked.prefix(5) == [0, 1, 2, 3, 4])
    #expect(door.mesh.neighbours == 7 && door.mesh.ports.values.count { $0.isOurs } == 2)
    door.close()
  }

  @Test("After five minutes the one who came first makes room for a newcomer, but for a favourite")
  @LoopActor
  func newcomer() throws {
    let door = Door()
    for _ in 0..<5 { door.add() }
    try door.mesh.favourite(door.passers[0].id, true)
    door.village.time.advance(by: .seconds(240))
    door.add()
    #expect(door.linked == [0, 1, 2, 3, 4])
    door.village.time.advance(by: .seconds(60))
    door.come(door.passers[5])
    door.village.time.advance(by: .seconds(2))
    #expect(door.linked == [0, 2, 3, 4, 5] && door.mesh.neighbours == 5 && door.mesh.ports.count == 5)
    door.close()
  }

  @Test("Who only repeats the announces of a favourite has no favourite's place")
  @LoopActor
  func repeatedFavourite() throws {
    let door = Door()
    for _ in 0..<5 { door.add() }
    let favourite = door.passers[0].id
    try door.mesh.favourite(favourite, true)
    door.village.time.advance(by: .seconds(280))
    let link = try #require(door.mesh.ports.values.first { $0.peer == door.passers[1].id }?.id)
    let announce = try #require(door.mesh.engine?.archive.announce(of: favourite)?.bytes)
    try door.mesh.written(announce, to: BitchatGATT.characteristic, on: link)
    #expect(door.mesh.ports[link]?.peer == favourite)
    door.village.time.advance(by: .seconds(20))
    door.add()
    #expect(door.linked == [0, 2, 3, 4, 5])
    door.close()
  }

  @Test("However often eight people come again for five places, each who gets one has it for five minutes")
  @LoopActor
  func noEndlessRound() {
    let door = Door()
    for _ in 0..<8 { door.add() }
    // The first ones have had theirs for some seconds.
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

  @Test("Who has not said who it is makes room for the next one after five seconds, and not before")
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
    #expect(first.isLinked && !early.isLinked && ann.mesh.ports.count == 1)
    village.time.advance(by: .milliseconds(4500))
    let late = stranger()
    #expect(!first.isLinked && late.isLinked && ann.mesh.ports.count == 1)
  }

  /// Ann, who has one place, somebody with a link to her that uses nothing of hers yet, and a phone that she is about to try.
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

  @Test("Who comes while the node tries the only place on somebody else has it")
  @LoopActor
  func comesAmidAttempt() throws {
    let place = try OnePlace()
    let (village, ann, stranger, phone) = (place.village, place.ann, place.stranger, place.phone)
    try #require(stranger.isLinked)
    #expect(village.wait(.seconds(1)) { ann.mesh.attempt != nil && ann.mesh.ports.count == 1 })
    stranger.write([0xFF], as: .command)
    village.time.advance(by: .milliseconds(500))
    #expect(stranger.isLinked && ann.mesh.attempt == nil && ann.mesh.ports.values.map(\.isServed) == [true])
    // It is no fault of the phone's.
    stranger.disconnect()
    #expect(village.wait(.seconds(8)) { phone.subscribers.count == 1 })
    phone.leave()
  }

  @Test("A link of the node's own that comes up when a peer has taken the last place is given up")
  @LoopActor
  func arrivesLate() throws {
    let place = try OnePlace()
    let (village, ann, stranger, phone) = (place.village, place.ann, place.stranger, place.phone)
    try #require(stranger.isLinked)
    #expect(village.wait(.seconds(1)) { ann.mesh.attempt != nil && ann.mesh.ports.isEmpty })
    stranger.write([0xFF], as: .command)
    #expect(village.wait(.seconds(5)) { ann.mesh.attempt == nil })
    #expect(stranger.isLinked && ann.mesh.ports.values.map(\.isServed) == [true] && phone.subscribers.isEmpty)
    phone.leave()
  }
}
