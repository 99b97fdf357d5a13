import Bytes
import Crypto
import LocalSockets
import Loop
import Nostr
import SOCKS
import Streams
import TLS

/// The path of connections to relays: through a SOCKS proxy, or directly.
enum UplinkRoute: Hashable, Sendable {
  case proxy(ProxyAddress)
  /// Without a proxy, for development only.
  case clearnet
}

/// An event of a connection to a relay.
enum RelayConnectionEvent: Sendable, Equatable {
  case opened(RelayLink)
  case received(RelayLink, [UInt8])
  case ponged(RelayLink)
  /// - Parameter proxyProblem: why the proxy itself cannot be used, as part of a sentence whose subject is the proxy;
  ///   nil if it can.
  case ended(RelayLink, reason: String, proxyProblem: String?)
}

/// The WebSocket connections to relays. Each has SOCKS credentials of its own, so that `tor` uses a circuit of its own
/// for it.
@LoopActor
final class RelayConnections {
  /// Called on the loop, never from within a call of this type.
  var onEvent: @LoopActor (RelayConnectionEvent) -> Void = { _ in }

  private let route: UplinkRoute
  private let servers: [RelayAddress: WebSocketAddress]
  private let scheduler: any Scheduler
  private let resolver: any HostResolving
  private let dial: WebSocketClient.Dial
  private var trust: TLSTrust?
  private var clients: [RelayLink: WebSocketClient] = [:]
  /// The secret part of the credentials: connections of another run, and those after a wipe, use other circuits.
  private var secret = ""

  /// - Parameter servers: the relays that may be connected, with the parsed addresses of their servers.
  init(
    _ route: UplinkRoute, servers: [RelayAddress: WebSocketAddress], scheduler: any Scheduler,
    resolver: any HostResolving, random: any RandomSource & Sendable, dial: @escaping WebSocketClient.Dial
  ) {
    (self.route, self.servers, self.scheduler) = (route, servers, scheduler)
    (self.resolver, self.dial) = (resolver, dial)
    renewSecret(randomFrom: random)
  }

  /// Draws another secret part of the credentials for the connections that follow.
  func renewSecret(randomFrom random: any RandomSource & Sendable) {
    var random = random
    secret = Base64URL.encode(random.bytes(16))
  }

  /// Whether certificates have been read. Without them no relay is trusted.
  var hasTrust: Bool { trust != nil }

  /// Sets the certificates by which relays are trusted. If they cannot be read, the present ones stay in use.
  ///
  /// - Parameter file: a PEM file; nil: those of the system.
  /// - Returns: whether they could be read.
  func setTrust(file: String?) -> Bool {
    guard let trust = TLSTrust(file: file) else { return false }
    self.trust = trust
    return true
  }

  func connect(_ link: RelayLink) {
    close(link)
    guard let client = client(for: link) else {
      return scheduler.soon { [weak self] in
        self?.onEvent(.ended(link, reason: "The address of the relay cannot be used.", proxyProblem: nil))
      }
    }
    clients[link] = client
    client.onEvent = { [weak self, weak client] event in
      guard let self, let client, clients[link] === client else { return }
      handle(event, of: link)
    }
    client.start()
  }

  func send(_ text: String, over link: RelayLink) { clients[link]?.send(Array(text.utf8)) }

  func ping(_ link: RelayLink) { clients[link]?.ping() }

  func close(_ link: RelayLink) { clients.removeValue(forKey: link)?.close() }

  func closeAll() { for link in clients.keys { close(link) } }

  private func client(for link: RelayLink) -> WebSocketClient? {
    guard let address = servers[link.address], let way = way(for: link) else { return nil }
    return WebSocketClient(
      to: address, by: way, trust: { [weak self] in self?.trust }, limit: NostrLimits.messageBytes + 1,
      scheduler: scheduler, resolver: resolver, dial: dial)
  }

  private func way(for link: RelayLink) -> WebSocketRoute? {
    switch route {
    case .clearnet: return .direct
    case .proxy(let proxy):
      let purpose =
        switch link.purpose {
        case .messages: "messages"
        case .channel(let geohash): "channel-\(geohash.text)"
        }
      // The SOCKS user name is a hash, because a relay address may exceed the length of a user name.
      let name = Base64URL.encode(Array(SHA256.hash(Array("\(purpose) \(link.address.text)".utf8)).prefix(16)))
      return SOCKSLogin(user: "earshot-\(name)", password: secret).map {
        .proxy(host: proxy.host, port: proxy.port, $0)
      }
    }
  }

  private func handle(_ event: WebSocketClient.Event, of link: RelayLink) {
    switch event {
    case .proxied: break
    case .opened: onEvent(.opened(link))
    case .message(let bytes): onEvent(.received(link, bytes))
    case .pong: onEvent(.ponged(link))
    case .ended(let failure):
      clients[link] = nil
      onEvent(.ended(link, reason: failure.sentence, proxyProblem: failure.proxyProblem))
    }
  }
}

/// Checks whether a SOCKS proxy accepts connections with a user name and a password, without naming a target.
@LoopActor
final class ProxyProbe {
  private static let time = Duration.seconds(10)

  private var stream: (any StreamConnection)?
  /// The handshake with the proxy. The probe ends before the handshake sends its request.
  private var handshake: SOCKSHandshake?
  private var timer: Registration?
  private var then: (@LoopActor (String?) -> Void)?

  /// - Parameter then: called once, later: nil, or a reason as part of a sentence whose subject is the proxy.
  init(
    _ proxy: ProxyAddress, scheduler: any Scheduler, dial: WebSocketClient.Dial,
    then: @escaping @LoopActor (String?) -> Void
  ) {
    self.then = then
    guard let target = SOCKSTarget(host: "localhost", port: 1),
      let credentials = SOCKSLogin(user: "earshot", password: "earshot")
    else { return }
    let handshake = SOCKSHandshake(to: target, as: credentials)
    self.handshake = handshake
    do throws(LocalStreamError) {
      let stream = try dial(proxy.host, proxy.port)
      self.stream = stream
      stream.onEvent = { [weak self] in self?.handle($0) }
      stream.send(handshake.greeting)
      timer = scheduler.schedule(after: Self.time) { [weak self] in self?.end("does not answer") }
    } catch {
      scheduler.soon { [weak self] in self?.end("does not accept connections") }
    }
  }

  func close() {
    then = nil
    drop()
  }

  private func handle(_ event: StreamEvent) {
    switch event {
    case .received(let bytes):
      for step in handshake?.receive(bytes) ?? [] {
        switch step {
        // The proxy has accepted authentication by user name and password, which is the result. The credentials are not
        // sent.
        case .send, .connected: end(nil)
        case .failed(let error): end("cannot be used: \(error)")
        }
      }
    case .ended: end("does not accept connections")
    case .written, .pong: break
    }
  }

  private func end(_ reason: String?) {
    let report = then
    close()
    report?(reason)
  }

  private func drop() {
    timer = nil
    stream?.close()
    stream = nil
  }
}
