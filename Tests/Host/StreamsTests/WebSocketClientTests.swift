import Crypto
import LocalSockets
import Loop
import SOCKS
import Streams
import TLS
import TestSupport
import Testing
import WebSocket

/// A SOCKS proxy with a WebSocket server behind it, and the client that uses them, in virtual time.
@LoopActor
private final class Stand {
  enum Proxy {
    case connects
    case refuses(UInt8)
    case waits
  }

  let clock = HandClock()
  let wire: FakeStream
  let client: WebSocketClient
  private(set) var events: [WebSocketClient.Event] = []
  /// The bytes that the client sent before the proxy had accepted its request.
  private(set) var beforeProxy: [UInt8] = []
  /// Frames that the server has received, decrypted.
  private(set) var frames: [UInt8] = []
  private(set) var messages: [[UInt8]] = []
  private(set) var head: [UInt8] = []
  private let resolver: NoNames
  var lookups: Int { resolver.count }
  private var dials: [String] = []
  private let proxy: Proxy
  private let tls: TLSCertificateSession?
  private var upgrade = UpgradeRequest(path: "/")
  private let framing = WebSocketFraming(role: .server, sends: .text, random: SeededRandom(seed: 1))
  private var socks: [UInt8] = []
  private var stage = 0
  private var isOpen = false

  init(
    _ host: String = "social.test", isSecure: Bool = true, proxy: Proxy = .connects,
    trust: TestCertificate = .first, limit: Int = 1000
  ) throws {
    self.proxy = proxy
    let certificate = TestCertificate.first
    let identity = try #require(TLSIdentity(chain: Array(certificate.chain.utf8), key: Array(certificate.key.utf8)))
    let folder = try ScratchFolder()
    try folder.write(Array(trust.chain.utf8), to: "trust.pem")
    let target = try #require(SOCKSTarget(host: host, port: isSecure ? 443 : 80))
    let address = try #require(WebSocketAddress(target, path: "/", isSecure: isSecure))
    tls = address.isSecure ? TLSCertificateSession(identity) : nil
    let wire = FakeStream(clock)
    self.wire = wire
    let credentials = try #require(SOCKSLogin(user: "u", password: "p"))
    let resolver = NoNames()
    self.resolver = resolver
    let file = folder.path("trust.pem")
    let trusted = TLSTrust(file: file)
    client = WebSocketClient(
      to: address, by: .proxy(host: "127.0.0.1", port: 9050, credentials), trust: { trusted }, limit: limit,
      scheduler: clock, resolver: resolver, dial: { _, _ throws(LocalStreamError) in wire })
    client.onEvent = { [weak self] in self?.events.append($0) }
    wire.onOutput = { [weak self] in self?.receive($0) }
    client.start()
    clock.run()
  }

  private func receive(_ bytes: [UInt8]) {
    guard stage < 3 else { return server(bytes) }
    beforeProxy += bytes
    socks += bytes
    switch stage {
    case 0 where socks.count == 3: answer([5, 2])
    case 1 where socks.count == 5: answer([1, 0])
    case 2 where socks.count > 5 && socks.count == 7 + Int(socks[4]):
      switch proxy {
      case .connects: answer([5, 0, 0, 1, 0, 0, 0, 0, 0, 0])
      case .refuses(let code): answer([5, code, 0, 1, 0, 0, 0, 0, 0, 0])
      case .waits: break
      }
    default: break
    }
  }

  private func answer(_ bytes: [UInt8]) {
    stage += 1
    socks = []
    wire.arrive(bytes)
  }

  private func server(_ bytes: [UInt8]) {
    guard let tls else { return plain(bytes) }
    for event in tls.receive(bytes) { if case .received(let text) = event { plain(text) } }
    flush()
  }

  private func flush() {
    let bytes = tls?.takeOutgoing() ?? []
    if !bytes.isEmpty { wire.arrive(bytes) }
  }

  private func plain(_ bytes: [UInt8]) {
    guard !isOpen else {
      frames += bytes
      for case .message(let message) in framing.receive(bytes) { messages.append(message) }
      return
    }
    head += bytes
    if case .accept(let response, _) = upgrade.receive(bytes) {
      isOpen = true
      write(response)
    }
  }

  private func write(_ bytes: [UInt8]) {
    guard let tls else { return wire.arrive(bytes) }
    tls.send(bytes)
    flush()
  }

  func serverPings() {
    write(framing.ping())
    clock.run()
  }

  func serverSends(_ message: [UInt8]) {
    write(framing.send(message))
    clock.run()
  }
}

/// A resolver that counts look-ups and never returns an address.
@LoopActor
private final class NoNames: HostResolving {
  private(set) var count = 0

  func resolve(_ name: String, then: @escaping @LoopActor (Result<[String], HostFailure>) -> Void) {
    count += 1
  }
}

@Suite("A WebSocket client behind a proxy")
struct WebSocketClientTests {
  init() { EventLoop.shared.runInBackground() }

  @Test(
    "WebSocket messages pass the SOCKS proxy in both directions, and the client sends text messages",
    arguments: [true, false])
  @LoopActor
  func wholeWay(isSecure: Bool) throws {
    let stand = try Stand(isSecure: isSecure)
    #expect(stand.events == [.proxied, .opened])
    stand.client.send(Array("hello".utf8))
    stand.clock.run()
    #expect(stand.messages == [Array("hello".utf8)])
    #expect(stand.frames.first == 0x81)
    stand.serverSends([65])
    #expect(stand.events.last == .message([65]))
    let head = String(decoding: stand.head, as: UTF8.self)
    #expect(head.contains("Host: social.test\r\n") && !head.contains("Origin"))
  }

  @Test("Before the proxy accepts, only the SOCKS handshake is sent, and no host name is looked up")
  @LoopActor
  func nothingBefore() throws {
    let stand = try Stand(proxy: .waits)
    let expected: [UInt8] =
      [5, 1, 2, 1, 1, 117, 1, 112, 5, 1, 0, 3, 11] + Array("social.test".utf8) + [1, 187]
    #expect(stand.beforeProxy == expected)
    #expect(stand.lookups == 0 && stand.events.isEmpty)
    stand.client.send([1, 2, 3])
    stand.clock.advance(by: WebSocketClient.proxyTime)
    #expect(stand.beforeProxy == expected)
    #expect(stand.events == [.ended(.proxyTimedOut)] && stand.wire.isClosed)
  }

  @Test("A proxy that refuses the connection ends the attempt with its reason, and nothing more is sent")
  @LoopActor
  func refused() throws {
    let stand = try Stand(proxy: .refuses(5))
    #expect(stand.events == [.ended(.proxy(.connectionRefused))])
    #expect(stand.wire.isClosed && stand.head.isEmpty && !stand.wire.wasMisused)
  }

  @Test("An absent proxy and a proxy that closes the connection give different errors")
  @LoopActor
  func noProxy() throws {
    let stand = try Stand(proxy: .waits)
    stand.wire.hangUp()
    stand.clock.run()
    #expect(stand.events == [.ended(.proxyClosed)])
    let target = try #require(SOCKSTarget(host: "social.test", port: 443))
    let address = try #require(WebSocketAddress(target, path: "/", isSecure: true))
    let credentials = try #require(SOCKSLogin(user: "u", password: "p"))
    let wire = FakeStream(stand.clock)
    for isRefused in [true, false] {
      let client = WebSocketClient(
        to: address, by: .proxy(host: "127.0.0.1", port: 1, credentials), trust: { nil }, limit: 1,
        scheduler: stand.clock, resolver: NoNames(),
        dial: { _, _ throws(LocalStreamError) in
          if isRefused { throw .missing }
          return wire
        })
      var events: [WebSocketClient.Event] = []
      client.onEvent = { events.append($0) }
      client.start()
      if !isRefused { wire.hangUp() }
      stand.clock.run()
      #expect(events == [.ended(.proxyUnreachable)])
    }
  }

  @Test("A server whose certificate is not trusted, or has another name, is not used")
  @LoopActor
  func certificates() throws {
    for stand in [try Stand("other.test"), try Stand(trust: .second)] {
      guard case .ended(.tls(let reason))? = stand.events.last else {
        Issue.record("\(stand.events)")
        continue
      }
      #expect(reason.hasPrefix("its certificate is not trusted"))
      #expect(stand.head.isEmpty && stand.wire.isClosed)
    }
  }

  @Test("A WebSocket message above the size limit ends the connection")
  @LoopActor
  func tooLong() throws {
    let stand = try Stand(limit: 100)
    stand.serverSends([UInt8](repeating: 65, count: 100))
    #expect(stand.events.last == .message([UInt8](repeating: 65, count: 100)))
    stand.serverSends([UInt8](repeating: 65, count: 101))
    #expect(stand.events.last == .ended(.ended))
  }

  @Test("A ping of the server, and an empty message, are signs of life and no messages")
  @LoopActor
  func signsOfLife() throws {
    let stand = try Stand()
    stand.serverPings()
    #expect(stand.events == [.proxied, .opened, .pong])
    stand.serverSends([])
    #expect(stand.events == [.proxied, .opened, .pong, .pong])
  }

  @Test("A WebSocket server that reads nothing is disconnected when 1 MiB of output waits")
  @LoopActor
  func slowServer() throws {
    let stand = try Stand()
    stand.wire.takesOutput = false
    let portion = [UInt8](repeating: 65, count: 64 << 10)
    for _ in 0..<16 { stand.client.send(portion) }
    stand.clock.run()
    #expect(stand.events == [.proxied, .opened])
    stand.client.send([65])
    stand.clock.run()
    #expect(stand.events.last == .ended(.tooSlow))
  }

  @Test("A WebSocket client that its owner closes reports nothing more")
  @LoopActor
  func closed() throws {
    let stand = try Stand()
    stand.client.close()
    stand.wire.hangUp()
    stand.clock.run()
    #expect(stand.events == [.proxied, .opened] && stand.wire.isClosed)
  }
}
