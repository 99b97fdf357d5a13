import Air
import Common
import Crypto
import Loop
import Network
import Testing
import Thali

@testable import Presence

@Suite("Private presence in virtual time")
struct PresenceServiceTests {
  @LoopActor
  private struct Meeting {
    let network = VirtualNetwork()
    let anna: PresenceService
    let ben: PresenceService
    let benForAnna: PresenceService.Peer
    let annaForBen: PresenceService.Peer

    init() throws {
      (anna, ben) = (network.host(), network.host())
      benForAnna = try anna.know("ben", ben.keyText, in: network)
      annaForBen = try ben.know("anna", anna.keyText, in: network)
    }
  }

  @Test("A recipient recognises the sender of an announcement; a machine with only the public key does not")
  @LoopActor
  func meeting() throws {
    let meeting = try Meeting()
    let eve = meeting.network.host()
    let annaForEve = try eve.know("anna", meeting.anna.keyText, in: meeting.network)
    try meeting.anna.announce(to: ["ben"], seconds: 0)
    meeting.network.time.advance(by: .seconds(1))
    #expect(meeting.ben.isNearby(meeting.annaForBen.id) && meeting.ben.ways(to: meeting.annaForBen.id).count == 1)
    #expect(meeting.ben.lastHeard(meeting.annaForBen.id) >= 1_780_272_000_000)
    #expect(!eve.isNearby(annaForEve.id) && eve.lastHeard(annaForEve.id) == 0)
    let judged = eve.tallies.filter { ["NotForUs", "UnknownSenders"].contains($0.name) }.map(\.count).reduce(0, +)
    #expect(judged == 1)
    #expect(!meeting.anna.isNearby(meeting.benForAnna.id), "ben announces nothing")
  }

  @Test("The presence status line, which every user can read, does not contain the number of peers")
  @LoopActor
  func status() throws {
    let meeting = try Meeting()
    try meeting.anna.announce(to: ["ben"], seconds: 0)
    meeting.network.time.advance(by: .seconds(1))
    #expect(meeting.ben.isNearby(meeting.annaForBen.id))
    #expect(meeting.anna.statusLine.hasSuffix("This machine is announced."))
    #expect(meeting.ben.statusLine.hasSuffix("Nothing is announced."))
    for service in [meeting.anna, meeting.ben] { #expect(!service.statusLine.contains { $0.isNumber }) }
  }

  @Test("After a forged SSDP byebye a peer is nearby again with its next datagram")
  @LoopActor
  func forgedByebye() throws {
    let meeting = try Meeting()
    meeting.anna.apply(Self.foreground)
    try meeting.anna.announce(to: ["ben"], seconds: 0)
    meeting.network.time.advance(by: .seconds(1))
    let host = meeting.network.hosts[0]
    let alive = try #require(host.recorded.last { String(decoding: $0, as: UTF8.self).contains("ssdp:alive") })
    guard case .alive(let name, _) = try SSDPMessage(reading: alive) else {
      Issue.record("not what was expected last")
      return
    }
    meeting.network.hosts[1].receive(SSDPMessage.byebye(name).bytes(for: .ipv4), from: host.address)
    #expect(!meeting.ben.isNearby(meeting.annaForBen.id))
    meeting.network.time.advance(by: .seconds(1))
    #expect(meeting.ben.isNearby(meeting.annaForBen.id))
  }

  private static var foreground: PresenceSettings {
    var settings = PresenceSettings()
    settings.isForeground = true
    return settings
  }

  @Test("A peer that sends no TLS hello within 3 s is disconnected and counted")
  @LoopActor
  func silentHandshake() throws {
    let network = VirtualNetwork()
    let anna = network.host()
    let ends = NeighbourRadio.pair()
    let peer = SocketStream(owning: ends.0)
    anna.streams.accept(SocketStream(owning: ends.1), from: DeviceAddress(1))
    network.time.advance(by: .milliseconds(2999))
    #expect(anna.streams.count == 1)
    network.time.advance(by: .milliseconds(1))
    #expect(anna.streams.count == 0)
    #expect(anna.tallies.first { $0.name == "SilentHandshakes" }?.count == 1)
    peer.close()
  }

  @Test("The 33rd TLS handshake ends the oldest one, and the fifth from one address is refused")
  @LoopActor
  func manyHandshakes() throws {
    let network = VirtualNetwork()
    let anna = network.host()
    func count(_ name: String) -> UInt64 { anna.tallies.first { $0.name == name }?.count ?? 0 }
    var peers: [SocketStream] = []
    func connect(_ device: UInt64) {
      let ends = NeighbourRadio.pair()
      peers.append(SocketStream(owning: ends.0))
      anna.streams.accept(SocketStream(owning: ends.1), from: DeviceAddress(device))
    }
    for _ in 0..<5 { connect(1) }
    #expect(anna.streams.count == 4 && count("TLSTooManyConnectionsOfOne") == 1)
    for device: UInt64 in 2...29 { connect(device) }
    #expect(anna.streams.count == 32 && count("EvictedHandshakes") == 0)
    connect(30)
    #expect(anna.streams.count == 32 && count("EvictedHandshakes") == 1)
    #expect(count("TLSTooManyConnections") == 0)
    for peer in peers { peer.close() }
  }

  @Test("The network port is open only during an announcement; a peer that stops announcing is not nearby")
  @LoopActor
  func port() throws {
    let meeting = try Meeting()
    let host = meeting.network.hosts[0]
    #expect(!host.isServing)
    try meeting.anna.announce(to: ["ben"], seconds: 60)
    #expect(host.isServing && meeting.anna.announcing == [meeting.benForAnna.id])
    meeting.network.time.advance(by: .seconds(1))
    #expect(meeting.ben.isNearby(meeting.annaForBen.id))
    meeting.anna.silence()
    meeting.network.time.advance(by: .seconds(1))
    #expect(!host.isServing && meeting.anna.announcing.isEmpty)
    #expect(!meeting.ben.isNearby(meeting.annaForBen.id))
  }

  @Test("An announcement ends after its configured time")
  @LoopActor
  func end() throws {
    let meeting = try Meeting()
    try meeting.anna.announce(to: ["ben"], seconds: 60)
    meeting.network.time.advance(by: .seconds(59))
    #expect(meeting.network.hosts[0].isServing)
    meeting.network.time.advance(by: .seconds(2))
    #expect(!meeting.network.hosts[0].isServing && meeting.anna.announcing.isEmpty)
  }

  @Test("A peer whose key is added after its announcement was received is nearby at once")
  @LoopActor
  func later() throws {
    let network = VirtualNetwork()
    let (anna, ben) = (network.host(), network.host())
    _ = try anna.know("ben", ben.keyText, in: network)
    try anna.announce(to: ["ben"], seconds: 0)
    network.time.advance(by: .seconds(1))
    let annaForBen = try ben.know("anna", anna.keyText, in: network)
    #expect(ben.isNearby(annaForBen.id))
  }

  @Test("A removed peer gets no more announcements, and is not nearby when it announces itself")
  @LoopActor
  func removal() throws {
    let meeting = try Meeting()
    try meeting.anna.announce(to: ["ben"], seconds: 0)
    var refusal: PresenceService.Refusal?
    meeting.anna.removePeer(meeting.benForAnna.id) { refusal = $0 }
    meeting.network.time.advance(by: .seconds(1))
    #expect(refusal == nil && meeting.anna.peers.isEmpty && meeting.anna.announcing.isEmpty)
    #expect(!meeting.network.hosts[0].isServing && !meeting.ben.isNearby(meeting.annaForBen.id))
    try meeting.ben.announce(to: ["anna"], seconds: 0)
    meeting.network.time.advance(by: .seconds(1))
    #expect(meeting.anna.tallies.first { $0.name == "Recognized" }?.count == 0)
  }

  @Test("Two announcements to one peer share no eight bytes except constants")
  @LoopActor
  func observer() throws {
    let meeting = try Meeting()
    var records: [[UInt8]] = []
    for _ in 0..<2 {
      try meeting.anna.announce(to: ["ben"], seconds: 600)
      meeting.network.time.advance(by: .seconds(1))
      records.append(try #require(meeting.network.hosts[0].recorded.last { $0.first == 0x30 }))
      meeting.anna.silence()
      meeting.network.time.advance(by: .seconds(1))
    }
    // Compared are the bytes after the constant prefix of the public key, without the expiration.
    func windows(_ bytes: [UInt8]) -> Set<[UInt8]> {
      var found: Set<[UInt8]> = []
      for part in [bytes[24..<88], bytes[96...]] {
        for index in part.indices.dropLast(7) { found.insert(Array(part[index..<index + 8])) }
      }
      return found
    }
    #expect(windows(records[0]).isDisjoint(with: windows(records[1])))
    #expect(records[0][88..<96] != records[1][88..<96], "an expiration used twice links announcements")
  }

  @Test("Adding a peer with a bad name or key, the own key, or a name or key already in use is refused")
  @LoopActor
  func badPeers() throws {
    let meeting = try Meeting()
    let stranger = meeting.network.host().keyText
    func refusal(_ name: String, _ key: String) -> PresenceService.Refusal? {
      var outcome: Result<PresenceService.Peer, PresenceService.Refusal>?
      meeting.anna.addPeer(name, key: key) { outcome = $0 }
      meeting.network.time.advance(by: .zero)
      if case .failure(let refusal)? = outcome { return refusal }
      return nil
    }
    #expect(refusal("-x", stranger) == .badName)
    #expect(refusal("carl", "not a key") == .engine(.badKey))
    #expect(refusal("carl", String(stranger.dropLast())) == .engine(.badKey))
    #expect(refusal("carl", meeting.anna.keyText) == .engine(.ownKey))
    #expect(refusal("ben", stranger) == .nameTaken)
    #expect(refusal("benjamin", meeting.ben.keyText) == .engine(.knownKey))
    #expect(meeting.anna.peers.map(\.entry.name) == ["ben"])
  }

  @Test("An announcement to nobody, to an unknown name, twice to one peer or for less than 10 s is refused")
  @LoopActor
  func badAnnouncements() throws {
    let meeting = try Meeting()
    func refusal(_ names: [String], _ seconds: UInt32) -> PresenceService.Refusal? {
      do throws(PresenceService.Refusal) {
        try meeting.anna.announce(to: names, seconds: seconds)
        return nil
      } catch {
        return error
      }
    }
    #expect(refusal([], 0) == .engine(.badRecipients(0)))
    #expect(refusal(["carl"], 0) == .unknownName("carl"))
    #expect(refusal(["ben", "ben"], 0) == .engine(.badRecipients(2)))
    #expect(refusal(["ben"], 9) == .engine(.badLife))
    #expect(!meeting.network.hosts[0].isServing)
    #expect(refusal(["ben"], 10) == nil)
  }

  @Test("More than 50 new presence announcements in a second stop the reading of datagrams for 30 s")
  @LoopActor
  func flood() throws {
    let network = VirtualNetwork()
    let anna = network.host()
    let flooder = network.hosts[0]
    var random = SeededRandom(seed: 1)
    for number in 0..<60 {
      let address = NetworkAddress.v4(0x0A01_0000 + UInt32(number))
      let name = ServiceName(randomFrom: &random)
      let location = Location(address: address, port: 5000).url
      flooder.receive(SSDPMessage.alive(name, location: location).bytes(for: .ipv4), from: address)
    }
    #expect(flooder.isPaused)
    #expect(anna.tallies.first { $0.name == "DiscoveryPauses" }?.count == 1)
    network.time.advance(by: .seconds(29))
    #expect(flooder.isPaused)
    network.time.advance(by: .seconds(2))
    #expect(!flooder.isPaused)
  }

  @Test("A presence service that stops withdraws its announcement and refuses requests")
  @LoopActor
  func stop() throws {
    let meeting = try Meeting()
    try meeting.anna.announce(to: ["ben"], seconds: 0)
    meeting.network.time.advance(by: .seconds(1))
    var isStopped = false
    meeting.anna.stop { isStopped = true }
    meeting.network.time.advance(by: .seconds(1))
    #expect(isStopped && !meeting.ben.isNearby(meeting.annaForBen.id))
    #expect(throws: PresenceService.Refusal.self) { try meeting.anna.announce(to: ["ben"], seconds: 0) }
  }
}
