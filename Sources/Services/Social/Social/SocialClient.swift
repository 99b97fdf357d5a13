import ASN
import Common
import Crypto
import LocalSockets
import Loop
import WebSocket

/// A client's connection to a server of ASN: the transport, the handshake of WebSocket, and the session.
@LoopActor
public final class SocialClient {
  /// Why a request has no answer, or a connection ended: a sentence.
  public struct Failure: Error, Hashable, Sendable {
    public let sentence: String
  }

  public enum Event: Sendable {
    case state(SessionState)
    /// The server pushed a blob, or sent one that a command asked for.
    case arrived(Blob)
    /// The server sends the client to this URL; to the same server after ten seconds or more if it is empty.
    case redirected(String)
    /// The last event, with the reason as a sentence.
    case ended(String)
  }

  public typealias Answer = @LoopActor (Result<Acknowledgement, Failure>) -> Void

  /// Time until the server has acknowledged the login.
  private static let loginTime = Duration.seconds(20)

  /// Called on the loop; never from within `start` and the requests.
  public var onEvent: @LoopActor (Event) -> Void = { _ in }
  public var state: SessionState { isEnded ? .closed : session.state }

  private let address: ListenAddress
  private let scheduler: any Scheduler
  private var session: ClientSession
  private var stream: (any StreamConnection)?
  private var upgrade: UpgradeResponse?
  private var answers: [Requester: Answer] = [:]
  private var timer: Registration?
  private var isEnded = false

  /// - Parameter configuration: the keys; its dialect is replaced by that of the address.
  public init(to address: ListenAddress, _ configuration: ClientSession.Configuration, scheduler: any Scheduler) {
    (self.address, self.scheduler) = (address, scheduler)
    var configuration = configuration
    configuration.dialect = address.dialect
    var random = SystemRandom()
    session = ClientSession(configuration: configuration, random: &random)
  }

  /// Connects and logs in. The state `established`, or the end, is reported by an event.
  public func start() throws(Failure) {
    do throws(LocalStreamError) {
      switch address.place {
      case .unix(let path): begin(try SocketStream(connectingTo: path))
      case .tcp(let host, let port): begin(try SocketStream(connectingToHost: Self.target(host), port: port))
      case .webSocket(let host, let port, let path):
        greet(try SocketStream(connectingToHost: Self.target(host), port: port), "\(host):\(port)", path)
      case .inherited(let name, _): throw LocalStreamError.other("\(name) is not an address of a server")
      }
    } catch {
      throw Failure(sentence: "The server cannot be reached: \(Self.reason(error)).")
    }
    timer = scheduler.schedule(after: Self.loginTime) { [weak self] in
      self?.end("The server did not acknowledge the login in time.")
    }
  }

  /// All addresses of this machine, as a target, are this machine.
  private static func target(_ host: String) -> String { host == "::" ? "::1" : host }

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

  private func greet(_ transport: SocketStream, _ host: String, _ path: String) {
    var random = SystemRandom()
    let upgrade = UpgradeResponse(host: host, path: path, random: &random)
    self.upgrade = upgrade
    stream = transport
    transport.onEvent = { [weak self, weak transport] event in
      guard let self, let transport else { return }
      switch event {
      case .received(let bytes): greeted(transport, bytes)
      case .ended: end("The server closed the connection before the handshake of WebSocket.")
      case .written, .pong: break
      }
    }
    transport.send(upgrade.request)
  }

  private func greeted(_ transport: SocketStream, _ bytes: [UInt8]) {
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
    carryOut(session.start())
    do throws(ClientError) {
      carryOut(try session.logIn())
    } catch {
      end(Self.sentence(error))
    }
  }

  private func handle(_ event: StreamEvent) {
    switch event {
    case .received(let bytes): carryOut(session.receive(bytes))
    case .written, .pong: break
    case .ended: end("The server closed the connection.")
    }
  }

  private func carryOut(_ actions: [ClientAction]) {
    for action in actions where !isEnded {
      switch action {
      case .send(let bytes): stream?.send(bytes)
      case .state(let state):
        if state == .established { timer = nil }
        // The end is reported with its reason.
        if state != .closed { report(.state(state)) }
      case .answered(let requester, let answer): answers.removeValue(forKey: requester)?(.success(answer))
      case .arrived(let blob): report(.arrived(blob))
      case .redirected(let url): report(.redirected(url))
      case .close(let reason): end(Self.sentence(reason))
      }
    }
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
    case .segment, .pdu, .badKey: "The server sent something that this client does not understand, or has other keys."
    case .slow, .noKey, .noLogin, .idle, .suspendedTooLong, .tooMany: "The server ended the session."
    }
  }
}
