import Air
import Common
import Glibc
import HTTP
import Loop
import Network
import TestSupport
import Testing
import Thali

@testable import Presence

/// Two presence services that reach each other over Bluetooth only. The second one has recognised the first.
@LoopActor
struct BluetoothPair {
  let neighbourhood = Neighbourhood()
  let annasRadio: NeighbourRadio
  let bensRadio: NeighbourRadio
  private let pair: PresencePair

  static func service(_ radio: NeighbourRadio) async throws -> PresenceService {
    let loop = EventLoop.shared
    let service = PresenceService(
      settings: PresenceSettings(), network: NoNetwork(), bluetooth: radio,
      book: KnownPeerStore(directory: "", disk: loop),
      scheduler: loop, clock: SystemWallClock())
    let ready = Mailbox<Bool>()
    service.begin { ready.put(true) }
    _ = try await ready.next()
    return service
  }

  init(recorder: LinkRecorder? = nil) async throws {
    (annasRadio, bensRadio) = (neighbourhood.radio(), neighbourhood.radio())
    bensRadio.recorder = recorder
    pair = try await PresencePair(try await Self.service(annasRadio), try await Self.service(bensRadio))
  }

  var anna: PresenceService { pair.anna }
  var ben: PresenceService { pair.ben }
  var annaForBen: PresenceService.Peer { pair.annaForBen }

  func connect(_ label: ServiceLabel) async throws -> Result<Int32, PresenceService.Refusal> {
    try await pair.connect(label)
  }

  func close() { pair.close() }
}

@Suite("Private presence over Bluetooth", .serialized)
struct PresenceBluetoothTests {
  init() { EventLoop.shared.runInBackground() }

  @LoopActor
  private static func count(_ name: String, of service: PresenceService) -> UInt64 {
    service.tallies.first { $0.name == name }?.count ?? 0
  }

  private static func label(_ text: String) throws -> ServiceLabel { try #require(ServiceLabel(text)) }

  private static func file(_ seed: Int) -> [UInt8] {
    (0..<1 << 20).map { UInt8(truncatingIfNeeded: ($0 &+ seed) &* 2_654_435_761 >> 13) }
  }

  @Test("A peer is found by its advertisement alone, and 1 MiB goes to its program and returns unchanged")
  @LoopActor
  func echo() async throws {
    let pair = try await BluetoothPair()
    defer { pair.close() }
    #expect(pair.ben.ways(to: pair.annaForBen.id) == [.bluetooth(pair.annasRadio.address)])
    #expect(pair.anna.reachable == ["bluetooth"] && pair.ben.reachable == [])
    let program = try EchoProgram()
    try pair.anna.streams.register(try Self.label("echo"), at: program.address, by: ":1.1", user: getuid())
    let end = ProgramEnd(try await pair.connect(try Self.label("echo")).get())
    end.send(Self.file(0))
    let error = try await end.ends.next()
    #expect(error == nil && end.received == Self.file(0))
    #expect(Self.count("OutgoingStreams", of: pair.ben) == 1 && Self.count("IncomingStreams", of: pair.anna) == 1)
  }

  @Test("Three streams at a time and requests for beacons share one link, and each stream arrives unchanged")
  @LoopActor
  func multiplexed() async throws {
    let pair = try await BluetoothPair()
    defer { pair.close() }
    let program = try EchoProgram()
    try pair.anna.streams.register(try Self.label("echo"), at: program.address, by: ":1.1", user: getuid())
    var ends: [ProgramEnd] = []
    for number in 0..<3 {
      ends.append(ProgramEnd(try await pair.connect(try Self.label("echo")).get()))
      ends[number].send(Self.file(number))
    }
    for (number, end) in ends.enumerated() {
      _ = try await end.ends.next()
      #expect(end.received == Self.file(number))
    }
    #expect(pair.bensRadio.connections == 1 && Self.count("AcceptedLinks", of: pair.anna) == 1)
  }

  @Test("A stranger who fetches beacons over Bluetooth recognises nobody")
  @LoopActor
  func stranger() async throws {
    let pair = try await BluetoothPair()
    defer { pair.close() }
    let eve = try await BluetoothPair.service(pair.neighbourhood.radio())
    defer { eve.stop {} }
    let anna = try await PresencePair.add("anna", pair.anna, to: eve)
    let judged = Mailbox<Bool>()
    func check() {
      judged.put(Self.count("NotForUs", of: eve) > 0)
      if Self.count("NotForUs", of: eve) == 0 { EventLoop.shared.soon { check() } }
    }
    check()
    _ = try await judged.first { $0 }
    #expect(!eve.isNearby(anna.id) && Self.count("OpenedLinks", of: eve) == 1)
  }

  @Test("A peer out of range is reported as unreachable, and the next request makes a link again")
  @LoopActor
  func outOfRange() async throws {
    let pair = try await BluetoothPair()
    defer { pair.close() }
    pair.ben.links.close()
    pair.annasRadio.isDeaf = true
    let outcome = try await pair.connect(try Self.label("echo"))
    guard case .failure(.unreachable) = outcome else {
      Issue.record("\(outcome)")
      return
    }
    #expect(Self.count("UnreachableDevices", of: pair.ben) == 1)
    pair.annasRadio.isDeaf = false
    #expect(try await pair.connect(try Self.label("echo")) == .failure(.serviceNotRegistered))
  }

  @Test("Without network and Bluetooth the reason names both; with Bluetooth only, it names the network")
  @LoopActor
  func reasons() async throws {
    let neighbourhood = Neighbourhood()
    let radio = neighbourhood.radio()
    let service = try await BluetoothPair.service(radio)
    defer { service.stop {} }
    #expect(service.isUsable && service.reason.hasPrefix("No network interface can be used."))
    (radio.isUsable, radio.reason) = (false, "Bluetooth is not used.")
    #expect(!service.isUsable && service.reason.contains("Bluetooth is not used."))
    withExtendedLifetime(neighbourhood) {}
  }
}

@Suite("RFCOMM links of private presence", .serialized)
struct RFCOMMLinksTests {
  init() { EventLoop.shared.runInBackground() }

  /// The links of a service that announces something, in virtual time, and what they reported.
  @LoopActor
  private final class LinksInVirtualTime {
    let time = VirtualTime()
    let beacons = Mailbox<DeviceAddress>()
    /// Called with each stream that begins with a TLS handshake. The default closes the stream.
    var onTLS: @LoopActor (SocketStream) -> Void = { $0.close() }
    private(set) var handshakes = 0
    /// Whether attempts to make a link wait in `attempts`; otherwise they fail.
    var holdsAttempts = false
    private(set) var attempts: [@LoopActor (Int32?) -> Void] = []
    private(set) lazy var links = RFCOMMLinks(
      RFCOMMLinks.Owner(
        hasBeacons: { true },
        connect: { [weak self] _, then in
          if let self, holdsAttempts { attempts.append(then) } else { then(nil) }
        },
        onBeacons: { [beacons] in beacons.put($0) },
        onTLS: { [weak self] stream, _ in
          self?.handshakes += 1
          self?.onTLS(stream)
        }, answer: { _ in HTTPServerResponse(status: 204) }),
      on: time)

    func count(_ name: String) -> UInt64 { links.tallies.first { $0.name == name }?.count ?? 0 }

    /// Opens a link as a peer with this address, and returns the peer's end.
    func connect(_ address: UInt64 = 1) -> LinkEnd {
      let ends = NeighbourRadio.pair()
      links.accept(ends.1, from: DeviceAddress(address))
      return LinkEnd(ends.0)
    }
  }

  /// A peer's end of a link.
  @LoopActor
  private final class LinkEnd {
    let stream: SocketStream
    let received = Mailbox<[UInt8]>()
    let ends = Mailbox<Bool>()

    init(_ descriptor: Int32) {
      stream = SocketStream(owning: descriptor)
      stream.start { [weak self] event in
        switch event {
        case .received(let bytes): self?.received.put(bytes)
        case .ended, .closed: self?.ends.put(true)
        case .connected, .writable, .hungUp: break
        }
      }
    }
  }

  @Test("A link client that sends 00 has beacons and is reported; one that sends 01 has none; both get 00")
  @LoopActor
  func handshake() async throws {
    let world = LinksInVirtualTime()
    let (one, two) = (world.connect(1), world.connect(2))
    one.stream.send([0])
    #expect(try await one.received.next() == [0])
    two.stream.send([1])
    #expect(try await two.received.next() == [0])
    #expect(world.beacons.all == [DeviceAddress(1)] && world.links.count == 2)
    world.links.close()
  }

  @Test("A link whose first byte is wrong, or that an old phone opened, is closed and counted by reason")
  @LoopActor
  func refusals() async throws {
    let world = LinksInVirtualTime()
    for (bytes, name) in [
      (Array("thali_handshake".utf8), "OldPhones"), (Array("{\"address\"".utf8), "OldPhones"),
      ([0x02], "BadHandshakes"),
    ] {
      let before = world.count(name)
      let end = world.connect()
      end.stream.send(bytes[...])
      _ = try await end.ends.next()
      #expect(world.count(name) == before + 1 && world.links.count == 0)
    }
  }

  @Test("A link on which no byte arrives is closed after 10 s, and one without a stream after 1 min")
  @LoopActor
  func timeouts() async throws {
    let world = LinksInVirtualTime()
    let (silent, idle) = (world.connect(1), world.connect(2))
    idle.stream.send([1])
    _ = try await idle.received.next()
    world.time.advance(by: .seconds(10))
    _ = try await silent.ends.next()
    #expect(world.count("HandshakeTimeouts") == 1 && world.links.count == 1)
    world.time.advance(by: .seconds(51))
    _ = try await idle.ends.next()
    #expect(world.links.count == 0)
  }

  @Test("A stream that sends nothing for 5 s is destroyed, and its link stays open")
  @LoopActor
  func silentStream() async throws {
    let world = LinksInVirtualTime()
    let end = world.connect()
    // The handshake, then a frame that opens channel 0 with an empty name.
    end.stream.send([1, 0, 0])
    #expect(try await end.received.next() == [0])
    world.time.advance(by: .seconds(5))
    // Destroy by the receiver of channel 0.
    #expect(try await end.received.next() == [5, 0])
    #expect(world.count("SilentStreams") == 1 && world.links.count == 1)
    world.links.close()
  }

  @Test("A frame of over 1 MiB ends the RFCOMM link and is counted")
  @LoopActor
  func longFrame() async throws {
    let world = LinksInVirtualTime()
    let end = world.connect()
    end.stream.send([1, 2, 0x81, 0x80, 0x40])
    _ = try await end.ends.next()
    #expect(world.count("FramesTooLong") == 1 && world.links.count == 0)
  }

  @Test("A 29th link replaces the oldest that no known peer uses, and is closed if known peers use all")
  @LoopActor
  func total() async throws {
    let world = LinksInVirtualTime()
    var ends: [LinkEnd] = []
    for number in 1...28 { ends.append(world.connect(UInt64(number))) }
    world.links.prove(DeviceAddress(1))
    ends.append(world.connect(29))
    _ = try await ends[1].ends.next()
    #expect(world.links.count == 28 && world.count("EvictedLinks") == 1 && ends[0].ends.all.isEmpty)
    for number in 3...29 { world.links.prove(DeviceAddress(UInt64(number))) }
    let late = world.connect(30)
    _ = try await late.ends.next()
    #expect(world.links.count == 28 && world.count("TooManyLinks") == 1 && world.count("EvictedLinks") == 1)
    world.links.close()
  }

  @Test("A link that is made after the links were closed is closed at once")
  @LoopActor
  func lateLink() async throws {
    let world = LinksInVirtualTime()
    world.holdsAttempts = true
    var outcomes: [Bool] = []
    world.links.open(to: DeviceAddress(1)) { outcomes.append($0 != nil) }
    world.links.close()
    #expect(outcomes == [false] && world.attempts.count == 1)
    let ends = NeighbourRadio.pair()
    let peer = LinkEnd(ends.0)
    for attempt in world.attempts { attempt(ends.1) }
    _ = try await peer.ends.next()
    #expect(world.links.count == 0 && world.count("OpenedLinks") == 0)
  }

  @Test("An RFCOMM link without streams stays open until the last bytes of its streams are sent")
  @LoopActor
  func lastBytes() async throws {
    let world = LinksInVirtualTime()
    var programs: [ProgramEnd] = []
    world.onTLS = { stream in
      let program = ProgramEnd(stream)
      // The amount exceeds the kernel's buffers, but not all buffers of the link together.
      program.send([UInt8](repeating: 7, count: 560_000))
      programs.append(program)
    }
    let end = world.connect()
    end.stream.pauseReading(true)
    // The handshake, channel 0, its first byte, and its end by its initiator.
    end.stream.send([1, 0, 0, 2, 1, 0x16, 4, 0])
    let turns = Mailbox<Bool>()
    while programs.isEmpty {
      EventLoop.shared.soon { turns.put(true) }
      _ = try await turns.next()
    }
    _ = try await programs[0].ends.next()
    for _ in 0..<20 {
      EventLoop.shared.soon { turns.put(true) }
      _ = try await turns.next()
    }
    world.time.advance(by: .seconds(60))
    #expect(world.links.count == 1)
    end.stream.pauseReading(false)
    var received: [UInt8] = []
    // The last frame is the end of channel 0 by its receiver.
    while received.suffix(2) != [3, 0] { received += try await end.received.next() }
    #expect(received.count > 560_000)
    world.time.advance(by: .seconds(60))
    _ = try await end.ends.next()
    #expect(world.links.count == 0)
  }

  @Test("A request for beacons over an RFCOMM link is answered")
  @LoopActor
  func request() async throws {
    let world = LinksInVirtualTime()
    let end = world.connect()
    let request = Array("GET /NotificationBeacons HTTP/1.1\r\nHost: x\r\n\r\n".utf8)
    end.stream.send(([1, 0, 0, 2, UInt8(request.count)] + request)[...])
    var answer: [UInt8] = []
    while !String(decoding: answer, as: UTF8.self).contains("HTTP/1.1 204") {
      answer += try await end.received.next()
    }
    world.links.close()
  }

  @Test("Of five simultaneous requests over one RFCOMM link, the fifth is destroyed")
  @LoopActor
  func requests() async throws {
    let world = LinksInVirtualTime()
    let end = world.connect()
    end.stream.send([1])
    #expect(try await end.received.next() == [0])
    // The requests are incomplete, so that their streams stay open.
    for channel in 1...5 {
      end.stream.send([UInt8(channel << 3), 0, UInt8(channel << 3 | 2), 1, UInt8(ascii: "G")])
    }
    #expect(try await end.received.next() == [UInt8(5 << 3 | 5), 0])
    world.links.close()
  }

  @Test("Late bytes of a destroyed stream do not open the stream again")
  @LoopActor
  func destroyedStream() async throws {
    let world = LinksInVirtualTime()
    let end = world.connect()
    end.stream.send([1])
    #expect(try await end.received.next() == [0])
    var bytes: [UInt8] = []
    for channel: UInt8 in 1...5 { bytes += [channel << 3, 0, channel << 3 | 2, 1, UInt8(ascii: "G")] }
    // The fifth request is destroyed. The same bytes that the link reads at once have a TLS record behind it.
    for _ in 0..<20 { bytes += [5 << 3 | 2, 1, 0x16] }
    end.stream.send(bytes[...])
    #expect(try await end.received.next() == [UInt8(5 << 3 | 5), 0])
    #expect(world.handshakes == 0)
    world.links.close()
  }

  @Test("A stream whose receiver has closed is destroyed after 10 s, and its link ends a minute later")
  @LoopActor
  func abandonedStream() async throws {
    let world = LinksInVirtualTime()
    var streams: [SocketStream] = []
    world.onTLS = { stream in
      streams.append(stream)
      // The receiver reads the first bytes and closes its end.
      stream.start { [weak stream] event in if case .received = event { stream?.close() } }
    }
    let end = world.connect()
    end.stream.send([1, 0, 0, 2, 1, 0x16])
    var received: [UInt8] = []
    // The answer to the handshake, then the end of channel 0 by its receiver.
    while received.count < 3 { received += try await end.received.next() }
    #expect(received == [0, 3, 0])
    world.time.advance(by: .milliseconds(9999))
    #expect(end.received.all.count < 4, "the peer has 10 s")
    world.time.advance(by: .milliseconds(1))
    #expect(try await end.received.next() == [5, 0])
    world.time.advance(by: .seconds(60))
    _ = try await end.ends.next()
    #expect(world.links.count == 0)
    withExtendedLifetime(streams) {}
  }
}
