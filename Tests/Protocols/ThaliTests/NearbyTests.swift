import Bytes
import Common
import Crypto
import Testing

@testable import Thali

@Suite("Peers nearby")
struct NearbyTests {
  typealias Event = NearbyPeers.Event
  typealias Intent = NearbyPeers.Intent

  static let wall = People.now
  private func table() -> NearbyPeers { NearbyPeers(random: SeededRandom(seed: 1)) }
  private func at(_ seconds: Double) -> Instant { .zero.advanced(by: .milliseconds(Int64(seconds * 1000))) }
  private func bluetooth(_ number: UInt64) -> Way { .bluetooth(DeviceAddress(number)) }
  private func network(_ host: UInt32, port: UInt16 = 5000) -> Way {
    .network(Location(address: .v4(host), port: port))
  }
  private func found(_ peer: UInt32) -> AnnouncementVerdict {
    .recognized(
      Recognition(
        peer: PeerID(peer), dialect: .spec, identity: "identity \(peer)",
        expiration: Self.wall.advanced(by: .seconds(3600))))
  }
  private let stranger = AnnouncementVerdict.dropped(.notForUs)

  @Test("Beacons are fetched when a way is sighted first, and again only for another version")
  func versions() {
    var table = table()
    let way = bluetooth(1)
    #expect(table.handle(.sighted(way, .generation(7)), at: at(0)) == [.fetch(way)])
    #expect(table.handle(.sighted(way, .generation(7)), at: at(1)) == [])
    #expect(table.handle(.fetched(way, found(1)), at: at(2)) == [.appeared(PeerID(1))])
    #expect(table.handle(.sighted(way, .generation(7)), at: at(3)) == [])
    #expect(table.handle(.sighted(way, .generation(8)), at: at(4)) == [.fetch(way)])
    // A version that comes while the fetch runs is fetched after it.
    #expect(table.handle(.sighted(way, .generation(9)), at: at(5)) == [])
    #expect(table.handle(.fetched(way, found(1)), at: at(6)) == [.changed(PeerID(1)), .fetch(way)])
  }

  @Test("A generation that wraps around to a smaller number is another version")
  func wrapping() {
    var table = table()
    _ = table.handle(.sighted(bluetooth(1), .generation(255)), at: at(0))
    _ = table.handle(.fetched(bluetooth(1), stranger), at: at(0))
    #expect(
      table.isNew(bluetooth(1), .generation(0), at: at(1)) && !table.isNew(bluetooth(1), .generation(255), at: at(1)))
  }

  @Test("A peer has all its ways, TCP first, and is gone with the last of them")
  func ways() {
    var table = table()
    _ = table.handle(.sighted(bluetooth(1), .generation(0)), at: at(0))
    _ = table.handle(.sighted(network(1), .generation(0)), at: at(0))
    #expect(table.handle(.fetched(bluetooth(1), found(4)), at: at(1)) == [.appeared(PeerID(4))])
    #expect(table.handle(.fetched(network(1), found(4)), at: at(1)) == [.changed(PeerID(4))])
    #expect(table.ways(to: PeerID(4), at: Self.wall).map(\.way) == [network(1), bluetooth(1)])
    #expect(table.lastSighted(PeerID(4)) == at(0) && table.peers == [PeerID(4)])
    // An identity that has expired opens nothing.
    #expect(table.ways(to: PeerID(4), at: Self.wall.advanced(by: .seconds(3600))).isEmpty)
    #expect(table.deadline == at(60))
    #expect(table.handle(.timer, at: at(60)) == [.changed(PeerID(4))])
    #expect(table.handle(.timer, at: at(120)) == [.disappeared(PeerID(4))])
    #expect(table.count == 0 && table.deadline == nil)
  }

  @Test(
    "A way that serves nothing for us any more leads to nobody, and one that serves a replay still to the same peer")
  func served() {
    var table = table()
    let way = bluetooth(1)
    _ = table.handle(.sighted(way, .generation(0)), at: at(0))
    _ = table.handle(.fetched(way, found(1)), at: at(0))
    _ = table.handle(.sighted(way, .generation(1)), at: at(1))
    #expect(table.handle(.fetched(way, .dropped(.replayed)), at: at(1)) == [.changed(PeerID(1))])
    _ = table.handle(.sighted(way, .generation(2)), at: at(2))
    #expect(table.handle(.fetched(way, found(2)), at: at(2)) == [.disappeared(PeerID(1)), .appeared(PeerID(2))])
    for (number, verdict) in [stranger, nil].enumerated() {
      _ = table.handle(.sighted(way, .generation(UInt8(10 + number))), at: at(3))
      #expect(table.handle(.fetched(way, verdict), at: at(3)) == (number == 0 ? [.disappeared(PeerID(2))] : []))
    }
  }

  @Test("The pause after failures doubles from 2 s to 5 min, and a success ends it")
  func backoff() {
    var table = table()
    let way = bluetooth(1)
    var now = 0.0
    var fetches = table.handle(.sighted(way, .generation(0)), at: at(now))
    for pause in [2.0, 4, 8, 16, 32, 64, 128, 256, 300, 300] {
      #expect(fetches == [.fetch(way)])
      #expect(table.handle(.failed(way, retryAfter: nil), at: at(now)) == [])
      // The way stays sighted, and another version does not end the pause.
      for second in stride(from: 0.0, to: pause, by: 20) {
        let version = BeaconVersion.generation(UInt8(Int(now + second) % 256))
        #expect(table.handle(.sighted(way, version), at: at(now + second)) == [])
      }
      #expect(table.deadline == at(now + pause))
      now += pause
      fetches = table.handle(.timer, at: at(now))
    }
    _ = table.handle(.fetched(way, nil), at: at(now))
    _ = table.handle(.sighted(way, .generation(77)), at: at(now))
    _ = table.handle(.failed(way, retryAfter: nil), at: at(now))
    #expect(table.deadline == at(now + 2))
  }

  @Test("A peer that says when to come back is asked then, within 5 min")
  func retryAfter() {
    for (asked, pause) in [(1.0, 2.0), (30, 30), (3600, 300)] {
      var table = table()
      let way = network(1)
      _ = table.handle(.sighted(way, .generation(0)), at: at(0))
      _ = table.handle(.failed(way, retryAfter: .seconds(asked)), at: at(0))
      for second in stride(from: 50.0, to: pause, by: 50) {
        _ = table.handle(.sighted(way, .generation(0)), at: at(second))
      }
      #expect(table.handle(.timer, at: at(pause - 0.001)) == [])
      #expect(table.handle(.timer, at: at(pause)) == [.fetch(way)])
    }
  }

  @Test("One fetch runs over Bluetooth and eight over the network")
  func parallel() {
    var table = table()
    for number: UInt64 in 0..<5 { _ = table.handle(.sighted(bluetooth(number), .generation(0)), at: at(0)) }
    var running = 0
    for host: UInt32 in 0..<20 {
      running += table.handle(.sighted(network(host), .generation(0)), at: at(0)).count
    }
    #expect(running == 8)
    // The end of one starts the next.
    let next =
      table.handle(.fetched(network(0), stranger), at: at(1)).count
      + table.handle(.fetched(network(1), nil), at: at(1)).count
    #expect(next <= 2 && next >= 1)
  }

  @Test("A fetch whose end is never reported counts as failed after 30 s, over the network after 10 s")
  func lostFetch() {
    for (way, seconds) in [(bluetooth(1), 30.0), (network(1), 10)] {
      var table = table()
      _ = table.handle(.sighted(way, .generation(0)), at: at(0))
      #expect(table.deadline == at(seconds))
      #expect(table.handle(.timer, at: at(seconds)) == [])
      #expect(table.deadline == at(seconds + 2))
      #expect(table.handle(.fetched(way, found(1)), at: at(seconds)) == [], "it comes too late")
      #expect(table.handle(.timer, at: at(seconds + 2)) == [.fetch(way)])
    }
  }

  @Test("Known peers are fetched before strangers")
  func order() {
    var table = table()
    _ = table.handle(.sighted(bluetooth(1), .generation(0)), at: at(0))
    _ = table.handle(.fetched(bluetooth(1), found(1)), at: at(0))
    for number: UInt64 in 2..<40 { _ = table.handle(.sighted(bluetooth(number), .generation(0)), at: at(1)) }
    _ = table.handle(.sighted(bluetooth(1), .generation(1)), at: at(2))
    var running = bluetooth(2)
    for number: UInt64 in 2..<40 where table.handle(.fetched(bluetooth(number), nil), at: at(3)) != [] {
      running = bluetooth(number)
      break
    }
    #expect(running != bluetooth(1))
    #expect(!table.isNew(bluetooth(1), .generation(1), at: at(4)))
    #expect(table.handle(.fetched(bluetooth(1), found(1)), at: at(4)).first == .changed(PeerID(1)), "its fetch runs")
  }

  @Test("200 ways of a kind are remembered, 4 of one address, and a known peer's never makes room")
  func bounded() {
    var table = table()
    _ = table.handle(.sighted(bluetooth(1), .generation(0)), at: at(0))
    _ = table.handle(.fetched(bluetooth(1), found(1)), at: at(0))
    for number: UInt64 in 2..<2000 { _ = table.handle(.sighted(bluetooth(number), .generation(0)), at: at(1)) }
    #expect(table.count == 200 && table.peers == [PeerID(1)])
    for port: UInt16 in 2000..<2010 { _ = table.handle(.sighted(network(1, port: port), .generation(0)), at: at(1)) }
    #expect(table.count == 204 && table.ignoredWays == 6)
    for host: UInt32 in 2..<1000 { _ = table.handle(.sighted(network(host), .generation(0)), at: at(1)) }
    #expect(table.count == 400)
  }

  @Test("Where all ways lead to known peers, another one is ignored")
  func full() {
    var table = table()
    for number: UInt64 in 0..<200 {
      _ = table.handle(.sighted(bluetooth(number), .generation(0)), at: at(0))
      _ = table.handle(.fetched(bluetooth(number), found(UInt32(number))), at: at(0))
    }
    #expect(table.handle(.sighted(bluetooth(999), .generation(0)), at: at(1)) == [])
    #expect(table.ignoredWays == 1 && table.peers.count == 200)
  }

  @Test("A client without a version is fetched once in a minute")
  func unknownVersion() {
    var table = table()
    let way = bluetooth(5)
    #expect(table.handle(.sighted(way, .unknown), at: at(0)) == [.fetch(way)])
    _ = table.handle(.fetched(way, stranger), at: at(1))
    #expect(table.handle(.sighted(way, .unknown), at: at(2)) == [])
    #expect(table.handle(.sighted(way, .unknown), at: at(50)) == [])
    #expect(table.handle(.sighted(way, .unknown), at: at(61)) == [.fetch(way)])
  }

  @Test("Only the address of a peer says that the peer has left, and only for its last name")
  func left() {
    var table = table()
    var random = SeededRandom(seed: 4)
    let (name, other) = (ServiceName(randomFrom: &random), ServiceName(randomFrom: &random))
    _ = table.handle(.sighted(network(1), .name(name)), at: at(0))
    _ = table.handle(.fetched(network(1), found(1)), at: at(0))
    #expect(table.handle(.left(name, .v4(2)), at: at(1)) == [])
    #expect(table.handle(.left(other, .v4(1)), at: at(1)) == [])
    #expect(table.handle(.left(name, .v4(1)), at: at(1)) == [.disappeared(PeerID(1))])
  }
}

@Suite("Private presence as a whole")
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
        own: try People.key(number), configuration: configuration, random: SeededRandom(seed: number),
        parts: (SeededRandom(seed: number + 100), SeededRandom(seed: number + 200)))
      address = .v4(0x0A00_0000 + UInt32(number))
      device = DeviceAddress(number)
    }

    var key: Secp256k1.PublicKey { engine.known.own.publicKey }

    /// What an HTTP client gets from this node.
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
    "Two that know each other find each other over both media, get one key, and a stranger finds nothing",
    arguments: Dialect.allCases)
  func meeting(dialect: Dialect) throws {
    var alice = try Node(1, dialects: [dialect], sends: dialect)
    var bob = try Node(2, dialects: [dialect], sends: dialect)
    var eve = try Node(3, dialects: [dialect], sends: dialect)
    let (bobForAlice, aliceForBob) = (try alice.engine.addPeer(bob.key), try bob.engine.addPeer(alice.key))
    _ = try eve.engine.addPeer(alice.key)
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
    guard case .beacons(let seen, let device) = Advertisement(reading: advertisement) else { return }
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
      #expect(server.preSharedKey.equals(try bob.engine.known.preSharedKey(for: way.recognition, at: Self.wall(3))))
    }

    _ = Self.handle(&eve, .sighted(bluetooth, .generation(seen)), 1)
    #expect(Self.handle(&eve, .fetched(bluetooth, try alice.response(.bluetooth)), 2) == [])
    #expect(eve.engine.peersNearby.isEmpty)
    let counters = Dictionary(uniqueKeysWithValues: eve.engine.tallies.map { ($0.name, $0.count) })
    #expect(counters["Recognized"] == 0 && (counters["NotForUs"] ?? 0) + (counters["UnknownSenders"] ?? 0) == 1)
  }

  @Test("An announcement without an end is renewed before it expires, with another name and generation")
  func renewal() throws {
    var alice = try Node(1)
    let bob = try alice.engine.addPeer(try People.key(2).publicKey)
    _ = try alice.engine.announce(to: [bob], for: nil, at: Self.at(0), wall: Self.wall(0))
    var stocks = [alice.engine.stock(of: .network)]
    var seconds = 0.0
    while seconds < 3 * 3600 {
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

  @Test("An announcement with an end is silent after it, and made once if it is short")
  func end() throws {
    var alice = try Node(1)
    let bob = try alice.engine.addPeer(try People.key(2).publicKey)
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

  @Test("The generation changes with every change, and does not begin at a fixed number")
  func generations() throws {
    var starts: Set<UInt8> = []
    for number: UInt64 in 1...8 {
      var node = try Node(number)
      let peer = try node.engine.addPeer(try People.key(50).publicKey)
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

  @Test("A peer that is removed is not announced to, and is not nearby")
  func removal() throws {
    var alice = try Node(1)
    let bob = try Node(2)
    let (first, second) = (try alice.engine.addPeer(bob.key), try alice.engine.addPeer(try People.key(3).publicKey))
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

  @Test("A flood of new advertisements stops discovery, and known peers can still connect")
  func flood() throws {
    var alice = try Node(1)
    let bob = try alice.engine.addPeer(try People.key(2).publicKey)
    _ = try alice.engine.announce(to: [bob], for: nil, at: Self.at(0), wall: Self.wall(0))
    guard case .announcement(let bytes) = alice.engine.stock(of: .bluetooth) else { return }
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

  @Test("Repeated advertisements and datagrams of known versions never stop discovery")
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

  @Test("A request that fails is tried again after a pause, and a busy peer when it says")
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

  @Test("Announcing fails without a change where it is refused")
  func refusedAnnouncement() throws {
    var alice = try Node(1)
    let bob = try alice.engine.addPeer(try People.key(2).publicKey)
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
