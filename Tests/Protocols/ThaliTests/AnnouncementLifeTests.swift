import Bytes
import Common
import Testing

@testable import Thali

@Suite("Expiry and renewal of presence announcements, and the return of peers")
struct AnnouncementLifeTests {
  private typealias Node = PresenceEngineTests.Node

  private static func at(_ seconds: Double) -> Instant { PresenceEngineTests.at(seconds) }
  private static func wall(_ seconds: Double) -> WallTime { PresenceEngineTests.wall(seconds) }

  private static func count(_ name: String, of node: Node) -> UInt64 {
    node.engine.tallies.first { $0.name == name }?.count ?? 0
  }

  /// Two engines: Bob has recognised Alice over both media, 1 s after she announced herself.
  private struct Meeting {
    var alice: Node
    var bob: Node
    let aliceForBob: PeerID
    let bobForAlice: PeerID
    let name: ServiceName
    let network: Way
    let bluetooth: Way

    init() throws {
      var (alice, bob) = (try Node(1), try Node(2))
      bobForAlice = try alice.add(bob.key)
      aliceForBob = try bob.add(alice.key)
      let intents = try alice.engine.announce(
        to: [bobForAlice], for: nil, at: AnnouncementLifeTests.at(0), wall: AnnouncementLifeTests.wall(0))
      let names = intents.compactMap { intent -> ServiceName? in
        if case .ssdp(.announce(let name)) = intent { name } else { nil }
      }
      name = try #require(names.first)
      network = .network(Location(address: alice.address, port: 5000))
      bluetooth = .bluetooth(alice.device)
      (self.alice, self.bob) = (alice, bob)
      for way in [network, bluetooth] { _ = try fetch(way, 1) }
    }

    /// Lets Bob discover a way, and fetch the beacons that Alice serves over its medium.
    mutating func fetch(_ way: Way, _ seconds: Double) throws -> [PresenceEngine.Intent] {
      let isBluetooth = if case .bluetooth = way { true } else { false }
      PresenceEngineTests.handle(&bob, .sighted(way, isBluetooth ? .generation(1) : .name(name)), seconds)
      let response = try alice.response(isBluetooth ? .bluetooth : .network)
      return PresenceEngineTests.handle(&bob, .fetched(way, response), seconds)
    }

    mutating func pass(_ event: PresenceEngine.Event, _ seconds: Double) -> [PresenceEngine.Intent] {
      PresenceEngineTests.handle(&bob, event, seconds)
    }
  }

  @Test("A known peer that returns into range with the same announcement is recognised at once")
  func returns() throws {
    var meeting = try Meeting()
    #expect(meeting.bob.engine.peersNearby == [meeting.aliceForBob])
    #expect(meeting.pass(.timer, 61) == [.changed(meeting.aliceForBob)])
    #expect(meeting.pass(.timer, 121) == [.disappeared(meeting.aliceForBob)])
    #expect(try meeting.fetch(meeting.network, 200) == [.appeared(meeting.aliceForBob)])
    #expect(try meeting.fetch(meeting.bluetooth, 200) == [.changed(meeting.aliceForBob)])
    let ways = meeting.bob.engine.ways(to: meeting.aliceForBob, at: Self.wall(200))
    #expect(ways.count == 2 && ways.allSatisfy { Self.wall(200) < $0.recognition.expiration })
  }

  @Test("A forged SSDP byebye removes a known peer only until the peer's next datagram")
  func forgedByebye() throws {
    var meeting = try Meeting()
    let byebye = SSDPMessage.byebye(meeting.name).bytes(for: .ipv4)
    _ = meeting.pass(.datagram(byebye, from: meeting.alice.address, port: 1900), 2)
    #expect(meeting.bob.engine.ways(to: meeting.aliceForBob, at: Self.wall(2)).map(\.way) == [meeting.bluetooth])
    #expect(try meeting.fetch(meeting.network, 3) == [.changed(meeting.aliceForBob)])
  }

  @Test("Another address that serves a recognised presence announcement is a replay, even after the peer left")
  func replay() throws {
    var meeting = try Meeting()
    _ = meeting.pass(.timer, 200)
    let others: [Way] = [.bluetooth(DeviceAddress(99)), .network(Location(address: .v4(99), port: 5000))]
    for way in others { #expect(try meeting.fetch(way, 201) == []) }
    #expect(meeting.bob.engine.peersNearby.isEmpty && Self.count("Replayed", of: meeting.bob) == 2)
    #expect(try meeting.fetch(meeting.network, 202) == [.appeared(meeting.aliceForBob)])
  }

  @Test("A presence peer that returns with an expired announcement is not recognised")
  func expired() throws {
    var meeting = try Meeting()
    _ = meeting.pass(.timer, 200)
    #expect(try meeting.fetch(meeting.network, 3700) == [])
    #expect(meeting.bob.engine.peersNearby.isEmpty)
  }

  @Test("A presence peer whose announcement has expired is not nearby, and its beacons are fetched again")
  func expiredWhileNearby() throws {
    var meeting = try Meeting()
    var ends: [[PresenceEngine.Intent]] = []
    // The announcement lives for 1 h and up to a minute more.
    for second in stride(from: 30.0, through: 3690, by: 30) {
      let intents = meeting.pass(.sighted(meeting.network, .name(meeting.name)), second) + meeting.pass(.timer, second)
      if intents.contains(.disappeared(meeting.aliceForBob)) {
        ends.append(intents)
        #expect(second >= 3600)
      }
    }
    #expect(ends == [[.disappeared(meeting.aliceForBob), .fetch(meeting.network)]])
    #expect(meeting.bob.engine.peersNearby.isEmpty)
  }

  @Test("Known presence peers stay nearby while discovery is paused, and age from the end of the pause")
  func pause() throws {
    var meeting = try Meeting()
    for number: UInt64 in 100..<160 { _ = meeting.pass(.sighted(.bluetooth(DeviceAddress(number)), .generation(0)), 1) }
    #expect(Self.count("DiscoveryPauses", of: meeting.bob) == 1)
    // The pause ends at 31 s. Bluetooth ways live for 60 s.
    _ = meeting.pass(.timer, 90)
    #expect(meeting.bob.engine.ways(to: meeting.aliceForBob, at: Self.wall(90)).count == 2)
    _ = meeting.pass(.timer, 91)
    #expect(meeting.bob.engine.ways(to: meeting.aliceForBob, at: Self.wall(91)).map(\.way) == [meeting.network])
    _ = meeting.pass(.timer, 151)
    #expect(meeting.bob.engine.peersNearby.isEmpty)
  }

  @Test("The time when a peer was last discovered is known after its last way is lost")
  func lastScanResult() throws {
    var meeting = try Meeting()
    _ = meeting.pass(.sighted(meeting.bluetooth, .generation(1)), 30)
    _ = meeting.pass(.timer, 200)
    #expect(meeting.bob.engine.peersNearby.isEmpty)
    #expect(meeting.bob.engine.lastSighted(meeting.aliceForBob) == Self.at(30))
    _ = try meeting.bob.engine.removePeer(meeting.aliceForBob, at: Self.at(201), wall: Self.wall(201))
    #expect(meeting.bob.engine.lastSighted(meeting.aliceForBob) == nil)
  }

  @Test("A new address of this machine causes a new presence announcement, at most once a minute")
  func newAddress() throws {
    var meeting = try Meeting()
    func isNew(_ intents: [PresenceEngine.Intent]) -> Bool {
      intents.contains { if case .advertise = $0 { true } else { false } }
    }
    func join(_ seconds: Double) -> Bool {
      isNew(PresenceEngineTests.handle(&meeting.alice, .joinedNetwork, seconds))
    }
    func timer(_ seconds: Double) -> Bool { isNew(PresenceEngineTests.handle(&meeting.alice, .timer, seconds)) }
    #expect(join(100) && !join(110) && !join(120))
    #expect(!timer(159) && timer(160) && !timer(161))
    #expect(!timer(300), "the request is done")
    _ = meeting.alice.engine.silence(at: Self.at(400))
    #expect(!join(500), "nothing is announced")
  }

  @Test("A failed renewal of an announcement is repeated each minute, and the old one stays until it expires")
  func failedRenewal() throws {
    var alice = try Node(1)
    let bob = try alice.add(try People.key(2).publicKey)
    _ = try alice.engine.announce(to: [bob], for: nil, at: Self.at(0), wall: Self.wall(0))
    let first = alice.engine.stock(of: .network)
    // With a clock in 1970 no announcement can be made.
    let unset = WallTime(milliseconds: 1)
    _ = alice.engine.handle(.timer, at: Self.at(3000), wall: unset)
    #expect(alice.engine.stock(of: .network) == first && alice.engine.renewalFailure == .clockNotSet)
    #expect(alice.engine.deadline.map { $0 <= Self.at(3060) } == true)
    _ = alice.engine.handle(.timer, at: Self.at(3059), wall: Self.wall(3059))
    #expect(alice.engine.stock(of: .network) == first)
    _ = alice.engine.handle(.timer, at: Self.at(3060), wall: Self.wall(3060))
    #expect(alice.engine.stock(of: .network) != first && alice.engine.renewalFailure == nil)
    #expect(alice.engine.failedRenewals == 1)
    // From 6060 s on until the announcement has expired.
    for second in stride(from: 6060.0, to: 6660, by: 60) {
      _ = alice.engine.handle(.timer, at: Self.at(second), wall: unset)
      #expect(alice.engine.isAnnouncing)
    }
    #expect(alice.engine.handle(.timer, at: Self.at(6660), wall: unset).last == .silence)
    #expect(!alice.engine.isAnnouncing && alice.engine.stock(of: .network) == .nothing)
    #expect(alice.engine.renewalFailure == .clockNotSet)
    _ = alice.engine.handle(.timer, at: Self.at(6720), wall: Self.wall(6720))
    #expect(alice.engine.recipients == [bob] && alice.engine.renewalFailure == nil)
  }

  @Test("`silence` also ends the attempts to renew an expired presence announcement")
  func silenceAfterFailure() throws {
    var alice = try Node(1)
    let bob = try alice.add(try People.key(2).publicKey)
    _ = try alice.engine.announce(to: [bob], for: nil, at: Self.at(0), wall: Self.wall(0))
    _ = alice.engine.handle(.timer, at: Self.at(3700), wall: WallTime(milliseconds: 1))
    #expect(!alice.engine.isAnnouncing && alice.engine.deadline != nil)
    #expect(alice.engine.silence(at: Self.at(3701)) == [])
    #expect(alice.engine.deadline == nil && alice.engine.renewalFailure == nil)
    #expect(alice.engine.handle(.timer, at: Self.at(3800), wall: Self.wall(3800)) == [])
  }

  @Test("Programs may request 30 presence announcements at once, and then one every 2 s")
  func announcementRate() throws {
    var alice = try Node(1)
    let bob = try alice.add(try People.key(2).publicKey)
    for _ in 0..<30 { _ = try alice.engine.announce(to: [bob], for: nil, at: Self.at(0), wall: Self.wall(0)) }
    let last = alice.engine.stock(of: .network)
    #expect(throws: PresenceError.tooFast) {
      try alice.engine.announce(to: [bob], for: nil, at: Self.at(1), wall: Self.wall(1))
    }
    #expect(alice.engine.stock(of: .network) == last)
    _ = try alice.engine.announce(to: [bob], for: nil, at: Self.at(3), wall: Self.wall(3))
  }

  @Test("Ways to peers beyond four of an address are ignored, and do not pause discovery")
  func ignoredWays() throws {
    var bob = try Node(2)
    for port: UInt16 in 5000..<5200 {
      let way = Way.network(Location(address: .v4(7), port: port))
      PresenceEngineTests.handle(&bob, .sighted(way, .generation(0)), 1)
    }
    #expect(Self.count("DiscoveryPauses", of: bob) == 0 && Self.count("IgnoredWays", of: bob) == 196)
  }
}
