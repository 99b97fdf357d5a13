import ASN
import Common
import Crypto
import LocalSockets
import Loop
import Streams
import TLS
import WebSocket

/// A client's connection to an ASN server: the transport, the handshake of WebSocket, and the session.
@LoopActor
public final class SocialClient {
  /// Reason why a request has no answer, or why a connection ended, as a sentence.
  public struct Failure: Error, Hashable, Sendable {
    public let sentence: String
  }

  public enum Event: Sendable {
    case state(SessionState)
    /// The server pushed a blob, or sent a result of a command.
    case arrived(Blob)
    /// The server redirects the client to this URL; if it is empty, to the same server after at least ten seconds.
    case redirected(String)
    /// The connection has ended, with the reason as a sentence. This is the last event.
    case ended(String)
  }

  public typealias Answer = @LoopActor (Result<Acknowledgement, Failure>) -> Void

  /// Maximum time until the server has acknowledged the login.
  private static let loginTime = Duration.seconds(20)

  /// Time between two requests that show the server that the client is present. Servers close sessions that send
  /// nothing for 10 min, and the original servers send no pings.
  private static let keepAliveTime = Duration.seconds(240)

  /// Called on the loop; never from within `start` and the requests.
  public var onEvent: @LoopActor (Event) -> Void = { _ in }
  public var state: SessionState { isEnded ? .closed : session.state }

  private let address: ListenAddress
  private let scheduler: any Scheduler
  private let resolver: any HostResolving
  private let trustFile: String?
  private let configuration: ClientSession.Configuration
  private var session: ClientSession
  /// The addresses of the server that were not tried yet.
  private var hosts: [String] = []
  /// Whether the server has sent any octets. No other address is tried then.
  private var hasAnswered = false
  private var stream: (any StreamConnection)?
  private var upgrade: UpgradeResponse?
  private var answers: [Requester: Answer] = [:]
  private var timer: Registration?
  private var isEnded = false

  /// - Parameters:
  ///   - configuration: the keys; its dialect is replaced by that of the address.
  ///   - resolver: finds the addresses of a host's name.
  ///   - trustFile: the trusted certificates for servers of `wss:`, in PEM; nil means those of the system.
  public init(
    to address: ListenAddress, _ configuration: ClientSession.Configuration, scheduler: any Scheduler,
    resolver: any HostResolving = HostResolver(), trustFile: String? = nil
  ) {
    (self.address, self.scheduler, self.resolver, self.trustFile) = (address, scheduler, resolver, trustFile)
    var configuration = configuration
    configuration.dialect = address.dialect
    self.configuration = configuration
    var random = SystemRandom()
    session = ClientSession(configuration: configuration, random: &random)
  }

  /// Connects and logs in. An event reports the state `established`, or the end.
  public func start() throws(Failure) {
    switch address.place {
    case .unix(let path):
      do throws(LocalStreamError) {
        begin(try SocketStream(connectingTo: path))
      } catch {
        throw Self.unreachable(error)
      }
    case .tcp(let host, _), .webSocket(let host, _, _, _):
      if let known = HostResolver.known(Self.target(host)) {
        hosts = known
        try connect()
      } else {
        resolve(host)
      }
    case .inherited(let name, _, _): throw Failure(sentence: "\(name) is not an address of a server.")
    }
    timer = scheduler.schedule(after: Self.loginTime) { [weak self] in
      self?.end("The server did not acknowledge the login in time.")
    }
  }

  private func resolve(_ name: String) {
    resolver.resolve(name) { [weak self] result in
      guard let self, !isEnded else { return }
      switch result {
      case .success(let found): hosts = found
      case .failure(let failure): return end("The server cannot be reached: \(failure).")
      }
      do throws(Failure) {
        try connect()
      } catch {
        end(error.sentence)
      }
    }
  }

  /// Connects to the next address of the host.
  private func connect() throws(Failure) {
    guard let (name, port) = address.target else { return }
    while !hosts.isEmpty {
      let host = hosts.removeFirst()
      do throws(LocalStreamError) {
        try enter(try SocketStream(connectingToHost: host, port: port), name, port)
        return
      } catch {
        if hosts.isEmpty { throw Self.unreachable(error) }
      }
    }
  }

  /// Begins the handshakes of TLS and WebSocket that the kind of address requires.
  private func enter(_ socket: SocketStream, _ host: String, _ port: UInt16) throws(LocalStreamError) {
    guard case .webSocket(_, _, let path, let isSecure) = address.place else { return begin(socket) }
    let authority = host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)"
    guard isSecure else { return greet(socket, authority, path) }
    guard let trust = TLSTrust(file: trustFile) else {
      throw .other("the certificates \(trustFile ?? "of the system") cannot be read")
    }
    guard let session = TLSCertificateSession(trust, host: host, isNumeric: HostResolver.isNumeric(host)) else {
      throw .other("no certificate can be for \(host)")
    }
    let stream = TLSStream(socket, session)
    stream.onFailure = { [weak self] reason in self?.end("The server cannot be reached: \(reason).") }
    greet(stream, authority, path)
  }

  /// The address to connect to for a host: for an address that means all addresses of this machine, the loopback
  /// address.
  private static func target(_ host: String) -> String { host == "::" ? "::1" : host }

  private static func unreachable(_ error: LocalStreamError) -> Failure {
    Failure(sentence: "The server cannot be reached: \(reason(error)).")
  }

  private static func reason(_ error: LocalStreamError) -> String {
    switch error {
    case .missing: "nothing listens there"
    case .denied: "permission denied"
    case .busy: "it accepts no further connections now"
    case .other(let text): text
    }
  }

  // MARK: Requests

  /// Sends a command; `then` is called once with its acknowledgement.
  public func exec(_ command: Command, then: @escaping Answer) {
    request(then) { (session) throws(ClientError) in try session.exec(command) }
  }

  public func pause(then: @escaping Answer) {
    request(then) { (session) throws(ClientError) in (Requester("pause"), try session.pause()) }
  }

  public func resume(then: @escaping Answer) {
    request(then) { (session) throws(ClientError) in (Requester("resume"), try session.resume()) }
  }

  public func quit(then: @escaping Answer) {
    request(then) { (session) throws(ClientError) in (Requester("quit"), try session.quit()) }
  }

  private func request(
    _ then: @escaping Answer,
    _ body: (inout ClientSession) throws(ClientError) -> (requester: Requester, actions: [ClientAction])
  ) {
    do throws(ClientError) {
      let (requester, actions) = try body(&session)
      answers[requester] = then
      carryOut(actions)
    } catch {
      let sentence = Self.sentence(error)
      scheduler.soon { then(.failure(Failure(sentence: sentence))) }
    }
  }

  private static func sentence(_ error: ClientError) -> String {
    switch error {
    case .wrongState(let state): "The session is \(state.rawValue), and does not accept this request."
    case .exhausted: "The session has no counters left. Quit, and connect again."
    case .tooLong(let limit): "The request is longer than \(limit) bytes."
    }
  }

  /// Closes the connection without a quit. No event follows.
  public func close() {
    onEvent = { _ in }
    end("The session was closed.")
  }

  // MARK: The connection

  private func greet(_ transport: any StreamConnection, _ host: String, _ path: String) {
    var random = SystemRandom()
    let upgrade = UpgradeResponse(host: host, path: path, random: &random)
    self.upgrade = upgrade
    stream = transport
    transport.onEvent = { [weak self, weak transport] event in
      guard let self, let transport else { return }
      switch event {
      case .received(let bytes): greeted(transport, bytes)
      case .ended: endOrTryNext("The server closed the connection before the handshake of WebSocket.")
      case .written, .pong: break
      }
    }
    transport.send(upgrade.request)
  }

  private func greeted(_ transport: any StreamConnection, _ bytes: [UInt8]) {
    hasAnswered = true
    switch upgrade?.receive(bytes) {
    case .accepted(let rest)?:
      upgrade = nil
      let framed = WebSocketStream(transport, role: .client, random: SystemRandom())
      begin(framed)
      framed.receive(rest)
    case .refused(let sentence)?: end(sentence)
    case .wait?, nil: break
    }
  }

  private func begin(_ stream: any StreamConnection) {
    self.stream = stream
    stream.onEvent = { [weak self] event in self?.handle(event) }
    // Each connection has an ephemeral key of its own.
    var random = SystemRandom()
    session = ClientSession(configuration: configuration, random: &random)
    carryOut(session.start())
    do throws(ClientError) {
      carryOut(try session.logIn())
    } catch {
      end(Self.sentence(error))
    }
  }

  private func handle(_ event: StreamEvent) {
    switch event {
    case .received(let bytes):
      hasAnswered = true
      carryOut(session.receive(bytes))
    case .written, .pong: break
    case .ended: endOrTryNext("The server closed the connection.")
    }
  }

  /// Tries the next address of the name, or ends the connection if there is none.
  private func endOrTryNext(_ sentence: String) {
    guard !isEnded, !hasAnswered, !hosts.isEmpty else { return end(sentence) }
    stream?.close()
    stream = nil
    do throws(Failure) {
      try connect()
    } catch {
      end(error.sentence)
    }
  }

  private func carryOut(_ actions: [ClientAction]) {
    for action in actions where !isEnded {
      switch action {
      case .send(let bytes): stream?.send(bytes)
      case .state(let state):
        if state == .established { keepAlive() }
        // The end is reported with its reason.
        if state != .closed { report(.state(state)) }
      case .answered(let requester, let answer): answers.removeValue(forKey: requester)?(.success(answer))
      case .arrived(let blob): report(.arrived(blob))
      case .redirected(let url): report(.redirected(url))
      case .close(let reason): end(Self.sentence(reason))
      }
    }
  }

  /// Sends a command without effect at once and from time to time. The first one confirms the session: until a client
  /// sends a segment under its key, its login may be a replay.
  private func keepAlive() {
    timer = nil
    guard state == .established else { return }
    timer = scheduler.schedule(after: Self.keepAliveTime) { [weak self] in self?.keepAlive() }
    exec(Command(["echo"])) { _ in }
  }

  private func report(_ event: Event) {
    scheduler.soon { [weak self] in self?.onEvent(event) }
  }

  private func end(_ sentence: String) {
    guard !isEnded else { return }
    isEnded = true
    timer = nil
    stream?.close()
    stream = nil
    let unanswered = answers.values
    answers = [:]
    for then in unanswered { then(.failure(Failure(sentence: sentence))) }
    report(.ended(sentence))
  }

  private static func sentence(_ reason: CloseReason) -> String {
    switch reason {
    case .quit: "The session has ended."
    case .disconnected: "The server closed the connection."
    case .loginRefused: "The server refused the login."
    case .redirected: "The server redirected the session."
    case .segment, .pdu, .badKey: "The server sent a message that this client does not understand, or has other keys."
    case .slow, .keyUsed, .noKey, .noLogin, .idle, .suspendedTooLong, .tooMany, .displaced:
      "The server ended the session."
    }
  }
}
