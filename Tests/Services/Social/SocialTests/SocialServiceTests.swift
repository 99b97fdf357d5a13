import ASN
import Common
import Crypto
import LocalSockets
import Loop
import Social
import SocialStore
import Store
import Streams
import TestSupport
import Testing
import WebSocket

@Suite("The ASN server with clients")
struct SocialServiceTests {
  init() { EventLoop.shared.runInBackground() }

  @Test("Two users log in, and a message of one is acknowledged and reaches the other")
  @LoopActor
  func message() throws {
    let stand = SocialStand(MemoryBlobStore())
    let (alice, bob) = (try stand.client(), try stand.client())
    try alice.exec("echo", "hello")
    try alice.exec("blob", bob.user.hex, input: "hi")
    stand.clock.run()
    #expect(alice.answers.suffix(2).map(\.result) == [.success, .success])
    #expect(bob.blobs.map { Array($0.content) } == [Array("hi".utf8)])
    #expect(stand.service.users == [alice.user, bob.user].sorted())
  }

  @Test("Requests that arrive while the store is busy share the next commit and are answered in order")
  @LoopActor
  func grouped() throws {
    let held = HeldWorker()
    let stand = SocialStand(MemoryBlobStore(), offloading: held)
    let clients = [0, 1, 2].map { _ in FakeClient(stand.configuration(), stand.clock, random: &stand.random) }
    for client in clients {
      stand.service.accept(client.stream, address: "user 1")
      try client.logIn()
    }
    stand.clock.run()
    func settle() {
      while !held.held.isEmpty {
        held.release()
        stand.clock.run()
      }
    }
    settle()
    #expect(clients.allSatisfy { $0.session.state == .established })
    let before = stand.worker.groups
    let answered = clients.map(\.answers.count)
    for client in clients {
      for number in 0..<5 { try client.exec("blob", "note\(number)", input: "text") }
    }
    stand.clock.run()
    // No request is acknowledged before the store has committed it.
    #expect(clients.map(\.answers.count) == answered)
    settle()
    #expect(
      clients.allSatisfy { $0.answers.suffix(5).map(\.result) == [.success, .success, .success, .success, .success] })
    #expect(stand.worker.groups == before + 2)
  }

  @Test("A client above its request rate is not read for a while, and all its requests are answered")
  @LoopActor
  func held() throws {
    let stand = SocialStand(MemoryBlobStore()) { configuration in
      configuration.session.burst = 10
      configuration.session.commands = 10
    }
    let client = try stand.client()
    for _ in 0..<50 { try client.exec("echo", "x") }
    stand.clock.run()
    #expect(!client.stream.isReading && client.stream.unread > 0)
    let early = client.answers.count
    #expect(early < 20)
    stand.clock.advance(by: .seconds(10))
    #expect(client.answers.count >= 50 && client.stream.isReading && client.stream.unread == 0)
  }

  @Test("A client that reads nothing is disconnected when 4 MiB wait for it, and others are served")
  @LoopActor
  func slow() throws {
    let stand = SocialStand(MemoryBlobStore()) { $0.session.waiting = 10_000 }
    let (slow, other) = (try stand.client(), try stand.client())
    slow.stream.takesOutput = false
    for number in 0..<20 { try other.exec("blob", slow.user.hex, input: String(repeating: "\(number)", count: 1000)) }
    stand.clock.run()
    #expect(stand.closed == [.slow] && slow.stream.isClosed && !other.stream.isClosed)
    try other.exec("echo", "there")
    stand.clock.run()
    #expect(other.answers.last?.result == .success && stand.service.counters.slow == 1)
  }

  @Test("When all sessions together use too much memory, the one that uses the most is closed")
  @LoopActor
  func memory() throws {
    let stand = SocialStand(MemoryBlobStore()) { $0.held = 20_000 }
    let (slow, slower, other) = (try stand.client(), try stand.client(), try stand.client())
    (slow.stream.takesOutput, slower.stream.takesOutput) = (false, false)
    try other.exec("blob", slow.user.hex, input: String(repeating: "x", count: 5000))
    for _ in 0..<3 { try other.exec("blob", slower.user.hex, input: String(repeating: "y", count: 5000)) }
    stand.clock.run()
    #expect(stand.closed == [.slow] && slower.stream.isClosed && !slow.stream.isClosed && !other.stream.isClosed)
  }

  @Test("A client without a login is disconnected if it sends a PDU of more than 64 KiB and a header")
  @LoopActor
  func longBeforeLogin() throws {
    let stand = SocialStand(MemoryBlobStore())
    let wire = FakeStream(stand.clock)
    stand.service.accept(wire, address: "a")
    var random = SeededRandom(seed: 6)
    let configuration = stand.configuration()
    let key = X25519.PrivateKey(randomFrom: &random)
    var channel = try BoxChannel(own: key, peer: configuration.service, nonce: configuration.nonce)
    wire.arrive(key.publicKey.bytes)
    for segment in try channel.seal([UInt8](repeating: 0, count: 70_000)) { wire.arrive(segment) }
    stand.clock.run()
    #expect(wire.isClosed && stand.closed.count == 1 && stand.service.counters.malformed == 1)
  }

  @Test("A client that sends no key within 10 s, or violates the protocol, is disconnected")
  @LoopActor
  func strangers() throws {
    let stand = SocialStand(MemoryBlobStore())
    let (quiet, loud) = (FakeStream(stand.clock), FakeStream(stand.clock))
    stand.service.accept(quiet, address: "a")
    stand.service.accept(loud, address: "b")
    loud.arrive([UInt8](repeating: 1, count: 32) + [0, 3, 1, 2, 3])
    stand.clock.run()
    #expect(loud.isClosed && !quiet.isClosed && stand.service.counters.malformed == 1)
    stand.clock.advance(by: .seconds(11))
    #expect(quiet.isClosed && stand.closed.last == .noKey)
    #expect(stand.service.sessionCount == 0)
  }

  @Test("A server that stops executes pending requests, redirects its clients, and accepts no connection")
  @LoopActor
  func stop() throws {
    let held = HeldWorker()
    let stand = SocialStand(MemoryBlobStore(), offloading: held)
    let client = FakeClient(stand.configuration(), stand.clock, random: &stand.random)
    stand.service.accept(client.stream, address: "user 1")
    try client.logIn()
    stand.clock.run()
    while !held.held.isEmpty {
      held.release()
      stand.clock.run()
    }
    try client.exec("blob", "note", input: "text")
    stand.clock.run()
    var isDone = false
    stand.service.stop(redirectingTo: "ws://other") { isDone = true }
    stand.clock.run()
    #expect(client.redirected == "ws://other" && client.stream.isClosed && !isDone)
    let late = FakeStream(stand.clock)
    stand.service.accept(late, address: "a")
    #expect(late.isClosed)
    while !held.held.isEmpty {
      held.release()
      stand.clock.run()
    }
    #expect(isDone && stand.worker.isIdle)
  }

  @Test("A store that fails refuses the change, is reported once, and works again later")
  @LoopActor
  func trouble() throws {
    var store = MemoryBlobStore()
    store.failure = .full
    let stand = SocialStand(store)
    let client = FakeClient(stand.configuration(), stand.clock, random: &stand.random)
    stand.service.accept(client.stream, address: "user 1")
    try client.logIn()
    stand.clock.run()
    // The login failed because of the store, so it does not count as a failed login of the client.
    #expect(stand.troubles == [.full] && stand.service.counters.failedLogins == 0)
    let other = try stand.client()
    // A mark is pushed to sessions, but not stored.
    try other.exec("mark", "1", "2")
    try other.exec("blob", other.user.hex, input: "x")
    stand.clock.run()
    #expect(stand.troubles == [.full])
    stand.clock.advance(by: .seconds(60))
    try other.exec("mark", "1", "2")
    stand.clock.run()
    #expect(stand.troubles == [.full])
    try other.exec("blob", other.user.hex, input: "y")
    stand.clock.run()
    #expect(stand.troubles == [.full, nil])
  }

  @Test("Changes that a server acknowledged with an SQLite store are present at the next start")
  @LoopActor
  func durable() throws {
    let folder = try ScratchFolder()
    let first = try SQLiteBlobStore(in: StateDirectory(path: folder.path))
    let stand = SocialStand(first)
    let client = try stand.client()
    try client.exec("blob", "large", input: String(repeating: "x", count: 200_000))
    stand.clock.run()
    #expect(client.answers.last?.result == .success)
    first.close()
    let second = try SQLiteBlobStore(in: StateDirectory(path: folder.path))
    let found = try second.link(client.user, "large")
    let link = try #require(found)
    #expect(try second.blob(link.sum)?.content.count == 200_000)
  }

  /// The client's end of a WebSocket connection.
  @LoopActor
  private final class FramedClient {
    let wire: FakeStream
    private let framing = WebSocketFraming(role: .client, random: SeededRandom(seed: 9))
    private var session: ClientSession
    private(set) var answers: [Acknowledgement] = []
    private(set) var codes: [CloseCode] = []

    init(_ stand: SocialStand<MemoryBlobStore>) throws {
      wire = FakeStream(stand.clock)
      session = ClientSession(configuration: stand.configuration(), random: &stand.random)
      let stream = WebSocketStream(wire, role: .server, random: SeededRandom(seed: 8))
      stand.service.accept(stream, address: "a", isFramed: true)
      wire.onOutput = { [weak self] bytes in self?.take(bytes) }
      carryOut(session.start())
      carryOut(try session.logIn())
    }

    func exec(_ arguments: [String]) throws { carryOut(try session.exec(Command(arguments)).actions) }

    private func take(_ bytes: [UInt8]) {
      for action in framing.receive(bytes) {
        switch action {
        case .message(let message): carryOut(session.receive(message))
        case .send(let frame): wire.arrive(frame)
        case .close(let code): codes.append(code)
        case .pong: break
        }
      }
    }

    private func carryOut(_ actions: [ClientAction]) {
      for action in actions {
        if case .send(let bytes) = action { wire.arrive(framing.send(bytes)) }
        if case .answered(_, let answer) = action { answers.append(answer) }
      }
    }
  }

  @Test("A WebSocket session stays open by pings, and ends with a close frame")
  @LoopActor
  func framed() throws {
    let stand = SocialStand(MemoryBlobStore())
    let client = try FramedClient(stand)
    stand.clock.run()
    try client.exec(["echo", "hello"])
    stand.clock.advance(by: .seconds(1200))
    #expect(client.answers.last?.text == "hello\n" && !client.wire.isClosed && stand.closed == [])
    stand.service.stop()
    stand.clock.run()
    #expect(client.codes == [.normal] && client.wire.isClosed)
  }

  @Test("Frames that violate the WebSocket protocol end the session with a close frame")
  @LoopActor
  func unmasked() throws {
    let stand = SocialStand(MemoryBlobStore())
    let client = try FramedClient(stand)
    stand.clock.run()
    client.wire.arrive([0x82, 1, 0])
    stand.clock.run()
    #expect(client.codes == [.protocolError] && client.wire.isClosed && stand.closed == [.disconnected])
  }

  @Test(
    "A listening address of the ASN server begins with unix:, tcp:, ws: or wss:, and may name the dialect",
    arguments: [
      ("unix:/run/a.sock", .unix(path: "/run/a.sock"), Dialect.seed), ("unix:///run/a", .unix(path: "/run/a"), .seed),
      ("unix:/a?dialect=2015", .unix(path: "/a"), .year2015), ("unix:/a?dialect=seed", .unix(path: "/a"), .seed),
      ("tcp:127.0.0.1:7", .tcp(host: "127.0.0.1", port: 7), .seed), ("tcp://:80", .tcp(host: "::", port: 80), .seed),
      ("tcp:[::1]:80?dialect=2015", .tcp(host: "::1", port: 80), .year2015),
      ("ws://localhost:80", .webSocket(host: "localhost", port: 80, path: "/"), .seed),
      ("ws://example.org", .webSocket(host: "example.org", port: 80, path: "/"), .seed),
      ("wss://example.org/asn", .webSocket(host: "example.org", port: 443, path: "/asn", isSecure: true), .seed),
      ("wss://[::1]/", .webSocket(host: "::1", port: 443, path: "/", isSecure: true), .seed),
      ("tcp:a-1.example.org:80", .tcp(host: "a-1.example.org", port: 80), .seed),
      ("ws://[::1]:80/asn/x", .webSocket(host: "::1", port: 80, path: "/asn/x"), .seed),
    ] as [(String, ListenAddress.Place, Dialect)])
  func addresses(text: String, place: ListenAddress.Place, dialect: Dialect) {
    let address = ListenAddress(text)
    #expect(address == ListenAddress(place, dialect: dialect))
    #expect(address.flatMap { ListenAddress($0.text) } == address)
  }

  @Test(
    "A listening address of the ASN server in any other form than unix:, tcp:, ws: or wss: is refused",
    arguments: [
      "", "unix:", "unix:a", "tcp::0", "tcp:80", "/a", "unix:/a b", "unix:/a?dialect=x", "unix:/a?b", "ws:/a",
      "wss:localhost", "tcp:example.org", "tcp:a..b:80", "tcp:-a:80", "tcp:a_b:80", "tcp:127.0.0.1:70000",
      "unix://host/a", "tcp:[1.2.3.4]:5", "tcp:127.0.0.1:+80", "tcp:[::1]:+80",
    ])
  func badAddresses(text: String) { #expect(ListenAddress(text) == nil) }

  @Test("A WebSocket client begins with an HTTP request, and its first frames may arrive with the request")
  @LoopActor
  func handshake() throws {
    let stand = SocialStand(MemoryBlobStore())
    let wire = FakeStream(stand.clock)
    stand.service.greet(wire, path: "/asn", peer: .host("192.0.2.1"))
    var output: [UInt8] = []
    wire.onOutput = { output += $0 }
    var random = SeededRandom(seed: 5)
    let framing = WebSocketFraming(role: .client, random: SeededRandom(seed: 9))
    var session = ClientSession(configuration: stand.configuration(), random: &random)
    var upgrade = UpgradeResponse(host: "localhost", path: "/asn", random: &random)
    var first = upgrade.request
    for action in session.start() + (try session.logIn()) {
      if case .send(let bytes) = action { first += framing.send(bytes) }
    }
    wire.arrive(first)
    stand.clock.run()
    guard case .accepted(let rest) = upgrade.receive(output) else {
      Issue.record("refused")
      return
    }
    for action in framing.receive(rest) { if case .message(let bytes) = action { _ = session.receive(bytes) } }
    #expect(session.state != .opened && stand.service.sessionCount == 1)
  }

  @Test("An HTTP request for another path gets 404, and a client that sends nothing is closed after 10 s")
  @LoopActor
  func notUpgraded() throws {
    let stand = SocialStand(MemoryBlobStore())
    let (lost, silent) = (FakeStream(stand.clock), FakeStream(stand.clock))
    for wire in [lost, silent] { stand.service.greet(wire, path: "/asn", peer: .host("192.0.2.1")) }
    var output: [UInt8] = []
    lost.onOutput = { output += $0 }
    lost.arrive(Array("GET / HTTP/1.1\r\nHost: a\r\n\r\n".utf8))
    stand.clock.run()
    #expect(lost.isClosed && !silent.isClosed)
    #expect(String(decoding: output, as: UTF8.self).hasPrefix("HTTP/1.1 404 "))
    stand.clock.advance(by: .seconds(11))
    #expect(silent.isClosed && stand.service.refusedUpgrades == 2 && stand.service.sessionCount == 0)
  }

  @Test("At most 16 connections from one address may be in the handshake at a time")
  @LoopActor
  func manyHandshakes() {
    let stand = SocialStand(MemoryBlobStore())
    let wires = (0..<17).map { _ in FakeStream(stand.clock) }
    for wire in wires { stand.service.greet(wire, path: "/asn", peer: .host("192.0.2.1")) }
    let other = FakeStream(stand.clock)
    stand.service.greet(other, path: "/asn", peer: .host("192.0.2.2"))
    #expect(wires.map(\.isClosed) == Array(repeating: false, count: 16) + [true] && !other.isClosed)
  }

  @Test("At 256 connections in the handshake, the address with the most loses its oldest to another address")
  @LoopActor
  func fullHandshakes() {
    let stand = SocialStand(MemoryBlobStore())
    func greet(_ number: Int) -> FakeStream {
      let wire = FakeStream(stand.clock)
      stand.service.greet(wire, path: "/asn", peer: .host("192.0.2.\(number)"))
      return wire
    }
    let wires = (0..<256).map { greet($0 / 16) }
    #expect(wires.allSatisfy { !$0.isClosed })
    let other = greet(100)
    #expect(!other.isClosed && wires.map(\.isClosed) == [true] + Array(repeating: false, count: 255))
    let same = greet(1)
    #expect(same.isClosed && stand.service.refusedUpgrades == 2)
  }

  @Test("500 clients that send one byte a second delay no other client, and are closed unless logged in")
  @LoopActor
  func oneOctetASecond() throws {
    let stand = SocialStand(MemoryBlobStore())
    let other = try stand.client()
    var slow: [(stream: FakeStream, rest: ArraySlice<UInt8>)] = []
    for number in 0..<500 {
      let stream = FakeStream(stand.clock)
      stand.service.accept(stream, address: "slow \(number / 16)")
      let client = FakeClient(stand.configuration(), stand.clock, random: &stand.random)
      var octets: [UInt8] = []
      client.stream.onOutput = { _ in }
      for action in client.firstActions() { octets += action }
      slow.append((stream, octets[...]))
    }
    stand.clock.run()
    // Half of them are more than the server accepts without a login, and no address has many more than another one.
    #expect(slow.count { $0.stream.isClosed } == 500 - 256 && stand.service.counters.refused == 244)
    let early = try stand.client()
    #expect(early.session.state == .established)
    for second in 0..<12 {
      for index in slow.indices where !slow[index].stream.isClosed {
        if let octet = slow[index].rest.popFirst() { slow[index].stream.arrive([octet]) }
      }
      try other.exec("echo", "\(second)")
      stand.clock.run()
      #expect(other.answers.last?.text == "\(second)\n")
      stand.clock.advance(by: .seconds(1))
    }
    #expect(slow.allSatisfy(\.stream.isClosed) && stand.service.sessionCount == 2)
    #expect(stand.closed.allSatisfy { $0 == .displaced || $0 == .noKey || $0 == .noLogin })
    let late = try stand.client()
    #expect(late.session.state == .established)
  }

  @Test("Sessions that send a command at one byte a second delay no other session, and are answered")
  @LoopActor
  func slowSessions() throws {
    let stand = SocialStand(MemoryBlobStore())
    let count = Extent.of(100, all: 500)
    var clients: [FakeClient] = []
    for number in 0..<count {
      let client = FakeClient(stand.configuration(), stand.clock, random: &stand.random)
      stand.service.accept(client.stream, address: "slow \(number / 16)")
      try client.logIn()
      stand.clock.run()
      clients.append(client)
    }
    let other = try stand.client()
    #expect(stand.service.sessionCount == count + 1)
    var rests: [ArraySlice<UInt8>] = []
    for client in clients { rests.append(try client.octets(of: "echo", "x")[...]) }
    var seconds = 0
    while rests.contains(where: { !$0.isEmpty }) {
      for (index, client) in clients.enumerated() {
        if let octet = rests[index].popFirst() { client.stream.arrive([octet]) }
      }
      try other.exec("echo", "\(seconds)")
      stand.clock.run()
      #expect(other.answers.last?.text == "\(seconds)\n")
      stand.clock.advance(by: .seconds(1))
      seconds += 1
    }
    #expect(seconds > 30 && clients.allSatisfy { $0.answers.last?.text == "x\n" } && stand.closed == [])
  }

  @Test("A client that floods the server with pings and reads nothing gets at most 16 answers")
  @LoopActor
  func pingFlood() throws {
    let stand = SocialStand(MemoryBlobStore())
    let client = try FramedClient(stand)
    let other = try stand.client()
    stand.clock.run()
    client.wire.takesOutput = false
    let before = client.wire.unsent.count
    let ping: [UInt8] = [0x89, 0xFD, 0, 0, 0, 0] + [UInt8](repeating: 7, count: 125)
    for _ in 0..<2000 {
      client.wire.arrive(ping + ping + ping)
      stand.clock.run()
    }
    let answers = client.wire.unsent.dropFirst(before)
    #expect(answers.count <= 16 && answers.reduce(0) { $0 + $1.count } <= 16 * 127)
    // The last ping has its answer when the client reads again.
    client.wire.arrive([0x89, 0x81, 0, 0, 0, 0, 42])
    stand.clock.run()
    var output: [UInt8] = []
    client.wire.onOutput = { output += $0 }
    client.wire.takesOutput = true
    client.wire.write()
    stand.clock.run()
    #expect(output.suffix(3) == [0x8A, 1, 42])
    try other.exec("echo", "there")
    stand.clock.run()
    #expect(other.answers.last?.text == "there\n")
  }

  @Test("A blob that this machine's operator stores is pushed to the sessions that may receive it")
  @LoopActor
  func own() throws {
    let stand = SocialStand(MemoryBlobStore())
    let client = try stand.client()
    let blob = Blob(
      owner: client.user, author: stand.operator.key, epoch: stand.service.time, name: .message, content: [1, 2],
      random: [UInt8](repeating: 0, count: 32))
    var outcome: StoreOutcome?
    stand.service.perform(.blob(blob), by: stand.operator) { outcome = $0 }
    stand.clock.run()
    #expect(outcome?.result == .success && client.blobs == [blob])
  }
}

@Suite("An ASN server on a socket", .serialized)
struct SocialSocketTests {
  init() { EventLoop.shared.runInBackground() }

  @Test("A client logs in over a Unix socket, stores a blob and reads it back")
  @LoopActor
  func socket() async throws {
    let folder = try ScratchFolder()
    let stand = SocialStand(MemoryBlobStore(), offloading: SerialWorker("store"))
    let path = folder.path("asn.sock")
    let address = ListenAddress(.unix(path: path))
    try stand.service.listen(at: address, using: SocketListener())
    #expect(try folder.mode("asn.sock") == 0o666)
    let connection = try SocketStream(connectingTo: path)
    var session = ClientSession(configuration: stand.configuration(), random: &stand.random)
    let events = Mailbox<StreamEvent>()
    connection.onEvent = { events.put($0) }
    var answers: [Acknowledgement] = []
    func carryOut(_ actions: [ClientAction]) {
      for action in actions {
        if case .send(let bytes) = action { connection.send(bytes) }
        if case .answered(_, let answer) = action { answers.append(answer) }
      }
    }
    func pass(until isDone: () -> Bool) async throws {
      while !isDone() {
        if case .received(let bytes) = try await events.next() { carryOut(session.receive(bytes)) }
      }
    }
    carryOut(session.start())
    carryOut(try session.logIn())
    try await pass { session.state == .established }
    answers = []
    let text = String(repeating: "x", count: 300_000)
    carryOut(try session.exec(Command(["blob", "note"], input: Array(text.utf8))).actions)
    carryOut(try session.exec(Command(["cat", "note"])).actions)
    try await pass { answers.count == 2 }
    #expect(answers.map(\.result) == [.success, .success] && answers[1].data == Array(text.utf8))
    connection.close()
  }
}
