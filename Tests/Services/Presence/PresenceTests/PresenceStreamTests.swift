import Common
import Crypto
import Glibc
import Loop
import Network
import TLS
import TestSupport
import Testing
import Thali

@testable import Presence

/// An echo server on a port of the loopback interface.
@LoopActor
final class EchoProgram {
  private var listener: TCPListener?
  private var streams: [SocketStream] = []
  private(set) var accepted = 0

  init() throws {
    listener = try TCPListener(on: Endpoint(.loopback4, port: 0)) { [weak self] in self?.accept($0) }
  }

  var address: LocalAddress { .loopback(Endpoint(.loopback4, port: listener?.local.port ?? 0)) }

  private func accept(_ connection: IncomingConnection) {
    accepted += 1
    let stream = SocketStream(connection)
    streams.append(stream)
    var pending: ArraySlice<UInt8> = []
    var hasEnded = false
    func push() {
      pending = pending.dropFirst(stream.send(pending))
      stream.pauseReading(!pending.isEmpty)
      if hasEnded, pending.isEmpty { stream.finish() }
    }
    stream.start { event in
      switch event {
      case .received(let bytes):
        pending += bytes
        push()
      case .writable: push()
      case .ended:
        hasEnded = true
        push()
      case .connected, .hungUp, .closed: break
      }
    }
  }
}

/// A program's end of a stream.
@LoopActor
final class ProgramEnd {
  let stream: SocketStream
  private(set) var received: [UInt8] = []
  let ends = Mailbox<NetworkError?>()
  let arrivals = Mailbox<Int>()
  private var unsent: ArraySlice<UInt8> = []

  convenience init(_ descriptor: Int32) { self.init(SocketStream(owning: descriptor)) }

  init(_ stream: SocketStream) {
    self.stream = stream
    stream.start { [weak self] event in
      guard let self else { return }
      switch event {
      case .received(let bytes):
        received += bytes
        arrivals.put(received.count)
      case .writable: push()
      case .closed(let error): ends.put(error)
      case .ended, .hungUp, .connected: break
      }
    }
  }

  /// Sends all bytes, and then the end.
  func send(_ bytes: [UInt8]) {
    unsent = bytes[...]
    push()
  }

  private func push() {
    unsent = unsent.dropFirst(stream.send(unsent))
    if unsent.isEmpty { stream.finish() }
  }
}

/// Two presence services: `anna` announces herself to `ben`, who has recognised her.
@LoopActor
struct PresencePair {
  let anna: PresenceService
  let ben: PresenceService
  let annaForBen: PresenceService.Peer
  let benForAnna: PresenceService.Peer

  init(_ anna: PresenceService, _ ben: PresenceService) async throws {
    (self.anna, self.ben) = (anna, ben)
    benForAnna = try await Self.add("ben", ben, to: anna)
    annaForBen = try await Self.add("anna", anna, to: ben)
    let moves = Mailbox<Bool>()
    let peer = annaForBen.id
    ben.moved.addForGood { [weak ben] _ in moves.put(ben?.isNearby(peer) ?? false) }
    try anna.announce(to: ["ben"], seconds: 0)
    _ = try await moves.first { $0 }
  }

  /// A pair on the loopback interface.
  static func onNetwork(_ dialect: Dialect = .spec) async throws -> PresencePair {
    try await PresencePair(try await service(dialect), try await service(dialect))
  }

  private static func service(_ dialect: Dialect) async throws -> PresenceService {
    var settings = PresenceSettings()
    (settings.reads, settings.sends) = ([dialect], dialect)
    (settings.interfaces, settings.isForeground) = (["lo"], true)
    let loop = EventLoop.shared
    let service = PresenceService(
      settings: settings, network: LocalNetwork(settings, on: loop), book: KnownPeerStore(directory: "", disk: loop),
      scheduler: loop, clock: SystemWallClock())
    let usable = Mailbox<Bool>()
    service.changes.addForGood { [weak service] in usable.put(service?.isUsable ?? false) }
    service.begin {}
    _ = try await usable.first { $0 }
    return service
  }

  static func add(_ name: String, _ other: PresenceService, to service: PresenceService) async throws
    -> PresenceService.Peer
  {
    let outcome = Mailbox<Result<PresenceService.Peer, PresenceService.Refusal>>()
    service.addPeer(name, key: other.keyText) { outcome.put($0) }
    return try await outcome.next().get()
  }

  func connect(_ label: ServiceLabel) async throws -> Result<Int32, PresenceService.Refusal> {
    let outcome = Mailbox<Result<Int32, PresenceService.Refusal>>()
    ben.streams.connect(to: annaForBen.id, label) { outcome.put($0) }
    return try await outcome.next()
  }

  func close() {
    for service in [anna, ben] { service.stop {} }
  }
}

@Suite("Presence streams between two services on the loopback interface", .serialized)
struct PresenceStreamTests {
  init() { EventLoop.shared.runInBackground() }

  private static func label(_ text: String) throws -> ServiceLabel { try #require(ServiceLabel(text)) }

  private static func count(_ name: String, of service: PresenceService) async -> UInt64 {
    await service.tallies.first { $0.name == name }?.count ?? 0
  }

  @Test(
    "1 MiB goes to the peer's program and returns unchanged, and both presence streams end", arguments: Dialect.allCases
  )
  @LoopActor
  func echo(dialect: Dialect) async throws {
    let pair = try await PresencePair.onNetwork(dialect)
    defer { pair.close() }
    let program = try EchoProgram()
    try pair.anna.streams.register(try Self.label("echo"), at: program.address, by: ":1.1", user: getuid())
    let end = ProgramEnd(try await pair.connect(try Self.label("echo")).get())
    let file = (0..<1 << 20).map { UInt8(truncatingIfNeeded: $0 &* 2_654_435_761 >> 13) }
    end.send(file)
    let error = try await end.ends.next()
    #expect(error == nil && end.received == file)
    #expect(program.accepted == 1)
    #expect(await Self.count("IncomingStreams", of: pair.anna) == 1)
    #expect(await Self.count("OutgoingStreams", of: pair.ben) == 1)
  }

  @Test("A stream to the service name `default` carries only the program's bytes")
  @LoopActor
  func unnamed() async throws {
    let pair = try await PresencePair.onNetwork()
    defer { pair.close() }
    let program = try EchoProgram()
    try pair.anna.streams.register(.unnamed, at: program.address, by: ":1.1", user: getuid())
    let end = ProgramEnd(try await pair.connect(.unnamed).get())
    end.send(Array("GET / HTTP/1.1\r\n\r\n".utf8))
    _ = try await end.ends.next()
    #expect(String(decoding: end.received, as: UTF8.self) == "GET / HTTP/1.1\r\n\r\n")
  }

  @Test("A stream to a service name that no program of the peer registered is refused, and counted there")
  @LoopActor
  func unknown() async throws {
    let pair = try await PresencePair.onNetwork()
    defer { pair.close() }
    let outcome = try await pair.connect(try Self.label("nothing"))
    #expect(outcome == .failure(.serviceNotRegistered))
    #expect(await Self.count("UnknownServices", of: pair.anna) == 1)
  }

  @Test("No connection is made to a Unix socket that is not owned by the registered program's user")
  @LoopActor
  func foreignSocket() async throws {
    let pair = try await PresencePair.onNetwork()
    defer { pair.close() }
    let folder = try ScratchFolder()
    let path = folder.path("socket")
    let listener = try UnixListener(path)
    defer { listener.close() }
    try pair.anna.streams.register(try Self.label("x"), at: .socket(path), by: ":1.1", user: getuid() + 1)
    let outcome = try await pair.connect(try Self.label("x"))
    #expect(outcome == .failure(.unreachable("The peer's program does not accept connections.")))
    #expect(await Self.count("UnavailableServices", of: pair.anna) == 1)
    try pair.anna.streams.register(try Self.label("x"), at: .socket(path), by: ":1.1", user: getuid())
    let end = ProgramEnd(try await pair.connect(try Self.label("x")).get())
    end.stream.close()
  }

  @Test("A known peer gets a stream while 32 handshakes of other clients are stalled")
  @LoopActor
  func besideHalfOpen() async throws {
    let pair = try await PresencePair.onNetwork()
    defer { pair.close() }
    let program = try EchoProgram()
    try pair.anna.streams.register(try Self.label("echo"), at: program.address, by: ":1.1", user: getuid())
    var strangers: [SocketStream] = []
    for number: UInt64 in 1...32 {
      let ends = NeighbourRadio.pair()
      strangers.append(SocketStream(owning: ends.0))
      pair.anna.streams.accept(SocketStream(owning: ends.1), from: DeviceAddress(number))
    }
    let end = ProgramEnd(try await pair.connect(try Self.label("echo")).get())
    end.send([1, 2, 3])
    _ = try await end.ends.next()
    #expect(end.received == [1, 2, 3])
    // On a slow machine, attackers may be disconnected by the time limit of 3 s before they are evicted.
    let evicted = await Self.count("EvictedHandshakes", of: pair.anna)
    let silent = await Self.count("SilentHandshakes", of: pair.anna)
    #expect(evicted + silent > 0)
    for stranger in strangers { stranger.close() }
  }

  /// Connects to a port of 127.0.0.1 from 127.0.0.`host`. The caller owns the descriptor.
  private static func connect(from host: UInt8, toPort port: UInt16) throws -> Int32 {
    func address(_ host: UInt8, _ port: UInt16) -> sockaddr_in {
      var address = sockaddr_in()
      address.sin_family = sa_family_t(AF_INET)
      address.sin_port = port.bigEndian
      address.sin_addr.s_addr = (0x7F00_0000 | UInt32(host)).bigEndian
      return address
    }
    func call(_ address: sockaddr_in, _ body: (UnsafePointer<sockaddr>, socklen_t) -> Int32) -> Bool {
      withUnsafePointer(to: address) { pointer in
        pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
          body($0, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0
        }
      }
    }
    let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
    let isBound = call(address(host, 0)) { Glibc.bind(descriptor, $0, $1) }
    let isConnected = call(address(1, port)) { Glibc.connect(descriptor, $0, $1) }
    try #require(isBound && isConnected)
    return descriptor
  }

  @Test("A 33rd connection without a byte ends the oldest one, and a known peer gets a stream beside them")
  @LoopActor
  func besideSilent() async throws {
    let pair = try await PresencePair.onNetwork()
    defer { pair.close() }
    let program = try EchoProgram()
    try pair.anna.streams.register(try Self.label("echo"), at: program.address, by: ":1.1", user: getuid())
    let route = try #require(pair.ben.routes(to: pair.annaForBen.id).first)
    guard case .network(let endpoint) = route.target else {
      Issue.record("the peer is not reached over the network")
      return
    }
    var strangers: [Int32] = []
    defer { for stranger in strangers { Glibc.close(stranger) } }
    for number: UInt8 in 0..<40 { strangers.append(try Self.connect(from: 2 + number / 10, toPort: endpoint.port)) }
    let end = ProgramEnd(try await pair.connect(try Self.label("echo")).get())
    end.send([1, 2, 3])
    _ = try await end.ends.next()
    #expect(end.received == [1, 2, 3])
    #expect(await Self.count("SilentConnections", of: pair.anna) >= 8)
  }

  @Test("Forged sources on one interface do not displace the sources on another, and a single interface needs none")
  func sources() {
    let sites = [UInt32(2), 3].map {
      NetworkSite(interface: $0, address: .v6(high: 0xFE80_0000_0000_0000, low: UInt64($0)))
    }
    let peer = NetworkAddress.v6(high: 0xFE80_0000_0000_0000, low: 99)
    var sources = SourceSites(limit: 64)
    sources.note(peer, at: sites[1])
    for number: UInt64 in 1000..<2000 { sources.note(.v6(high: 0xFE80_0000_0000_0000, low: number), at: sites[0]) }
    #expect(sources.count == 64 && sources.zone(of: peer, among: sites) == 3)
    // The peer has moved to the other interface.
    sources.note(peer, at: sites[0])
    #expect(sources.count == 64 && sources.zone(of: peer, among: sites) == 2)
    sources.forget(sites[0])
    #expect(sources.count == 0 && sources[peer] == nil && sources.zone(of: peer, among: sites) == 0)
    let other = NetworkSite(interface: 7, address: .loopback4)
    #expect(sources.zone(of: peer, among: [sites[1], other]) == 3)
    #expect(sources.zone(of: peer, among: [other]) == 0)
  }

  @Test("A presence port that another program used is opened with the next announcement")
  @LoopActor
  func usedPort() async throws {
    let other = try TCPListener(on: Endpoint(.loopback4, port: 0)) { _ in }
    let endpoint = other.local
    var settings = PresenceSettings()
    (settings.interfaces, settings.port) = (["lo"], Int(endpoint.port))
    let network = LocalNetwork(settings, on: EventLoop.shared)
    let states = Mailbox<Bool>()
    network.onEvent = { [weak network] event in
      if case .changed = event { states.put(network?.isUsable ?? false) }
    }
    network.start()
    defer { network.stop() }
    _ = try await states.first { $0 }
    network.serve(true)
    #expect(network.tallies.contains { $0.name == "FailedInterfaces" && $0.count > 0 })
    other.close()
    network.serve(true)
    let events = Mailbox<SocketStreamEvent>()
    let client = SocketStream.connect(to: endpoint, within: Patience.limit) { events.put($0) }
    #expect(try await events.next() == .connected)
    client.close()
  }

  @Test("The 17th presence stream to one peer is refused")
  @LoopActor
  func manyOfOnePeer() async throws {
    let pair = try await PresencePair.onNetwork()
    defer { pair.close() }
    var outcomes: [Result<Int32, PresenceService.Refusal>] = []
    for _ in 0..<17 { pair.ben.streams.connect(to: pair.annaForBen.id, .unnamed) { outcomes.append($0) } }
    #expect(outcomes == [.failure(.tooManyStreams)])
  }

  @Test("A refused TLS handshake sends its alert to the peer", arguments: [40, 70, 115, 20] as [UInt8])
  @LoopActor
  func alerts(number: UInt8) async throws {
    let pair = try await PresencePair.onNetwork()
    defer { pair.close() }
    let route = try #require(pair.ben.routes(to: pair.annaForBen.id).first)
    let client: WireClient
    switch number {
    // The two cases are a ClientHello without a common cipher suite, and one of TLS 1.1.
    case 40: client = try WireClient(route, hello: WireClient.hello(version: 3, suite: 0x2F))
    case 70: client = try WireClient(route, hello: WireClient.hello(version: 2, suite: 0xAB))
    case 115: client = try WireClient(route, identity: String(repeating: "A", count: 192), key: route.key)
    default:
      client = try WireClient(route, identity: route.identity, key: SecretBytes(copying: [UInt8](1...16)))
    }
    _ = try await client.ends.next()
    let record = Array(client.received.suffix(7))
    #expect(Array(record.prefix(2)) == [21, 3])
    #expect(Array(record.suffix(4)) == [0, 2, 2, number])
    let names = [40: "TLSNoCommonSuite", 70: "TLSOtherVersions", 115: "TLSUnknownIdentities", 20: "TLSWrongKeys"]
    #expect(await Self.count(names[Int(number)] ?? "", of: pair.anna) == 1)
  }

  @Test("A removed peer is refused even though it still has the announcement")
  @LoopActor
  func removed() async throws {
    let pair = try await PresencePair.onNetwork()
    defer { pair.close() }
    let removals = Mailbox<Bool>()
    pair.anna.removePeer(pair.benForAnna.id) { removals.put($0 == nil) }
    #expect(try await removals.next())
    // The port is closed together with the announcement, so that the connection is refused, or the way is gone.
    let outcome = try await pair.connect(try Self.label("echo"))
    guard case .failure(let refusal) = outcome else {
      Issue.record("a stream was opened")
      return
    }
    #expect(refusal != .serviceNotRegistered)
    #expect(await Self.count("IncomingStreams", of: pair.anna) == 0)
  }

  @Test("A peer that is removed between its TLS handshake and its request gets no stream")
  @LoopActor
  func removedBeforeRequest() async throws {
    let pair = try await PresencePair.onNetwork()
    defer { pair.close() }
    let program = try EchoProgram()
    let label = try Self.label("echo")
    try pair.anna.streams.register(label, at: program.address, by: ":1.1", user: getuid())
    let route = try #require(pair.ben.routes(to: pair.annaForBen.id).first)
    let client = try WireClient(route, identity: route.identity, key: route.key)
    _ = try await client.handshakes.next()
    let removals = Mailbox<Bool>()
    pair.anna.removePeer(pair.benForAnna.id) { removals.put($0 == nil) }
    #expect(try await removals.next())
    client.send(label.request)
    _ = try await client.ends.next()
    #expect(program.accepted == 0)
    #expect(await Self.count("IncomingStreams", of: pair.anna) == 0)
  }

  @Test("A presence service name becomes free only when the bus connection of its program ends")
  @LoopActor
  func registration() async throws {
    let pair = try await PresencePair.onNetwork()
    defer { pair.close() }
    let (streams, label) = (pair.anna.streams, try Self.label("echo"))
    let address = LocalAddress.socket("/nowhere")
    try streams.register(label, at: address, by: ":1.1", user: 1)
    #expect(throws: PresenceService.Refusal.serviceTaken) {
      try streams.register(label, at: address, by: ":1.2", user: 1)
    }
    streams.unregister(all: ":1.1")
    #expect(streams.serviceNames.isEmpty)
    try streams.register(label, at: address, by: ":1.2", user: 1)
    #expect(streams.serviceNames == ["echo"])
  }
}

/// A TLS client that records the bytes that the service sends.
@LoopActor
private final class WireClient {
  private struct NoNetwork: Error {}

  let ends = Mailbox<Bool>()
  /// Completed handshakes.
  let handshakes = Mailbox<Bool>()
  private(set) var received: [UInt8] = []
  private var session: TLSSession?
  private var first: [UInt8] = []
  private var stream: SocketStream?

  /// Creates a client that sends only these bytes.
  init(_ route: PresenceStreams.Route, hello: [UInt8]) throws {
    first = hello
    try connect(route)
  }

  /// Creates a client that performs a TLS handshake.
  init(_ route: PresenceStreams.Route, identity: String, key: SecretBytes) throws {
    let context = try #require(TLSContext(isServer: false))
    let session = try TLSSession(context, .client(identity: identity, key: key), at: .zero)
    first = session.takeOutgoing()
    self.session = session
    try connect(route)
  }

  private func connect(_ route: PresenceStreams.Route) throws {
    guard case .network(let endpoint) = route.target else { throw NoNetwork() }
    stream = SocketStream.connect(to: endpoint, within: Patience.limit) { [weak self] in self?.handle($0) }
  }

  /// Sends bytes inside TLS.
  func send(_ bytes: [UInt8]) {
    guard let session else { return }
    session.send(bytes[...])
    stream?.send(session.takeOutgoing()[...])
  }

  private func handle(_ event: SocketStreamEvent) {
    switch event {
    case .connected: stream?.send(first[...])
    case .received(let bytes):
      received += bytes
      guard let session else { return }
      for case .established in session.receive(bytes[...]) { handshakes.put(true) }
      stream?.send(session.takeOutgoing()[...])
    case .writable, .hungUp: break
    case .ended, .closed: ends.put(true)
    }
  }

  /// A `ClientHello` of TLS 1.2 (`version` 3) or 1.1 (2) with one suite and without extensions.
  nonisolated static func hello(version: UInt8, suite: UInt8) -> [UInt8] {
    var body: [UInt8] = [3, version]
    body += [UInt8](repeating: 7, count: 32)
    body += [0, 0, 2, 0, suite, 1, 0]
    let size = UInt8(body.count)
    var record: [UInt8] = [22, 3, 1, 0, size + 4, 1, 0, 0, size]
    record += body
    return record
  }
}

/// A Unix socket on which nobody accepts.
private final class UnixListener: Sendable {
  private let descriptor: Int32

  init(_ path: String) throws {
    descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8) }
    let isBound = withUnsafePointer(to: &address) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size)) == 0
      }
    }
    try #require(isBound && listen(descriptor, 4) == 0)
  }

  func close() { Glibc.close(descriptor) }
}
