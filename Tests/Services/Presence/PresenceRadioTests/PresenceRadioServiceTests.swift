import Air
import Common
import Loop
import Network
import Radio
import Sharing
import TestSupport
import Testing
import Thali

@testable import PresenceRadio

/// A program that uses the presence radio, and records the scan results and links that it receives.
@LoopActor
private final class RecordingSink: PresenceSink {
  private(set) var scanResults: [(device: DeviceAddress, generation: UInt8)] = []
  let links = Mailbox<SocketEnd>()
  var count: Int { links.all.count }

  /// Whether scan results are dropped.
  var isFull = false

  func sighted(_ device: DeviceAddress, generation: UInt8) -> Bool {
    if !isFull { scanResults.append((device, generation)) }
    return !isFull
  }

  func accept(_ device: DeviceAddress, descriptor: Int32) { links.put(SocketEnd(descriptor, device)) }
}

/// The program's end of a link.
@LoopActor
private final class SocketEnd {
  let device: DeviceAddress?
  let stream: SocketStream
  private(set) var received: [UInt8] = []
  let arrivals = Mailbox<Int>()
  let ends = Mailbox<Bool>()
  private var unsent: ArraySlice<UInt8> = []

  init(_ descriptor: Int32, _ device: DeviceAddress? = nil) {
    self.device = device
    stream = SocketStream(owning: descriptor)
    stream.start { [weak self] event in
      guard let self else { return }
      switch event {
      case .received(let bytes):
        received += bytes
        arrivals.put(received.count)
      case .writable: push()
      case .ended, .hungUp, .closed: ends.put(true)
      case .connected: break
      }
    }
  }

  func send(_ bytes: [UInt8]) {
    unsent = bytes[...]
    push()
  }

  private func push() { unsent = unsent.dropFirst(stream.send(unsent)) }
}

/// A machine on a simulated radio: the service, and a program that uses it.
@LoopActor
private final class Machine {
  let node: AirRadio
  let service: PresenceRadioService
  let sink = RecordingSink()

  init(_ air: AirSpace, _ scheduler: any Scheduler, _ settings: PresenceRadioSettings = PresenceRadioSettings()) {
    node = air.addNode()
    let shared = SharedRadio(driver: node, scheduler: scheduler)
    service = PresenceRadioService(
      radio: shared.tenant("PresenceRadio", share: .nothing), scheduler: scheduler, settings: settings)
    service.begin()
    service.attach(sink)
  }

  var address: BluetoothAddress { get throws { try #require(node.publicAddress) } }

  func count(_ name: String) -> UInt64 { service.tallies.first { $0.name == name }?.count ?? 0 }
}

/// A node of the simulated radio that records the received packets.
@LoopActor
private final class Observer: RadioDriverDelegate {
  private(set) var packets: [AdvertisingPacket] = []

  func heard(_ packet: AdvertisingPacket) { packets.append(packet) }

  func statusChanged(_ status: RadioStatus) {}
  func advertisingSlotsChanged() {}
  func onAir(_ advertisement: RadioAdvertisement?, in slot: Int) {}
  func applicationChanged(_ application: ApplicationID, isServed: Bool) {}
  func linkUp(_ link: DriverLink) {}
  func linkChanged(_ link: LinkID, mtu: Int) {}
  func linkDown(_ link: LinkID) {}
  func used(_ application: ApplicationID, by link: LinkID, _ use: Use) {}
  func written(
    _ value: [UInt8], to characteristic: CharacteristicID, of application: ApplicationID, on link: LinkID
  ) throws(ATTError) {}
  func hasRoom(_ link: LinkID) {}
  func heard(_ scanResult: ScanResult) {}
  func forgot(_ address: BluetoothAddress) {}
}

@Suite struct PresenceRadioAdvertisingTests {
  init() { EventLoop.shared.runInBackground() }

  @Test("Each generation of beacons is advertised in 29 bytes without flags, from a new address")
  @LoopActor
  func advertisement() throws {
    let time = VirtualTime()
    let air = AirSpace(scheduler: time, seed: 1)
    let machine = Machine(air, time)
    let (observer, scanner) = (Observer(), air.addNode())
    scanner.delegate = observer
    scanner.listen(Listening(patterns: []))
    var addresses: Set<BluetoothAddress> = []
    for generation in [UInt8(7), 8, 8] {
      try machine.service.announce(generation)
      time.advance(by: .seconds(2))
      let packet = try #require(observer.packets.last)
      let address = DeviceAddress(try machine.address.value)
      #expect(packet.data == Thali.Advertisement.bytes(generation: generation, address: address))
      #expect(packet.data.count == 29 && packet.kind == .nonConnectable)
      addresses.insert(packet.address)
    }
    let own = try machine.address
    #expect(addresses.count == 2 && !addresses.contains(own))
    machine.service.silence()
    time.advance(by: .seconds(1))
    let count = observer.packets.count
    time.advance(by: .seconds(5))
    #expect(observer.packets.count == count && !machine.service.isAnnouncing)
  }

  @Test("The literal form is advertised only with LiteralAdvertisement=yes, and each one counts as a new generation")
  @LoopActor
  func literal() throws {
    let time = VirtualTime()
    let air = AirSpace(scheduler: time, seed: 1)
    var settings = PresenceRadioSettings()
    settings.isLiteral = true
    let (machine, other) = (Machine(air, time, settings), Machine(air, time))
    other.service.scan(true)
    for generation in [UInt8(40), 41] {
      try machine.service.announce(generation)
      time.advance(by: .seconds(2))
    }
    let device = DeviceAddress(try machine.address.value)
    #expect(other.sink.scanResults.map(\.generation) == [0, 1])
    #expect(other.sink.scanResults.allSatisfy { $0.device == device })
  }

  @Test(
    "Presence scan results are reported while requested, whether the driver delivers packets or not",
    arguments: [true, false])
  @LoopActor
  func scanning(seesPackets: Bool) throws {
    let time = VirtualTime()
    let air = AirSpace(scheduler: time, seed: 1)
    let machine = Machine(air, time)
    air.controller.seesPackets = seesPackets
    let other = Machine(air, time)
    try machine.service.announce(5)
    time.advance(by: .seconds(2))
    #expect(other.sink.scanResults.isEmpty)
    other.service.scan(true)
    time.advance(by: .seconds(25))
    #expect(other.sink.scanResults.map(\.generation) == [5, 5, 5])
    other.service.scan(false)
    time.advance(by: .seconds(25))
    #expect(other.sink.scanResults.count == 3)
  }

  @Test("Scan results that the presence program cannot take are counted")
  @LoopActor
  func fullSink() throws {
    let time = VirtualTime()
    let air = AirSpace(scheduler: time, seed: 1)
    let (machine, other) = (Machine(air, time), Machine(air, time))
    other.sink.isFull = true
    other.service.scan(true)
    try machine.service.announce(5)
    time.advance(by: .seconds(5))
    #expect(other.count("SightingsUnanswered") > 0 && other.count("Sightings") == 0)
    other.sink.isFull = false
    time.advance(by: .seconds(25))
    #expect(!other.sink.scanResults.isEmpty && other.count("Sightings") > 0)
  }

  @Test("A presence radio that cannot open links does not scan, reports the reason, and still announces")
  @LoopActor
  func noClient() throws {
    let time = VirtualTime()
    let air = AirSpace(scheduler: time, seed: 1)
    let machine = Machine(air, time)
    air.controller.connectingShortfall = "This radio opens no streams."
    let other = Machine(air, time)
    try machine.service.announce(5)
    other.service.scan(true)
    try other.service.announce(6)
    time.advance(by: .seconds(5))
    #expect(other.sink.scanResults.isEmpty && other.service.reason == "This radio opens no streams.")
    #expect(other.service.isAnnouncing && other.service.isReachable)
    var outcomes: [Result<Int32, PresenceRadioService.Refusal>] = []
    other.service.connect(to: DeviceAddress(try machine.address.value)) { outcomes.append($0) }
    #expect(outcomes == [.failure(.radio(.notSupported("open streams")))])
  }

  @Test("The adapter is connectable only during an announcement, and never with Reachable=no")
  @LoopActor
  func reachability() throws {
    let time = VirtualTime()
    let air = AirSpace(scheduler: time, seed: 1)
    let machine = Machine(air, time)
    #expect(!machine.node.status.traits.isReachable)
    try machine.service.announce(1)
    #expect(machine.node.status.traits.isReachable && machine.service.isReachable && machine.service.isAnnouncing)
    var settings = PresenceRadioSettings()
    settings.reachable = .no
    machine.service.apply(settings)
    #expect(!machine.node.status.traits.isReachable && !machine.service.isAnnouncing)
    #expect(machine.service.reason.contains("Reachable=no"))
    machine.service.apply(PresenceRadioSettings())
    #expect(machine.service.isAnnouncing)
    machine.service.detach()
    #expect(!machine.node.status.traits.isReachable && !machine.service.isAnnouncing && !machine.service.isAttached)
  }

  @Test("Without an adapter the presence reason is the radio's, and the advertisement returns with the adapter")
  @LoopActor
  func noAdapter() throws {
    let time = VirtualTime()
    let machine = Machine(AirSpace(scheduler: time, seed: 1), time)
    try machine.service.announce(1)
    machine.node.power = false
    time.advance(by: .seconds(1))
    #expect(machine.service.reason == "The simulated adapter is switched off." && !machine.service.isAnnouncing)
    machine.node.power = true
    time.advance(by: .seconds(1))
    #expect(machine.service.reason.isEmpty && machine.service.isAnnouncing)
  }
}

@Suite("Links of private presence over the simulated radio", .serialized)
struct PresenceRadioLinkTests {
  init() { EventLoop.shared.runInBackground() }

  @LoopActor
  private static func machines() throws -> (air: AirSpace, server: Machine, client: Machine) {
    var conditions = AirConditions(latency: .zero)
    conditions.streamBandwidth = 50_000_000
    conditions.streamSetup = .milliseconds(1)
    conditions.connectTimeout = .milliseconds(20)
    let air = AirSpace(scheduler: EventLoop.shared, seed: 1, conditions: conditions)
    let (server, client) = (Machine(air, EventLoop.shared), Machine(air, EventLoop.shared))
    try server.service.announce(1)
    return (air, server, client)
  }

  @LoopActor
  private static func connect(_ client: Machine, to server: Machine) async throws -> Result<
    Int32, PresenceRadioService.Refusal
  > {
    let outcome = Mailbox<Result<Int32, PresenceRadioService.Refusal>>()
    client.service.connect(to: DeviceAddress(try server.address.value)) { outcome.put($0) }
    return try await outcome.next()
  }

  @Test("A presence link carries bytes both ways, and each side gets the other's Bluetooth address")
  @LoopActor
  func link() async throws {
    let (_, server, client) = try Self.machines()
    let here = SocketEnd(try await Self.connect(client, to: server).get())
    let there = try await server.sink.links.next()
    let device = DeviceAddress(try client.address.value)
    #expect(there.device == device)
    let file = (0..<500_000).map { UInt8(truncatingIfNeeded: $0 &* 31 >> 3) }
    here.send(file)
    _ = try await there.arrivals.first { $0 == file.count }
    #expect(there.received == file)
    there.send(file)
    _ = try await here.arrivals.first { $0 == file.count }
    #expect(here.received == file)
    #expect(client.service.links == 1 && server.service.links == 1)
    here.stream.close()
    _ = try await there.ends.next()
    there.stream.close()
    #expect(server.count("IncomingLinks") == 1 && client.count("OutgoingLinks") == 1)
    #expect(server.count("BytesFromPeers") == 500_000)
  }

  @Test("A lost link closes the program's socket on both sides")
  @LoopActor
  func loss() async throws {
    let (air, server, client) = try Self.machines()
    let here = SocketEnd(try await Self.connect(client, to: server).get())
    let there = try await server.sink.links.next()
    air.isInRange = { _, _ in false }
    _ = try await here.ends.next()
    _ = try await there.ends.next()
  }

  @Test("A device that accepts no links is reported as lost; with Reachable=no this machine accepts none")
  @LoopActor
  func unreachable() async throws {
    let (_, server, client) = try Self.machines()
    server.service.silence()
    let outcome = try await Self.connect(client, to: server)
    guard case .failure(.radio(.peerLost)) = outcome else {
      Issue.record("\(outcome)")
      return
    }
    #expect(client.count("FailedLinks") == 1)
  }

  @Test("The sixth link from one address in a minute is closed and counted")
  @LoopActor
  func rate() async throws {
    let (_, server, client) = try Self.machines()
    for _ in 0..<5 {
      SocketEnd(try await Self.connect(client, to: server).get()).stream.close()
      _ = try await server.sink.links.next()
    }
    let sixth = SocketEnd(try await Self.connect(client, to: server).get())
    _ = try await sixth.ends.next()
    #expect(server.sink.count == 5 && server.count("RFCOMMConnectionsTooFast") == 1)
  }

  @Test("Up to 30 presence links are open, and either side refuses a further one until one ends")
  @LoopActor
  func total() async throws {
    let (air, server, _) = try Self.machines()
    var ends: [SocketEnd] = []
    var clients: [Machine] = []
    for _ in 0..<6 {
      let client = Machine(air, EventLoop.shared)
      clients.append(client)
      for _ in 0..<5 {
        ends.append(SocketEnd(try await Self.connect(client, to: server).get()))
        _ = try await server.sink.links.next()
      }
    }
    let late = Machine(air, EventLoop.shared)
    let refused = SocketEnd(try await Self.connect(late, to: server).get())
    _ = try await refused.ends.next()
    #expect(server.service.links == 30 && server.count("RFCOMMTooManyConnections") == 1)
    #expect(try await Self.connect(server, to: late) == .failure(.tooManyLinks))
    ends[0].stream.close()
    _ = try await server.sink.links.all[0].ends.next()
    server.sink.links.all[0].stream.close()
    let again = SocketEnd(try await Self.connect(late, to: server).get())
    _ = try await server.sink.links.next()
    withExtendedLifetime((ends, clients, again)) {}
  }

  @Test("A presence program that leaves the bus loses its links, and without a program no link is accepted")
  @LoopActor
  func leaving() async throws {
    let (_, server, client) = try Self.machines()
    let here = SocketEnd(try await Self.connect(client, to: server).get())
    let there = try await server.sink.links.next()
    server.service.detach()
    _ = try await here.ends.next()
    _ = try await there.ends.next()
    #expect(server.service.links == 0)
  }

  @Test("A presence link that is being opened fails when the program leaves the bus")
  @LoopActor
  func leavingEarly() async throws {
    let (_, server, client) = try Self.machines()
    let outcomes = Mailbox<Result<Int32, PresenceRadioService.Refusal>>()
    client.service.connect(to: DeviceAddress(try server.address.value)) { outcomes.put($0) }
    #expect(outcomes.all.isEmpty)
    client.service.detach()
    #expect(outcomes.all == [.failure(.stopped)])
  }
}
