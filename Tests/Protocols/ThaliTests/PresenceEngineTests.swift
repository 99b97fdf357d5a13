import Bytes
import Common
import Crypto
import Testing

@testable import Thali

@Suite("The engine of private presence")
struct PresenceEngineTests {
  typealias Intent = PresenceEngine.Intent

  /// An engine with a clock.
  struct Node {
    var engine: PresenceEngine
    let address: NetworkAddress
    let device: DeviceAddress

    init(_ number: UInt64, dialects: Set<Dialect> = [.spec], sends: Dialect = .spec) throws {
      var configuration = PresenceEngine.Configuration()
      (configuration.dialects, configuration.sends) = (dialects, sends)
      engine = PresenceEngine(
        own: try People.key(number), configuration: configuration, random: SeededRandom(seed: number))
      address = .v4(0x0A00_0000 + UInt32(number))
      device = DeviceAddress(number)
    }

    var key: Secp256k1.PublicKey { engine.known.own.publicKey }

    /// Adds a known peer to the engine at time zero.
    mutating func add(_ key: Secp256k1.PublicKey) throws -> PeerID {
      try engine.addPeer(key, at: PresenceEngineTests.at(0), wall: PresenceEngineTests.wall(0)).peer
    }

    /// The response that an HTTP client gets from this node over a medium.
    func response(_ medium: PresenceEngine.Medium) throws -> BeaconResponse {
      let answer = HTTPAnswer(method: "GET", path: HTTPRequest.beaconsPath, stock: engine.stock(of: medium))
      var reader = HTTPResponseReader()
      let response = try reader.receive((answer.head + answer.body)[...])
      return BeaconResponse(try #require(response))
    }
  }

  static func at(_ seconds: Double) -> Instant { .zero.advanced(by: .milliseconds(Int64(seconds * 1000))) }
  static func wall(_ seconds: Double) -> WallTime { People.now.advanced(by: .milliseconds(Int64(seconds * 1000))) }

  @discardableResult
  static func handle(_ node: inout Node, _ event: PresenceEngine.Event, _ seconds: Double) -> [Intent] {
    node.engine.handle(event, at: at(seconds), wall: wall(seconds))
  }

  /// The name under which a node's intents announce it on the network.
  private static func name(in intents: [Intent]) -> ServiceName? {
    for case .ssdp(.announce(let name)) in intents { return name }
    return nil
  }

  @Test(
    "Two nodes that know each other are found over both media with one key, and a stranger finds none",
    arguments: Dialect.allCases)
  func meeting(dialect: Dialect) throws {
    var alice = try Node(1, dialects: [dialect], sends: dialect)
    var bob = try Node(2, dialects: [dialect], sends: dialect)
    var eve = try Node(3, dialects: [dialect], sends: dialect)
    let (bobForAlice, aliceForBob) = (try alice.add(bob.key), try bob.add(alice.key))
    _ = try eve.add(alice.key)
    let intents = try alice.engine.announce(to: [bobForAlice], for: nil, at: Self.at(0), wall: Self.wall(0))
    guard case .advertise(let generation) = intents.first else {
      Issue.record("nothing is advertised")
      return
    }
    let name = try #require(Self.name(in: intents))
    #expect((name.generation == nil) == (dialect == .spec))

    let location = Location(address: alice.address, port: 5000)
    let datagram = SSDPMessage.alive(name, location: location.url).bytes(for: dialect == .spec ? .ipv4 : .phones)
    let advertisement = Advertisement.bytes(generation: generation, address: alice.device)
    guard case .beacons(let seen?, let device) = Advertisement(reading: advertisement) else {
      Issue.record("the advertisement is not read")
      return
    }
    let (bluetooth, network) = (Way.bluetooth(device), Way.network(location))

    #expect(Self.handle(&bob, .sighted(bluetooth, .generation(seen)), 1) == [.fetch(bluetooth)])
    #expect(Self.handle(&bob, .datagram(datagram, from: alice.address, port: 1900), 1) == [.fetch(network)])
    #expect(Self.handle(&bob, .fetched(bluetooth, try alice.response(.bluetooth)), 2) == [.appeared(aliceForBob)])
    #expect(Self.handle(&bob, .fetched(network, try alice.response(.network)), 2) == [.changed(aliceForBob)])
    #expect(bob.engine.peersNearby == [aliceForBob] && bob.engine.lastSighted(aliceForBob) == Self.at(1))

    let ways = bob.engine.ways(to: aliceForBob, at: Self.wall(3))
    #expect(ways.map(\.way) == [network, bluetooth])
    #expect(Set(ways.map(\.recognition.identity)).count == 2, "each medium has its own announcement")
    for way in ways {
      let server = try alice.engine.credential(for: way.recognition.identity, at: Self.wall(3))
      #expect(server.peer == bobForAlice)
      #expect(server.preSharedKey.equals(try bob.engine.preSharedKey(for: way.recognition, at: Self.wall(3))))
    }

    _ = Self.handle(&eve, .sighted(bluetooth, .generation(seen)), 1)
    #expect(Self.handle(&eve, .fetched(bluetooth, try alice.response(.bluetooth)), 2) == [])
    #expect(eve.engine.peersNearby.isEmpty)
    let counters = Dictionary(uniqueKeysWithValues: eve.engine.tallies.map { ($0.name, $0.count) })
    #expect(counters["Recognized"] == 0 && (counters["NotForUs"] ?? 0) + (counters["UnknownSenders"] ?? 0) == 1)
  }

  @Test("A presence announcement without an end is renewed before it expires, with a new name and generation")
  func renewal() throws {
    var alice = try Node(1)
    let bob = try alice.add(try People.key(2).publicKey)
    _ = try alice.engine.announce(to: [bob], for: nil, at: Self.at(0), wall: Self.wall(0))
    var stocks = [alice.engine.stock(of: .network)]
    var seconds = 0.0
    for _ in 0..<1000 where seconds < 3 * 3600 {
      let due = try #require(alice.engine.deadline)
      seconds = Double(due.nanoseconds) / 1e9
      let intents = Self.handle(&alice, .timer, seconds)
      if case .advertise = intents.first { stocks.append(alice.engine.stock(of: .network)) }
      guard case .announcement(let bytes) = alice.engine.stock(of: .network) else {
        Issue.record("nothing is served at \(seconds) s")
        return
      }
      let expiration = try RawAnnouncement(reading: bytes).expiration
      #expect(Self.wall(seconds).duration(to: expiration) >= .seconds(590))
    }
    #expect(Set(stocks).count == stocks.count && stocks.count == 4)
  }

  @Test(
    "A peer whose key is added after its announcement was fetched is reported nearby once, at once",
    arguments: Dialect.allCases)
  func addedLater(dialect: Dialect) throws {
    var alice = try Node(1, dialects: [dialect], sends: dialect)
    var bob = try Node(2, dialects: [dialect], sends: dialect)
    let recipient = try alice.add(bob.key)
    _ = try alice.engine.announce(to: [recipient], for: nil, at: Self.at(0), wall: Self.wall(0))
    let way = Way.bluetooth(alice.device)
    _ = Self.handle(&bob, .sighted(way, .generation(1)), 1)
    #expect(Self.handle(&bob, .fetched(way, try alice.response(.bluetooth)), 2) == [])
    let other = try bob.engine.addPeer(try People.key(9).publicKey, at: Self.at(3), wall: Self.wall(3))
    #expect(other.intents == [])
    let added = try bob.engine.addPeer(alice.key, at: Self.at(3), wall: Self.wall(3))
    #expect(added.intents == [.appeared(added.peer)] && bob.engine.peersNearby == [added.peer])
    let found = try #require(bob.engine.ways(to: added.peer, at: Self.wall(4)).first)
    #expect(try alice.engine.credential(for: found.recognition.identity, at: Self.wall(4)).peer == recipient)
    // A stored announcement is used once: the same key is not recognised again after its removal.
    _ = try bob.engine.removePeer(added.peer, at: Self.at(5), wall: Self.wall(5))
    #expect(try bob.engine.addPeer(alice.key, at: Self.at(6), wall: Self.wall(6)).intents == [])
  }

  @Test("A stored presence announcement is not recognised after it has expired, or if its way now serves another one")
  func keptTooLong() throws {
    for isReplaced in [false, true] {
      var (alice, bob) = (try Node(1), try Node(2))
      let recipient = try alice.add(bob.key)
      _ = try alice.engine.announce(to: [recipient], for: nil, at: Self.at(0), wall: Self.wall(0))
      let way = Way.bluetooth(alice.device)
      _ = Self.handle(&bob, .sighted(way, .generation(1)), 1)
      _ = Self.handle(&bob, .fetched(way, try alice.response(.bluetooth)), 2)
      if isReplaced {
        _ = Self.handle(&bob, .sighted(way, .generation(2)), 3)
        _ = Self.handle(&bob, .fetched(way, .nothing), 3)
      }
      let late = isReplaced ? 4.0 : 3700
      #expect(try bob.engine.addPeer(alice.key, at: Self.at(4), wall: Self.wall(late)).intents == [])
    }
  }

  @Test("A presence announcement is renewed when the clock is set to a time after its expiration")
  func clockSet() throws {
    var alice = try Node(1)
    let bob = try alice.add(try People.key(2).publicKey)
    _ = try alice.engine.announce(to: [bob], for: nil, at: Self.at(0), wall: Self.wall(0))
    let before = alice.engine.stock(of: .network)
    _ = alice.engine.handle(.timer, at: Self.at(50), wall: Self.wall(50))
    #expect(alice.engine.stock(of: .network) == before)
    _ = alice.engine.handle(.timer, at: Self.at(100), wall: Self.wall(7200))
    #expect(alice.engine.stock(of: .network) != before)
  }

  @Test("A presence announcement for a limited time ends then, and is not renewed if the time is short")
  func end() throws {
    var alice = try Node(1)
    let bob = try alice.add(try People.key(2).publicKey)
    _ = try alice.engine.announce(to: [bob], for: .seconds(45), at: Self.at(0), wall: Self.wall(0))
    #expect(alice.engine.deadline == Self.at(45))
    let intents = Self.handle(&alice, .timer, 45)
    #expect(intents.last == .silence && intents.count == 2)
    #expect(alice.engine.stock(of: .network) == .nothing && !alice.engine.isAnnouncing)
    #expect(try alice.response(.bluetooth) == .nothing)
    #expect(alice.engine.silence(at: Self.at(46)) == [])
    #expect(alice.engine.deadline == nil)
    #expect(throws: PresenceError.badLife) {
      try alice.engine.announce(to: [bob], for: .seconds(9), at: Self.at(50), wall: Self.wall(50))
    }
  }

  @Test("The generation number changes with every presence announcement, and its first value is random")
  func generations() throws {
    var starts: Set<UInt8> = []
    for number: UInt64 in 1...8 {
      var node = try Node(number)
      let peer = try node.add(try People.key(50).publicKey)
      var seen: [UInt8] = []
      for step in 0..<3 {
        for case .advertise(let generation) in try node.engine.announce(
          to: [peer], for: nil, at: Self.at(Double(step)), wall: Self.wall(Double(step)))
        { seen.append(generation) }
      }
      #expect(seen == [seen[0], seen[0] &+ 1, seen[0] &+ 2])
      starts.insert(seen[0])
    }
    #expect(starts.count > 4)
  }

  @Test("A removed presence peer is left out of announcements, and is not nearby")
  func removal() throws {
    var alice = try Node(1)
    let bob = try Node(2)
    let (first, second) = (try alice.add(bob.key), try alice.add(try People.key(3).publicKey))
    _ = try alice.engine.announce(to: [first, second], for: nil, at: Self.at(0), wall: Self.wall(0))
    let intents = try alice.engine.removePeer(first, at: Self.at(1), wall: Self.wall(1))
    guard case .advertise = intents.first, case .announcement(let bytes) = alice.engine.stock(of: .network) else {
      Issue.record("the others get no new announcement")
      return
    }
    #expect(bytes.count == 96 + 48)
    #expect(try alice.engine.removePeer(second, at: Self.at(2), wall: Self.wall(2)).last == .silence)
    #expect(throws: PresenceError.unknownPeer) {
      try alice.engine.removePeer(second, at: Self.at(2), wall: Self.wall(2))
    }
  }

  @Test("A flood of new advertisements pauses discovery, and known peers can still connect")
  func flood() throws {
    var alice = try Node(1)
    let bob = try alice.add(try People.key(2).publicKey)
    _ = try alice.engine.announce(to: [bob], for: nil, at: Self.at(0), wall: Self.wall(0))
    guard case .announcement(let bytes) = alice.engine.stock(of: .bluetooth) else {
      Issue.record("not what was expected first")
      return
    }
    var pauses: [Intent] = []
    for number: UInt64 in 0..<500 {
      for intent in Self.handle(&alice, .sighted(.bluetooth(DeviceAddress(number)), .generation(0)), 1) {
        if case .pauseDiscovery = intent { pauses.append(intent) }
      }
    }
    #expect(pauses == [.pauseDiscovery(until: Self.at(31))])
    let raw = try RawAnnouncement(reading: bytes).checked(at: Self.wall(1))
    let identity = TLSIdentity.text(of: raw.preamble, raw.beacons[0])
    #expect(try alice.engine.credential(for: identity, at: Self.wall(5)).peer == bob)
    // Datagrams are not read meanwhile.
    var random = SeededRandom(seed: 1)
    let other = NetworkAddress.v4(9)
    let alive = SSDPMessage.alive(
      ServiceName(randomFrom: &random), location: Location(address: other, port: 5000).url
    ).bytes(for: .ipv4)
    #expect(Self.handle(&alice, .datagram(alive, from: other, port: 1900), 30) == [])
    #expect(Self.handle(&alice, .datagram(alive, from: other, port: 1900), 31).count == 1)
  }

  @Test("Repeated advertisements and datagrams with known versions never pause discovery")
  func repetition() throws {
    var alice = try Node(1)
    for second in 0..<30 {
      for number: UInt64 in 0..<40 {
        _ = Self.handle(&alice, .sighted(.bluetooth(DeviceAddress(number)), .generation(0)), Double(second))
      }
    }
    let counters = Dictionary(uniqueKeysWithValues: alice.engine.tallies.map { ($0.name, $0.count) })
    #expect(counters["DiscoveryPauses"] == 0 && counters.count == alice.engine.tallies.count)
  }

  @Test("A failed request for beacons is repeated after a pause, and a busy peer is asked at the time it names")
  func failures() throws {
    var alice = try Node(1)
    let way = Way.network(Location(address: .v4(7), port: 5000))
    #expect(Self.handle(&alice, .sighted(way, .generation(0)), 0) == [.fetch(way)])
    _ = Self.handle(&alice, .fetchFailed(way), 0)
    #expect(Self.handle(&alice, .timer, 2) == [.fetch(way)])
    _ = Self.handle(&alice, .fetched(way, .busy(seconds: 50)), 2)
    #expect(Self.handle(&alice, .timer, 51) == [])
    #expect(Self.handle(&alice, .timer, 52) == [.fetch(way)])
    _ = Self.handle(&alice, .fetched(way, .refused(.redirect)), 52)
    #expect(alice.engine.peersNearby.isEmpty)
  }

  @Test("A presence announcement that is refused does not change the engine's state")
  func refusedAnnouncement() throws {
    var alice = try Node(1)
    let bob = try alice.add(try People.key(2).publicKey)
    _ = try alice.engine.announce(to: [bob], for: nil, at: Self.at(0), wall: Self.wall(0))
    let before = alice.engine.stock(of: .network)
    #expect(throws: PresenceError.unknownPeer) {
      try alice.engine.announce(to: [PeerID(9)], for: nil, at: Self.at(1), wall: Self.wall(1))
    }
    #expect(throws: PresenceError.badRecipients(0)) {
      try alice.engine.announce(to: [], for: nil, at: Self.at(1), wall: Self.wall(1))
    }
    #expect(alice.engine.stock(of: .network) == before && alice.engine.isAnnouncing)
  }
}
