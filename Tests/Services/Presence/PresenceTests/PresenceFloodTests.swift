import Air
import Common
import Crypto
import Glibc
import Loop
import Network
import TestSupport
import Testing
import Thali

@testable import Presence

/// Floods of 60 s in virtual time. State stays within its limits, and a known peer gets a stream during the flood.
@Suite("Floods against private presence", .serialized)
struct PresenceFloodTests {
  init() { EventLoop.shared.runInBackground() }

  /// Two services with Bluetooth, whose timers run in virtual time. Anna announces herself to ben.
  @LoopActor
  private final class Siege {
    let time = VirtualTime()
    let neighbourhood = Neighbourhood()
    let annasRadio: NeighbourRadio
    let anna: PresenceService
    let ben: PresenceService
    let annaForBen: PresenceService.Peer
    let program: EchoProgram
    private var strangers: [SocketStream] = []

    init() async throws {
      let radios = [neighbourhood.radio(), neighbourhood.radio()]
      let time = time
      let services = radios.map { radio in
        PresenceService(
          settings: PresenceSettings(), network: NoNetwork(), bluetooth: radio,
          book: KnownPeerStore(directory: "", disk: time), scheduler: time, clock: VirtualWallClock(time))
      }
      for service in services { service.begin {} }
      time.advance(by: .zero)
      (annasRadio, anna, ben) = (radios[0], services[0], services[1])
      program = try EchoProgram()
      var outcomes: [Result<PresenceService.Peer, PresenceService.Refusal>] = []
      anna.addPeer("ben", key: ben.keyText) { outcomes.append($0) }
      ben.addPeer("anna", key: anna.keyText) { outcomes.append($0) }
      time.advance(by: .zero)
      try #require(outcomes.count == 2)
      annaForBen = try outcomes[1].get()
      try anna.announce(to: ["ben"], seconds: 0)
      let label = try #require(ServiceLabel("echo"))
      try anna.streams.register(label, at: program.address, by: ":1.1", user: getuid())
      try await pump { self.ben.isNearby(self.annaForBen.id) }
    }

    func count(_ name: String) -> UInt64 { anna.tallies.first { $0.name == name }?.count ?? 0 }

    /// Runs the loop until a condition is true, while virtual time stands still.
    func pump(_ condition: () -> Bool) async throws {
      let turns = Mailbox<Bool>()
      let deadline = EventLoop.shared.now.advanced(by: Patience.limit)
      while !condition(), EventLoop.shared.now < deadline {
        time.advance(by: .zero)
        EventLoop.shared.soon { turns.put(true) }
        _ = try await turns.next()
      }
      #expect(condition())
    }

    /// Attacks 20 times a second for 60 s of virtual time.
    ///
    /// - Returns: by how much the heap has grown from the tenth second on.
    func flood(_ attack: () -> Void, _ check: () -> Void) async throws -> Int {
      let turns = Mailbox<Bool>()
      var heap: [Int] = []
      for step in 0..<1200 {
        attack()
        time.advance(by: .milliseconds(50))
        if step % 20 == 0 { annasRadio.repeatAdvertisement() }
        // One loop iteration, in which the bytes of the attackers arrive.
        EventLoop.shared.soon { turns.put(true) }
        _ = try await turns.next()
        check()
        if step == 200 || step == 1199 { heap.append(HeapInUse.bytes ?? 0) }
      }
      return heap[1] - heap[0]
    }

    /// Creates a pair of sockets for an attacker's connection. The attacker's ends of the last 100 stay open.
    func stranger() -> (stream: SocketStream, descriptor: Int32) {
      let ends = NeighbourRadio.pair()
      let stream = SocketStream(owning: ends.0)
      strangers.append(stream)
      if strangers.count > 100 { strangers.removeFirst().close() }
      return (stream, ends.1)
    }

    /// Ben opens a stream to anna's program while `attack` goes on, and gets three bytes back.
    func checkStream(beside attack: () -> Void) async throws {
      let begin = time.now
      var outcome: Result<Int32, PresenceService.Refusal>?
      ben.streams.connect(to: annaForBen.id, try #require(ServiceLabel("echo"))) { outcome = $0 }
      for _ in 0..<10 { attack() }
      try await pump { outcome != nil }
      let end = ProgramEnd(try #require(outcome).get())
      end.send([1, 2, 3])
      try await pump { end.received == [1, 2, 3] }
      #expect(begin.duration(to: time.now) <= .seconds(10))
      for service in [anna, ben] { service.stop {} }
      for stranger in strangers { stranger.close() }
    }
  }

  @Test("During 60 s of half-open TLS handshakes at most 32 are open, and a known peer gets a stream")
  @LoopActor
  func handshakes() async throws {
    let siege = try await Siege()
    var number: UInt64 = 1000
    func attack() {
      number += 1
      siege.anna.streams.accept(SocketStream(owning: siege.stranger().descriptor), from: DeviceAddress(number))
    }
    var most = 0
    let growth = try await siege.flood(attack) { most = max(most, siege.anna.streams.count) }
    #expect(most == 32 && siege.count("EvictedHandshakes") + siege.count("SilentHandshakes") > 1100)
    #expect(growth < 4 << 20)
    try await siege.checkStream(beside: attack)
  }

  @Test("During 60 s of RFCOMM links at most 30 are open, and a known peer gets a stream")
  @LoopActor
  func links() async throws {
    let siege = try await Siege()
    var number: UInt64 = 1000
    // The handshake alone, a stream that sends nothing, one that begins as TLS and does not go on, or nothing at all.
    let openings: [[UInt8]] = [[1], [1, 0, 0], [1, 0, 0, 2, 1, 0x16], []]
    func attack() {
      number += 1
      let end = siege.stranger()
      end.stream.start { _ in }
      end.stream.send(openings[Int(number % 4)][...])
      siege.annasRadio.onEvent?(.link(DeviceAddress(number), descriptor: end.descriptor))
    }
    var most = 0
    let growth = try await siege.flood(attack) { most = max(most, siege.anna.links.count) }
    #expect(most <= Limits.rfcommLinks && siege.count("EvictedLinks") > 1000)
    #expect(growth < 4 << 20)
    try await siege.checkStream(beside: attack)
  }

  @Test("60 s of announcements and 200 datagrams a second pause discovery, and a known peer stays nearby")
  @LoopActor
  func announcements() throws {
    let network = VirtualNetwork()
    let (anna, ben) = (network.host(), network.host())
    _ = try anna.know("ben", ben.keyText, in: network)
    let annaForBen = try ben.know("anna", anna.keyText, in: network)
    var settings = PresenceSettings()
    settings.isForeground = true
    anna.apply(settings)
    try anna.announce(to: ["ben"], seconds: 0)
    network.time.advance(by: .seconds(1))
    try #require(ben.isNearby(annaForBen.id))

    // The announcements are valid, but have no beacon for these machines.
    var random = SeededRandom(seed: 2)
    var strangers = KnownPeers(own: try Secp256k1.PrivateKey(randomFrom: &random))
    let recipient = try strangers.add(try Secp256k1.PrivateKey(randomFrom: &random).publicKey)
    var announcer = Announcer()
    let wall = WallTime(milliseconds: UInt64(VirtualWallClock(network.time).milliseconds))
    let bodies = try (0..<100).map { _ in
      try announcer.announce(
        to: [recipient], life: Limits.announcementLife, dialect: .spec, known: strangers, at: wall,
        randomFrom: &random
      ).bytes
    }
    var heap: [Int] = []
    for step in 0..<600 {
      for part in 0..<20 {
        let address = NetworkAddress.v4(0x0A01_0000 + UInt32(step * 20 + part))
        if !network.hosts[1].isPaused {
          network.strangers[address] = .announcement(bodies[(step * 20 + part) % bodies.count])
        }
        let name = ServiceName(randomFrom: &random)
        let bytes = SSDPMessage.alive(name, location: Location(address: address, port: 5000).url).bytes(for: .ipv4)
        network.hosts[1].receive(bytes, from: address)
      }
      network.time.advance(by: .milliseconds(100))
      // A known peer stays nearby, and there is a way to open a stream to it.
      #expect(ben.isNearby(annaForBen.id) && ben.routes(to: annaForBen.id).count == 1)
      if step == 100 || step == 599 { heap.append(HeapInUse.bytes ?? 0) }
    }
    func count(_ name: String) -> UInt64 { ben.tallies.first { $0.name == name }?.count ?? 0 }
    #expect(count("DiscoveryPauses") >= 2 && count("NotForUs") > 0)
    #expect(heap[1] - heap[0] < 4 << 20)
  }
}
