import Bytes
import Common
import Crypto
import Testing

@testable import ASN

/// A server with its store, and clients that are connected to it, in one thread and virtual time.
final class SocialWorld {
  /// A client's end of a connection, with everything that it had.
  struct Peer {
    var client: ClientSession
    var answers: [Acknowledgement] = []
    var blobs: [Blob] = []
    var closed: CloseReason?
    /// Why the server ended the connection.
    var serverClosed: CloseReason?
    var redirected: String?
    /// The segments in each direction.
    var sent = 0
    var received = 0
    var isReading = true
  }

  var now = Instant.zero
  /// Nanoseconds since 1970.
  var epoch: UInt64 = 1_412_294_821_523_593_019
  var server: SocialServer
  var engine: CommandEngine<MemoryBlobStore>
  var peers: [SessionID: Peer] = [:]
  /// How octets are cut on their way to a session; whole segments if nil.
  var cut: (([UInt8]) -> [[UInt8]])?
  /// Whether the octets of a segment arrive in frames.
  var isFramed = true
  /// Segments that the server sent, to see whether a nonce is used twice: a key has each once.
  var wire: [[UInt8]] = []
  let keys: Vectors.Keys
  var random = SeededRandom(seed: 1)

  init(
    keys: Vectors.Keys = Vectors.shared.keys, newUsers: CommandEngine<MemoryBlobStore>.Configuration.NewUsers = .anyone,
    _ adjust: (inout SocialServer.Configuration) -> Void = { _ in }
  ) throws {
    self.keys = keys
    var configuration = SocialServer.Configuration(
      session: ServerSession.Configuration(encryption: try keys.server.encryption, nonce: keys.nonce.bytes))
    configuration.blobs = 1000
    configuration.session.burst = 1000
    adjust(&configuration)
    server = SocialServer(configuration: configuration, random: SeededRandom(seed: 2))
    var rules = CommandEngine<MemoryBlobStore>.Configuration(
      service: try keys.server.user, serviceAuthentication: try keys.server.verification)
    rules.admin = try keys.admin.user
    rules.adminAuthentication = try keys.admin.verification
    rules.newUsers = newUsers
    engine = CommandEngine(configuration: rules, store: MemoryBlobStore(), random: SeededRandom(seed: 3))
  }

  // MARK: Connections

  /// A connection whose key is sent.
  func connect(
    user: Vectors.Pair, dialect: Dialect = .seed, isNew: Bool = false, logsIn: Bool = true, address: String = "a"
  ) throws -> SessionID {
    try connect(
      UserKey(user.encrPub.bytes), user.authentication, dialect: dialect, isNew: isNew, logsIn: logsIn, address: address
    )
  }

  func connect(
    _ user: UserKey, _ authentication: Ed25519.PrivateKey, dialect: Dialect = .seed, isNew: Bool = false,
    logsIn: Bool = true, address: String = "a"
  ) throws -> SessionID {
    carryOut(server.makeRoom(for: address, at: now, epoch: epoch))
    let opened = server.open(address: address, dialect: dialect, isFramed: isFramed, at: now)
    let id = try #require(opened)
    var configuration = ClientSession.Configuration(
      service: try X25519.PublicKey(keys.server.encrPub.bytes), nonce: keys.nonce.bytes, user: user,
      authentication: authentication)
    configuration.dialect = dialect
    configuration.isNewUser = isNew
    peers[id] = Peer(client: ClientSession(configuration: configuration, random: &random))
    try client(id) { (client) in client.start() }
    if logsIn { try client(id) { (client) throws(ClientError) in try client.logIn() } }
    return id
  }

  /// A user with keys of its own, whose session is established.
  func user(_ seed: UInt64, dialect: Dialect = .seed, address: String = "a") throws -> User {
    var random = SeededRandom(seed: 1000 + seed)
    let encryption = X25519.PrivateKey(randomFrom: &random)
    let authentication = Ed25519.PrivateKey(randomFrom: &random)
    let key = UserKey(encryption.publicKey)
    let id = try connect(key, authentication, dialect: dialect, isNew: true, address: address)
    #expect(peers[id]?.client.state == .established)
    return User(key: key, authentication: authentication, id: id)
  }

  struct User {
    let key: UserKey
    let authentication: Ed25519.PrivateKey
    let id: SessionID
  }

  /// A user that `newuser` made.
  func newUser(_ id: SessionID, _ kind: String) throws -> User {
    let lines = try text(id, "newuser", kind).split(separator: "\n")
    func value(_ line: Int) throws -> [UInt8] { try Hex.decode(lines[line].split(separator: " ")[1]) }
    return User(
      key: try UserKey(value(1)), authentication: try Ed25519.PrivateKey(copyingSeed: value(5).prefix(32)), id: id)
  }

  /// A copy of the client's channel, to seal what its session would not.
  func channel(of id: SessionID) -> BoxChannel? { peers[id]?.client.channel }

  // MARK: A slow store and slow clients

  /// Whether requests wait until `releaseStore`.
  var holdsStore = false
  private var waitingJobs: [(request: StoreRequest, job: UInt64)] = []
  var held: Int { waitingJobs.count }
  /// How many requests were carried out at once, each with a commit of its own.
  private(set) var groups = 0

  func releaseStore() {
    holdsStore = false
    while !waitingJobs.isEmpty {
      let jobs = waitingJobs
      waitingJobs = []
      let outcomes = engine.perform(jobs.map(\.request), epoch: epoch)
      for (job, outcome) in zip(jobs, outcomes) { carryOut(server.outcome(job.job, outcome, at: now, epoch: epoch)) }
    }
  }

  private var unreadSegments: [SessionID: [[UInt8]]] = [:]

  /// Octets that a client that does not read has not taken.
  func unread(_ id: SessionID) -> Int { (unreadSegments[id] ?? []).reduce(0) { $0 + $1.count } }

  /// The client reads what waits, and everything that comes then.
  func readAll(_ id: SessionID) {
    peers[id]?.isReading = true
    carryOut((unreadSegments.removeValue(forKey: id) ?? []).map { .send(id, $0) })
  }

  // MARK: Requests

  func client(_ id: SessionID, _ body: (inout ClientSession) throws(ClientError) -> [ClientAction]) throws {
    guard var peer = peers[id] else { return }
    let actions = try body(&peer.client)
    peers[id] = peer
    carryOut(actions, of: id)
  }

  /// The answer to a command.
  @discardableResult
  func exec(_ id: SessionID, _ arguments: String..., input: [UInt8]? = nil) throws -> Acknowledgement {
    let before = peers[id]?.answers.count ?? 0
    try client(id) { (client) throws(ClientError) in try client.exec(Command(arguments, input: input)).actions }
    let answers = peers[id]?.answers ?? []
    return try #require(answers.dropFirst(before).last, "no answer to \(arguments)")
  }

  /// The text of a successful answer.
  func text(_ id: SessionID, _ arguments: String..., input: String? = nil) throws -> String {
    let before = peers[id]?.answers.count ?? 0
    let command = Command(arguments, input: input.map { Array($0.utf8) })
    try client(id) { (client) throws(ClientError) in try client.exec(command).actions }
    let answers = peers[id]?.answers ?? []
    let answer = try #require(answers.dropFirst(before).last, "no answer to \(arguments)")
    #expect(answer.result == .success, "\(arguments): \(answer.text)")
    return answer.text
  }

  /// Blobs that a session got since the last call.
  func takeBlobs(_ id: SessionID) -> [Blob] {
    defer { peers[id]?.blobs = [] }
    return peers[id]?.blobs ?? []
  }

  /// Gives the server octets that no client session made.
  func inject(_ id: SessionID, _ bytes: [UInt8]) {
    carryOut(server.receive(id, bytes, at: now, epoch: epoch))
  }

  func wait(_ duration: Duration) {
    let end = now.advanced(by: duration)
    while let due = server.deadline, due <= end {
      let step = max(due, now)
      epoch += UInt64(max(0, now.duration(to: step).wholeNanoseconds))
      now = step
      carryOut(server.timer(at: now, epoch: epoch))
    }
    epoch += UInt64(max(0, now.duration(to: end).wholeNanoseconds))
    now = end
  }

  // MARK: Carrying out

  private enum Step {
    case client(SessionID, ClientAction)
    case server(SocialServer.Intent)
  }

  private var steps = Fifo<Step>()
  private var isRunning = false

  /// Everything is carried out in the order in which it was asked for, as transports do it.
  private func run() {
    guard !isRunning else { return }
    isRunning = true
    defer { isRunning = false }
    while let step = steps.popFirst() {
      switch step {
      case .client(let id, let action): carryOut(action, of: id)
      case .server(let intent): carryOut(intent)
      }
    }
  }

  private func carryOut(_ actions: [ClientAction], of id: SessionID) {
    for action in actions { steps.append(.client(id, action)) }
    run()
  }

  func carryOut(_ intents: [SocialServer.Intent]) {
    for intent in intents { steps.append(.server(intent)) }
    run()
  }

  private func carryOut(_ action: ClientAction, of id: SessionID) {
    switch action {
    case .send(let bytes):
      peers[id]?.sent += 1
      for portion in cut.map({ $0(bytes) }) ?? [bytes] {
        carryOut(server.receive(id, portion, at: now, epoch: epoch))
      }
    case .answered(_, let answer): peers[id]?.answers.append(answer)
    case .arrived(let blob): peers[id]?.blobs.append(blob)
    case .redirected(let url): peers[id]?.redirected = url
    case .state: break
    case .close(let reason):
      peers[id]?.closed = reason
      carryOut(server.disconnected(id, at: now, epoch: epoch))
    }
  }

  private func carryOut(_ intent: SocialServer.Intent) {
    switch intent {
    case .send(let id, let bytes):
      peers[id]?.received += 1
      wire.append(bytes)
      guard var peer = peers[id], peer.isReading else {
        unreadSegments[id, default: []].append(bytes)
        return
      }
      var actions: [ClientAction] = []
      for portion in cut.map({ $0(bytes) }) ?? [bytes] { actions += peer.client.receive(portion) }
      peers[id] = peer
      carryOut(server.wrote(id, bytes.count, at: now, epoch: epoch))
      carryOut(actions, of: id)
    case .ping(let id): if peers[id]?.isReading == true { server.heardPong(id, at: now) }
    case .close(let id, let reason):
      peers[id]?.serverClosed = reason
      guard var peer = peers[id], peer.client.state != .closed else { return }
      let actions = peer.client.disconnected()
      peers[id] = peer
      carryOut(actions, of: id)
    case .perform(let request, let job):
      guard !holdsStore else { return waitingJobs.append((request, job)) }
      groups += 1
      let outcome = engine.perform([request], epoch: epoch)[0]
      carryOut(server.outcome(job, outcome, at: now, epoch: epoch))
    }
  }
}

extension CommandEngine<MemoryBlobStore> {
  /// The next write, or the next commit, fails.
  mutating func failNext(_ failure: StoreError?, commit: StoreError?) {
    (store.failure, store.commitFailure) = (failure, commit)
  }
}
