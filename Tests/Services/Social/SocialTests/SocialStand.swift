import ASN
import Common
import Crypto
import LocalSockets
import Loop
import Social
import SocialStore
import TestSupport
import Testing

/// A service in virtual time, and clients at the other ends of its connections.
@LoopActor
final class SocialStand<Store: BlobStore> {
  let clock: HandClock
  let service: SocialService<Store>
  let worker: StoreWorker<Store>
  private let encryption: X25519.PrivateKey
  /// The login under which the operator of this machine makes requests.
  var `operator`: Login { Login(UserKey(encryption.publicKey), .admin) }
  private let nonce = [UInt8](repeating: 7, count: 24)
  var random = SeededRandom(seed: 4)
  var closed: [CloseReason] = []
  var troubles: [StoreError?] = []

  /// - Parameter offloading: where the store works; at once if nil.
  init(
    _ store: Store, offloading: (any Offloading)? = nil,
    _ adjust: (inout SocialServer.Configuration) -> Void = { _ in }
  ) {
    var random = SeededRandom(seed: 1)
    encryption = X25519.PrivateKey(randomFrom: &random)
    let authentication = Ed25519.PrivateKey(randomFrom: &random)
    var configuration = SocialServer.Configuration(
      session: ServerSession.Configuration(encryption: encryption, nonce: nonce))
    adjust(&configuration)
    var rules = CommandEngine<Store>.Configuration(
      service: UserKey(encryption.publicKey), serviceAuthentication: authentication.publicKey)
    rules.newUsers = .anyone
    let clock = HandClock()
    self.clock = clock
    let epoch: @LoopActor () -> UInt64 = { 1_412_294_821_523_593_019 + UInt64(max(0, clock.now.nanoseconds)) }
    worker = StoreWorker(
      CommandEngine(configuration: rules, store: store, random: SeededRandom(seed: 3)), worker: offloading ?? clock,
      epoch: epoch)
    service = SocialService(
      server: SocialServer(configuration: configuration, random: SeededRandom(seed: 2)), worker: worker,
      scheduler: clock, epoch: epoch)
    service.onClosed = { [weak self] _, reason in self?.closed.append(reason) }
    service.onTrouble = { [weak self] trouble in self?.troubles.append(trouble) }
  }

  /// Returns the configuration of a client with new keys.
  func configuration() -> ClientSession.Configuration {
    let key = X25519.PrivateKey(randomFrom: &random)
    var configuration = ClientSession.Configuration(
      service: encryption.publicKey, nonce: nonce, user: UserKey(key.publicKey),
      authentication: Ed25519.PrivateKey(randomFrom: &random))
    configuration.isNewUser = true
    return configuration
  }

  /// A client that is logged in.
  func client() throws -> FakeClient {
    let client = FakeClient(configuration(), clock, random: &random)
    service.accept(client.stream, address: "user 1")
    try client.logIn()
    clock.run()
    #expect(client.session.state == .established)
    return client
  }
}

/// A client and its connection.
@LoopActor
final class FakeClient {
  let stream: FakeStream
  let user: UserKey
  private(set) var session: ClientSession
  private(set) var answers: [Acknowledgement] = []
  private(set) var blobs: [Blob] = []
  private(set) var redirected: String?

  init(_ configuration: ClientSession.Configuration, _ clock: HandClock, random: inout SeededRandom) {
    stream = FakeStream(clock)
    user = configuration.user
    session = ClientSession(configuration: configuration, random: &random)
    stream.onOutput = { [weak self] bytes in
      guard let self else { return }
      self.carryOut(self.session.receive(bytes))
    }
  }

  func logIn() throws {
    carryOut(session.start())
    carryOut(try session.logIn())
  }

  /// The octets of the key and the login, which are not sent.
  func firstActions() -> [[UInt8]] {
    (session.start() + ((try? session.logIn()) ?? [])).compactMap {
      if case .send(let bytes) = $0 { bytes } else { nil }
    }
  }

  /// The octets of a command, which are not sent.
  func octets(of arguments: String...) throws -> [UInt8] {
    try session.exec(Command(arguments)).actions.flatMap { action -> [UInt8] in
      if case .send(let bytes) = action { bytes } else { [] }
    }
  }

  func exec(_ arguments: String..., input: String? = nil) throws {
    carryOut(try session.exec(Command(arguments, input: input.map { Array($0.utf8) })).actions)
  }

  private func carryOut(_ actions: [ClientAction]) {
    for action in actions {
      switch action {
      case .send(let bytes): stream.arrive(bytes)
      case .answered(_, let answer): answers.append(answer)
      case .arrived(let blob): blobs.append(blob)
      case .redirected(let url): redirected = url
      case .state: break
      case .close: stream.hangUp()
      }
    }
  }
}
