import Bytes
import Common
import Crypto

/// Output of a client session, in order: a request to the caller, or a report.
public enum ClientAction: Sendable {
  /// Send octets. The first ones are the ephemeral key, and later ones are segments; a framed transport sends each as
  /// one frame.
  case send([UInt8])
  /// The state of the session changed. The client may send requests from the state `established` on.
  case state(SessionState)
  /// The server has answered a request of this client.
  case answered(Requester, Acknowledgement)
  /// The server sent a blob: a push, or a result of a fetch.
  case arrived(Blob)
  /// The server redirects the client to this URL; if it is empty, to the same server after at least ten seconds.
  case redirected(String)
  case close(CloseReason)
}

/// Reason why a client cannot send a request.
public enum ClientError: Error, Hashable, Sendable {
  /// The server does not accept the request in the present state of the session.
  case wrongState(SessionState)
  /// The counter of the nonce has reached its end. A new connection has a new key, and a pause and a resume may give
  /// one.
  case exhausted
  /// The request is longer than a server accepts, in octets.
  case tooLong(limit: Int)
}

/// The client's side of one connection, as a state machine: octets and requests are inputs, segments and answers are
/// outputs.
/// Facts: asn.md sections 3 to 6
public struct ClientSession: Sendable {
  public struct Configuration: Sendable {
    /// The public encryption key of the server's service, which the client must know beforehand.
    public var service: X25519.PublicKey
    /// The service's initial nonce, 24 octets.
    public var nonce: [UInt8]
    public var user: UserKey
    /// The user's authentication key, which signs the login.
    public var authentication: Ed25519.PrivateKey
    public var dialect = Dialect.seed
    /// Whether this is the user's first login: the session is then provisional, and uploads the authentication key.
    public var isNewUser = false
    /// Maximum length of an accepted PDU, in octets.
    public var longest = Limits.largestBlob + Limits.argumentBytes

    public init(service: X25519.PublicKey, nonce: [UInt8], user: UserKey, authentication: Ed25519.PrivateKey) {
      (self.service, self.nonce, self.user, self.authentication) = (service, nonce, user, authentication)
    }
  }

  public private(set) var state = SessionState.opened
  /// Number of malformed blobs from the server.
  public private(set) var malformed = 0
  private let configuration: Configuration
  private let ephemeral: X25519.PrivateKey
  private var stream = SegmentStream()
  private(set) var channel: BoxChannel?
  private var pending: [Requester: SessionState.Ask] = [:]
  private var last: UInt64 = 0
  private var actions: [ClientAction] = []

  private static let loginRequester = Requester("login")

  /// - Parameter random: source of the ephemeral key.
  public init(configuration: Configuration, random: inout some RandomSource) {
    self.init(configuration: configuration, ephemeral: X25519.PrivateKey(ephemeralFrom: &random))
  }

  /// Makes a session with a given ephemeral key, which must not have been used with this service before.
  init(configuration: Configuration, ephemeral: X25519.PrivateKey) {
    (self.configuration, self.ephemeral) = (configuration, ephemeral)
    channel = try? BoxChannel(own: ephemeral, peer: configuration.service, nonce: configuration.nonce)
  }

  /// The ephemeral public key, under which the session may set an anonymous mark.
  public var ephemeralKey: UserKey { UserKey(ephemeral.publicKey) }

  /// Number of requests without an answer.
  public var unanswered: Int { pending.count }

  // MARK: Requests

  /// Begins the connection by sending the ephemeral key, and nothing else.
  public mutating func start() -> [ClientAction] {
    guard channel != nil else {
      close(.segment(.weakKey))
      return takeActions()
    }
    return [.send(ephemeral.publicKey.bytes)]
  }

  /// Sends the login, signed with the user's authentication key.
  public mutating func logIn() throws(ClientError) -> [ClientAction] {
    let signature = configuration.authentication.sign(configuration.user.bytes)
    let login = PDU.login(Self.loginRequester, user: configuration.user, signature: signature)
    return try ask(.login, login, Self.loginRequester)
  }

  /// Sends a command.
  ///
  /// - Parameter requester: eight octets that identify the answer; nil uses a number.
  public mutating func exec(
    _ command: Command, requester: Requester? = nil
  ) throws(ClientError) -> (requester: Requester, actions: [ClientAction]) {
    let requester = requester ?? next()
    let data = command.bytes(dialect: configuration.dialect)
    let ask = SessionState.Ask.command(command.arguments.first ?? "")
    return (requester, try self.ask(ask, .exec(requester, data[...]), requester))
  }

  /// Sends a blob. It has no answer.
  public mutating func send(_ blob: Blob) throws(ClientError) -> [ClientAction] {
    try ask(.blob, .blob(blob), nil)
  }

  public mutating func pause() throws(ClientError) -> [ClientAction] {
    let requester = Requester("pause")
    return try ask(.pause, .pause(requester), requester)
  }

  public mutating func resume() throws(ClientError) -> [ClientAction] {
    let requester = Requester("resume")
    return try ask(.resume, .resume(requester), requester)
  }

  public mutating func quit() throws(ClientError) -> [ClientAction] {
    let requester = Requester("quit")
    let actions = try ask(.quit, .quit(requester), requester)
    state = .quitting
    return actions + [.state(.quitting)]
  }

  /// Handles the end of the transport.
  public mutating func disconnected() -> [ClientAction] {
    close(.disconnected)
    return takeActions()
  }

  private mutating func next() -> Requester {
    last += 1
    return Requester((0..<8).map { UInt8(truncatingIfNeeded: last >> (56 - 8 * UInt64($0))) })
  }

  private mutating func ask(
    _ ask: SessionState.Ask, _ pdu: PDU, _ requester: Requester?
  ) throws(ClientError) -> [ClientAction] {
    // Nothing else is sent while the key changes, and after a pause was requested.
    let blocking: [SessionState.Ask] = [.login, .resume, .pause, .quit]
    guard state.accepts(ask), !pending.values.contains(where: blocking.contains) else { throw .wrongState(state) }
    let bytes = pdu.bytes(dialect: configuration.dialect)
    guard bytes.count <= configuration.longest else { throw .tooLong(limit: configuration.longest) }
    do throws(SegmentError) {
      let segments = try channel?.seal(bytes) ?? []
      if let requester { pending[requester] = ask }
      return segments.map { .send($0) }
    } catch {
      throw .exhausted
    }
  }

  // MARK: Input

  /// Handles octets from the transport: a frame, or a portion of any size.
  public mutating func receive(_ bytes: some Collection<UInt8>) -> [ClientAction] {
    guard state != .closed else { return [] }
    stream.receive(bytes)
    while state != .closed {
      do throws(SegmentError) {
        guard let segment = try stream.next() else { break }
        if let pdu = try channel?.open(segment, limit: configuration.longest) { handle(pdu) }
      } catch {
        close(.segment(error))
      }
    }
    return takeActions()
  }

  private mutating func handle(_ bytes: [UInt8]) {
    do throws(PDUError) {
      switch try PDU(bytes, dialect: configuration.dialect) {
      case .acknowledge(let acknowledgement): handle(acknowledgement)
      case .blob(let blob): actions.append(.arrived(blob))
      case .redirect(_, let url):
        actions.append(.redirected(url))
        close(.redirected)
      case .quit(let requester):
        if let segments = try? channel?.seal(
          PDU.acknowledge(Acknowledgement(requester, time: 0)).bytes(dialect: configuration.dialect))
        {
          actions += segments.map { .send($0) }
        }
        close(.quit)
      case .exec, .login, .pause, .resume: close(.pdu(.illFormatted))
      }
    } catch {
      close(.pdu(error))
    }
  }

  private mutating func handle(_ acknowledgement: Acknowledgement) {
    let ask = pending.removeValue(forKey: acknowledgement.requester)
    actions.append(.answered(acknowledgement.requester, acknowledgement))
    guard let ask else { return }
    let isGranted = acknowledgement.result == .success
    switch ask {
    case .login:
      guard isGranted, changeKey(acknowledgement.data) else { return close(.loginRefused) }
      enter(configuration.isNewUser ? .provisional : .established)
      if configuration.isNewUser { uploadKey() }
    case .resume where isGranted:
      if acknowledgement.data.count >= Self.keyData, !changeKey(acknowledgement.data) { return close(.badKey) }
      enter(.established)
    case .pause where isGranted: enter(.suspended)
    case .quit: close(.quit)
    case .command("auth") where state == .provisional:
      if isGranted { enter(.established) } else { close(.loginRefused) }
    case .pause, .resume, .blob, .command: break
    }
  }

  /// Number of octets in an acknowledgement with a new key: an ephemeral public key and a nonce.
  private static let keyData = UserKey.size + BoxChannel.nonceSize

  /// Switches to a new key, which was never used before. Both sides then start new counters.
  private mutating func changeKey(_ data: [UInt8]) -> Bool {
    guard data.count >= Self.keyData, let key = try? X25519.PublicKey(data.prefix(UserKey.size)),
      let next = try? BoxChannel(
        own: ephemeral, peer: key, nonce: data[UserKey.size..<Self.keyData])
    else { return false }
    channel = next
    return true
  }

  private mutating func uploadKey() {
    let command = Command(["auth", Hex.encode(configuration.authentication.publicKey.bytes)])
    do throws(ClientError) {
      actions += try exec(command).actions
    } catch {
      close(.loginRefused)
    }
  }

  private mutating func enter(_ state: SessionState) {
    self.state = state
    actions.append(.state(state))
  }

  private mutating func close(_ reason: CloseReason) {
    guard state != .closed else { return }
    (channel, pending) = (nil, [:])
    enter(.closed)
    actions.append(.close(reason))
  }

  private mutating func takeActions() -> [ClientAction] {
    defer { actions = [] }
    return actions
  }
}
