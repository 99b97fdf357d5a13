import Crypto
import LocalSockets
import Loop
import SOCKS
import TLS
import WebSocket

/// How a client reaches a server.
public enum WebSocketRoute: Hashable, Sendable {
  /// Through a SOCKS proxy at a numeric address. Nothing is looked up on this machine.
  case proxy(host: String, port: UInt16, SOCKSLogin)
  /// Without a proxy. The host is looked up on this machine.
  case direct
}

/// Why a connection to a server was not made, or has ended.
public enum WebSocketFailure: Error, Hashable, Sendable {
  /// Nothing accepts connections at the address of the proxy.
  case proxyUnreachable
  /// The proxy refused the connection.
  case proxy(SOCKSError)
  /// The proxy closed the connection without an answer.
  case proxyClosed
  /// The proxy has not connected to the server in time.
  case proxyTimedOut
  /// The server cannot be reached without a proxy: a reason as part of a sentence.
  case unreachable(String)
  /// TLS failed, for example because of the certificate: a reason as part of a sentence.
  case tls(String)
  /// The system's trusted certificates cannot be read.
  case noTrust
  /// The server refused the handshake of WebSocket: a sentence.
  case refused(String)
  /// The server has not completed the handshakes in time.
  case timedOut
  /// The server does not read what is sent.
  case tooSlow
  /// The connection has ended.
  case ended

  /// Why the proxy itself cannot be used, as part of a sentence whose subject is the proxy; nil if it can.
  public var proxyProblem: String? {
    switch self {
    case .proxyUnreachable: "does not accept connections"
    case .proxyClosed: "closes connections without an answer"
    case .proxy(let error): error.isOfProxy ? "cannot be used: \(error)" : nil
    default: nil
    }
  }

  /// A sentence without the server's name.
  public var sentence: String {
    switch self {
    case .proxyUnreachable: "The proxy does not accept connections."
    case .proxy(let error): "The proxy failed: \(error)."
    case .proxyClosed: "The proxy closed the connection without an answer."
    case .proxyTimedOut: "The proxy has not connected to the server in time."
    case .unreachable(let reason): "The server cannot be reached: \(reason)."
    case .tls(let reason): "The server cannot be used: \(reason)."
    case .noTrust: "The trusted certificates cannot be read."
    case .refused(let sentence): sentence
    case .timedOut: "The server did not answer in time."
    case .tooSlow: "The server does not read what is sent to it."
    case .ended: "The connection has ended."
    }
  }
}

/// A client's connection to a WebSocket server: a proxy, TLS for `wss:`, the handshake of WebSocket, and messages.
///
/// The proxy is connected to first. Nothing else is sent before it has accepted, and names are looked up by the proxy.
@LoopActor
public final class WebSocketClient {
  public enum Event: Sendable, Equatable {
    /// The proxy has connected to the server.
    case proxied
    /// Messages can be sent.
    case opened
    case message([UInt8])
    /// A sign of life without a message: the server answered a ping, or sent pings or an empty message.
    case pong
    /// The last event.
    case ended(WebSocketFailure)
  }

  /// Connects to a numeric address.
  public typealias Dial = @LoopActor (_ host: String, _ port: UInt16) throws(LocalStreamError) -> any StreamConnection

  /// Time for the proxy to connect.
  public nonisolated static let proxyTime = Duration.seconds(60)
  /// Time for TLS and the handshake of WebSocket.
  public nonisolated static let handshakeTime = Duration.seconds(25)
  /// Maximum bytes that wait to be written.
  private static let outputLimit = 1 << 20

  private enum Phase { case idle, proxy, handshake, open, over }

  /// Called on the loop, never from within a call of this type, and not after `close`.
  public var onEvent: @LoopActor (Event) -> Void = { _ in }

  private let address: WebSocketAddress
  private let route: WebSocketRoute
  private let trust: @LoopActor () -> TLSTrust?
  private let limit: Int
  private let scheduler: any Scheduler
  private let resolver: any HostResolving
  private let dial: Dial
  private var phase = Phase.idle
  private var stream: (any StreamConnection)?
  private var socks: SOCKSHandshake?
  private var hasAnswered = false
  private var upgrade: UpgradeResponse?
  private var timer: Registration?
  private var unwritten = 0

  /// - Parameters:
  ///   - trust: returns the certificates that a server of `wss:` is trusted by; nil if they cannot be read.
  ///   - limit: bytes of a message of the server.
  ///   - resolver: finds the addresses of the host for the route `direct`.
  public init(
    to address: WebSocketAddress, by route: WebSocketRoute, trust: @escaping @LoopActor () -> TLSTrust?, limit: Int,
    scheduler: any Scheduler, resolver: any HostResolving,
    dial: @escaping Dial = { (host, port) throws(LocalStreamError) in
      try SocketStream(connectingToHost: host, port: port)
    }
  ) {
    (self.address, self.route, self.trust, self.limit) = (address, route, trust, limit)
    (self.scheduler, self.resolver, self.dial) = (scheduler, resolver, dial)
  }

  /// Begins to connect.
  public func start() {
    guard phase == .idle else { return }
    switch route {
    case .proxy(let host, let port, let login):
      phase = .proxy
      limitTime(Self.proxyTime, .proxyTimedOut)
      do throws(LocalStreamError) {
        negotiate(over: try dial(host, port), login)
      } catch {
        endSoon(.proxyUnreachable)
      }
    case .direct:
      phase = .handshake
      limitTime(Self.handshakeTime, .timedOut)
      connectDirectly()
    }
  }

  /// Sends a message of UTF-8. It is dropped before `opened` and after the end.
  public func send(_ message: [UInt8]) {
    guard phase == .open else { return }
    unwritten += message.count
    guard unwritten <= Self.outputLimit else { return endSoon(.tooSlow) }
    stream?.send(message)
  }

  /// Asks the server for a sign of life.
  public func ping() { if phase == .open { stream?.ping() } }

  /// Ends the connection without an event.
  public func close() {
    onEvent = { _ in }
    drop()
  }

  // MARK: The way to the server

  private func negotiate(over stream: any StreamConnection, _ login: SOCKSLogin) {
    self.stream = stream
    let socks = SOCKSHandshake(to: address.target, as: login)
    self.socks = socks
    stream.onEvent = { [weak self] in self?.handleProxy($0) }
    stream.send(socks.greeting)
  }

  private func handleProxy(_ event: StreamEvent) {
    switch event {
    case .received(let bytes):
      hasAnswered = true
      for step in socks?.receive(bytes) ?? [] {
        switch step {
        case .send(let bytes): stream?.send(bytes)
        case .connected(let rest): proxied(rest)
        case .failed(let error): end(.proxy(error))
        }
      }
    case .ended: end(hasAnswered ? .proxyClosed : .proxyUnreachable)
    case .written, .pong: break
    }
  }

  private func proxied(_ rest: [UInt8]) {
    guard let transport = stream else { return }
    socks = nil
    phase = .handshake
    limitTime(Self.handshakeTime, .timedOut)
    onEvent(.proxied)
    // The owner may have closed the connection.
    guard phase == .handshake else { return }
    secure(transport)
    if !rest.isEmpty { transport.onEvent(.received(rest)) }
  }

  private func connectDirectly() {
    resolver.resolve(address.host) { [weak self] result in
      guard let self, phase == .handshake else { return }
      switch result {
      case .success(let hosts):
        do throws(LocalStreamError) {
          secure(try dial(hosts.first ?? "", address.port))
        } catch {
          end(.unreachable("the connection was refused"))
        }
      case .failure(let failure): end(.unreachable(failure.description))
      }
    }
  }

  /// Begins TLS for `wss:`, and then the handshake of WebSocket.
  private func secure(_ transport: any StreamConnection) {
    stream = transport
    guard address.isSecure else { return greet(transport) }
    guard let trust = trust() else { return end(.noTrust) }
    guard let session = TLSCertificateSession(trust, host: address.host, isNumeric: false) else {
      return end(.tls("no certificate can be for its name"))
    }
    let secured = TLSStream(transport, session)
    secured.onFailure = { [weak self] reason in self?.end(.tls(reason)) }
    greet(secured)
  }

  private func greet(_ transport: any StreamConnection) {
    stream = transport
    var random = SystemRandom()
    let upgrade = UpgradeResponse(host: address.authority, path: address.path, origin: nil, random: &random)
    self.upgrade = upgrade
    transport.onEvent = { [weak self] in self?.handleGreeting($0) }
    transport.send(upgrade.request)
  }

  private func handleGreeting(_ event: StreamEvent) {
    switch event {
    case .received(let bytes):
      switch upgrade?.receive(bytes) {
      case .accepted(let rest)?: open(rest)
      case .refused(let sentence)?: end(.refused(sentence))
      case .wait?, nil: break
      }
    case .ended: end(.ended)
    case .written, .pong: break
    }
  }

  private func open(_ rest: [UInt8]) {
    guard let transport = stream else { return }
    (upgrade, timer, phase) = (nil, nil, .open)
    let framed = WebSocketStream(transport, role: .client, sends: .text, limit: limit, random: SystemRandom())
    stream = framed
    framed.onEvent = { [weak self] in self?.handleFrame($0) }
    framed.onControl = { [weak self] in self?.onEvent(.pong) }
    onEvent(.opened)
    if phase == .open { framed.receive(rest) }
  }

  private func handleFrame(_ event: StreamEvent) {
    switch event {
    case .received(let message): onEvent(.message(message))
    case .written(let count): unwritten -= count
    case .pong: onEvent(.pong)
    case .ended: end(.ended)
    }
  }

  // MARK: The end

  private func limitTime(_ time: Duration, _ failure: WebSocketFailure) {
    timer = scheduler.schedule(after: time) { [weak self] in self?.end(failure) }
  }

  private func endSoon(_ failure: WebSocketFailure) {
    scheduler.soon { [weak self] in self?.end(failure) }
  }

  private func end(_ failure: WebSocketFailure) {
    guard phase != .over else { return }
    let report = onEvent
    close()
    report(.ended(failure))
  }

  private func drop() {
    phase = .over
    (timer, socks, upgrade) = (nil, nil, nil)
    stream?.close()
    stream = nil
  }
}
