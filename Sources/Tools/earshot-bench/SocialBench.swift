import ASN
import Common
import Crypto
import Glibc
import LocalSockets
import Loop
import Social
import SocialStore
import Store

/// The social server with its store on a disk, and its clients in the same process, over Unix sockets. The costs of the
/// clients are in the figures. Bare SQLite does the same inserts in C without any of our code:
/// `scripts/bench/sqlite.c`, a program beside this one.
@LoopActor
enum SocialBench {
  private static let sessions = 100
  /// Divisor of all amounts: with `QUICK=1` a hundredth of everything is measured, to try the measurement.
  private static let part = getenv("QUICK") == nil ? 1 : 100
  private static let subscribers = 1000 / part
  private static let quiet = 10_000 / part
  /// Number of blobs in the large store.
  private static let stored = 1_000_000 / part
  /// Length of the content of each blob, in octets.
  private static let content = 200

  struct NotRun: Error {
    let reason: String
  }

  static func run() async throws -> [Figure] {
    // The folder for temporary files may be in memory, where a durable write costs nothing.
    guard let top = getcwd(nil, 0) else { throw NotRun(reason: "The working directory cannot be read.") }
    defer { free(top) }
    let folder = "\(String(cString: top))/.build/social-bench.\(getpid())"
    mkdir(folder, 0o700)
    defer { remove(folder) }
    var figures = try await serve("\(folder)/server")
    figures += try bare(folder)
    figures += try await quietSessions()
    figures += try largeStore("\(folder)/large")
    return figures
  }

  private static func remove(_ folder: String) {
    if let process = try? Process("rm", ["-rf", folder]) { process.wait() }
  }

  private static func seconds(since start: Instant) -> Double {
    start.duration(to: EventLoop.shared.now) / .seconds(1)
  }

  // MARK: A server with a store on the disk

  private static func serve(_ folder: String) async throws -> [Figure] {
    mkdir(folder, 0o700)
    let store = try SQLiteBlobStore(in: StateDirectory(path: folder))
    let stand = BenchServer(store)
    let path = "\(folder)/asn.sock"
    let address = ListenAddress(.unix(path: path))
    try stand.service.listen(at: address, using: SocketListener())
    var figures: [Figure] = []

    var start = EventLoop.shared.now
    var clients: [BenchClient] = []
    for _ in 0..<sessions { clients.append(try BenchClient(stand, address)) }
    for client in clients { try await client.open() }
    figures.append(
      .more("social: first logins, with keys, per second", Double(sessions) / seconds(since: start), "1/s"))
    let users = clients.map(\.keys)
    for client in clients { client.client.close() }
    start = EventLoop.shared.now
    clients = []
    for keys in users { clients.append(try BenchClient(stand, address, keys)) }
    for client in clients { try await client.open() }
    figures.append(.more("social: logins per second, 100 sessions", Double(sessions) / seconds(since: start), "1/s"))

    let echoes = 20_000 / part
    start = EventLoop.shared.now
    try await Self.all(clients, each: max(1, echoes / sessions), Command(["echo", "hello"]))
    figures.append(.more("social: echo per second, 100 sessions", Double(echoes) / seconds(since: start), "1/s"))

    let text = [UInt8](repeating: 120, count: content)
    start = EventLoop.shared.now
    let one = 500 / part
    for number in 0..<one { try await clients[0].exec(Command(["blob", "one/\(number % 50)"], input: text)) }
    figures.append(
      .more("social: blobs stored per second, 1 session", Double(one) / seconds(since: start), "1/s"))
    let many = 20_000 / part
    start = EventLoop.shared.now
    try await Self.all(clients, each: max(1, many / sessions), Command(["blob", "many"], input: text))
    figures.append(
      .more("social: blobs stored per second, 100 sessions", Double(many) / seconds(since: start), "1/s"))
    for client in clients { client.client.close() }
    figures += try await fanOut()
    await withCheckedContinuation { (continuation: CheckedContinuation<Void, Never>) in
      stand.service.stop { continuation.resume() }
    }
    return figures
  }

  /// Lets each client send its requests one after the other, and all clients at the same time.
  private static func all(_ clients: [BenchClient], each: Int, _ command: Command) async throws {
    let rally = Rally(command, clients.count)
    await withCheckedContinuation { (continuation: CheckedContinuation<Void, Never>) in
      rally.then = { continuation.resume() }
      for client in clients { rally.next(client, each) }
    }
    if let failure = rally.failure { throw NotRun(reason: failure) }
  }

  /// The clients that have requests left.
  @LoopActor
  private final class Rally {
    private let command: Command
    private var open: Int
    private(set) var failure: String?
    var then: @LoopActor () -> Void = {}

    init(_ command: Command, _ count: Int) { (self.command, open) = (command, count) }

    func next(_ client: BenchClient, _ left: Int) {
      guard left > 0, failure == nil else {
        open -= 1
        if open == 0 { then() }
        return
      }
      client.client.exec(command) { [self] result in
        if case .success(let answer) = result, answer.result == .success {
        } else {
          failure = "\(result)"
        }
        next(client, left - 1)
      }
    }
  }

  // MARK: Sessions in memory

  /// Time for one message to a forum whose subscribers each have a session, until the last session has it.
  private static func fanOut() async throws -> [Figure] {
    let stand = BenchServer(MemoryBlobStore())
    var clients: [MemoryClient] = []
    for _ in 0...subscribers { clients.append(try await MemoryClient.established(stand)) }
    let author = clients.removeLast()
    let keys = try await author.exec(Command(["newuser", "forum"]))
    let lines = String(decoding: keys, as: UTF8.self).split(separator: "\n")
    guard lines.count > 1, let forum = lines[1].split(separator: " ").last else { throw NotRun(reason: "no forum") }
    let members = clients.flatMap(\.user.bytes)
    _ = try await author.exec(Command(["blob", "\(forum)/asn/subscribers"], input: members))
    let rounds = 5
    var best = Double.infinity
    for round in 1...rounds {
      let start = EventLoop.shared.now
      _ = try await author.exec(Command(["blob", String(forum)], input: [UInt8](repeating: 120, count: content)))
      while clients.contains(where: { $0.blobs < round }) { await Self.turn() }
      best = min(best, seconds(since: start))
    }
    return [.less("social: a message to \(subscribers) subscribers arrived", best * 1000, "ms")]
  }

  /// Memory of sessions that are logged in and idle, without the clients' side and the kernel's buffers.
  private static func quietSessions() async throws -> [Figure] {
    let stand = BenchServer(MemoryBlobStore())
    func resident() -> Double {
      ProcessMemory.giveBackFreed()
      return Double(Process.ownStatus("RssAnon")) * 1024
    }
    // The first sessions also allocate the memory that all sessions share.
    var streams = [try await MemoryClient.established(stand).stream]
    let before = resident()
    for _ in 0..<quiet {
      let client = try await MemoryClient.established(stand)
      client.forget()
      streams.append(client.stream)
    }
    let each = (resident() - before) / Double(quiet)
    withExtendedLifetime(streams) {}
    return [.less("social: memory of one of \(quiet) idle sessions", each / 1024, "KiB")]
  }

  static func turn() async {
    await withCheckedContinuation { (continuation: CheckedContinuation<Void, Never>) in
      EventLoop.shared.soon { continuation.resume() }
    }
  }

  // MARK: A large store

  /// Time of `ls` and `fetch` in a store of a million blobs, an equal part for each of 100 users.
  private static func largeStore(_ folder: String) throws -> [Figure] {
    mkdir(folder, 0o700)
    var store = try SQLiteBlobStore(in: StateDirectory(path: folder))
    var random = SystemRandom()
    var users: [UserKey] = []
    let each = stored / 100
    for _ in 0..<100 {
      let user = try UserKey(random.bytes(32))
      users.append(user)
      let kind = Blob(
        owner: user, author: user, epoch: 1, name: .user, content: Array("actual".utf8), random: random.bytes(32))
      try store.apply([
        .insert(kind), .link(Link(owner: user, name: BlobName.user.text, sum: kind.sum, epoch: 1)),
      ])
      for start in stride(from: 0, to: each, by: 1000) {
        var changes: [StoreChange] = []
        for number in 0..<min(1000, each) {
          let name = try BlobName("notes/\(start / 1000)/\(number)")
          let blob = Blob(
            owner: user, author: user, epoch: UInt64(number + 1), name: name, content: [UInt8(number & 0xFF)],
            random: random.bytes(32))
          changes += [
            .insert(blob), .link(Link(owner: user, name: name.text, sum: blob.sum, epoch: blob.header.epoch)),
          ]
        }
        try store.apply(changes)
        try store.commit()
      }
    }
    let key = X25519.PrivateKey(randomFrom: &random)
    let authentication = Ed25519.PrivateKey(randomFrom: &random)
    let service = UserKey(key.publicKey)
    var engine = CommandEngine(
      configuration: CommandEngine<SQLiteBlobStore>.Configuration(
        service: service, serviceAuthentication: authentication.publicKey), store: store, random: SystemRandom())
    func request(_ kind: StoreRequest.Kind) -> StoreRequest {
      StoreRequest(
        session: SessionID(1), login: Login(service, .admin), ephemeral: service, dialect: .seed, kind: kind)
    }
    func milliseconds(_ body: () throws -> Void) rethrows -> Double {
      var best = Double.infinity
      for _ in 0..<5 {
        let start = EventLoop.shared.now
        try body()
        best = min(best, seconds(since: start) * 1000)
      }
      return best
    }
    func perform(_ kind: StoreRequest.Kind) throws -> StoreOutcome {
      let outcome = engine.perform([request(kind)], epoch: 1 << 60)[0]
      guard outcome.result == .success else { throw NotRun(reason: String(decoding: outcome.data, as: UTF8.self)) }
      return outcome
    }
    let user = users[50].hex
    let one = try milliseconds { _ = try perform(.exec(Command(["ls", "\(user)/notes/0/50"]))) }
    let directory = try milliseconds { _ = try perform(.exec(Command(["ls", "\(user)/notes/0"]))) }
    let fetch = try milliseconds {
      let sums = try perform(.exec(Command(["fetch", "\(user)/notes/0"]))).stream
      var rest = sums[...]
      while !rest.isEmpty {
        let loaded = try perform(.load(Array(rest), budget: 1 << 20))
        guard loaded.consumed > 0 else { throw NotRun(reason: "nothing was loaded") }
        rest = rest.dropFirst(loaded.consumed)
      }
    }
    engine.store.close()
    store = engine.store
    return [
      .less("social: ls of one name among \(stored) blobs", one, "ms"),
      .less("social: ls of \(min(1000, stored / 100)) names among \(stored) blobs", directory, "ms"),
      .less("social: fetch of \(min(1000, stored / 100)) blobs among \(stored)", fetch, "ms"),
    ]
  }

  // MARK: Bare SQLite

  private static func bare(_ folder: String) throws -> [Figure] {
    let own = Swift.CommandLine.arguments.first ?? ""
    let directory = own.lastIndex(of: "/").map { String(own[..<$0]) } ?? "."
    func rate(_ count: Int, _ group: Int) throws -> Double {
      let output = "\(folder)/figures"
      let process = try Process(
        "\(directory)/sqlite", ["\(folder)/bare.db", "\(count)", "\(group)", "\(content + 120)"], output: output)
      process.wait()
      guard let file = fopen(output, "r") else { return 0 }
      defer { fclose(file) }
      var line = [CChar](repeating: 0, count: 64)
      guard fgets(&line, 64, file) != nil else { return 0 }
      return atof(line)
    }
    return [
      .more("bare SQLite, one insert for each commit", try rate(500, 1), "1/s"),
      .more("bare SQLite, 100 inserts for each commit", try rate(20_000, 100), "1/s"),
    ]
  }
}

/// A server whose limits are above the measured amounts.
@LoopActor
private final class BenchServer<Store: BlobStore> {
  let service: SocialService<Store>
  let encryption: X25519.PrivateKey
  let nonce = [UInt8](repeating: 7, count: 24)

  init(_ store: Store) {
    var random = SystemRandom()
    encryption = X25519.PrivateKey(randomFrom: &random)
    let authentication = Ed25519.PrivateKey(randomFrom: &random)
    var session = ServerSession.Configuration(encryption: encryption, nonce: nonce)
    (session.commands, session.burst) = (1_000_000, 1_000_000)
    (session.keyTime, session.loginTime) = (.seconds(600), .seconds(600))
    var configuration = SocialServer.Configuration(session: session)
    (configuration.sessions, configuration.sessionsPerAddress) = (20_000, 20_000)
    (configuration.strangers, configuration.blobs) = (20_000, 1_000_000)
    // All clients have one address, and the time for a fan-out is measured without a user's allowance.
    (configuration.newUsersPerAddress, configuration.fanOut) = (1_000_000, 1 << 40)
    var rules = CommandEngine<Store>.Configuration(
      service: UserKey(encryption.publicKey), serviceAuthentication: authentication.publicKey)
    rules.newUsers = .anyone
    let clock = SystemWallClock()
    let epoch: @LoopActor () -> UInt64 = { UInt64(max(0, clock.nanoseconds)) }
    service = SocialService(
      server: SocialServer(configuration: configuration, random: random),
      worker: StoreWorker(
        CommandEngine(configuration: rules, store: store, random: random), worker: SerialWorker("store"), epoch: epoch),
      scheduler: EventLoop.shared, epoch: epoch)
  }

  func configuration(_ keys: BenchKeys, isNew: Bool) -> ClientSession.Configuration {
    var configuration = ClientSession.Configuration(
      service: encryption.publicKey, nonce: nonce, user: keys.user, authentication: keys.authentication)
    configuration.isNewUser = isNew
    return configuration
  }
}

private struct BenchKeys: Sendable {
  let user: UserKey
  let authentication: Ed25519.PrivateKey

  init() {
    var random = SystemRandom()
    user = UserKey(X25519.PrivateKey(randomFrom: &random).publicKey)
    authentication = Ed25519.PrivateKey(randomFrom: &random)
  }
}

/// A client of the social server over a Unix socket.
@LoopActor
private final class BenchClient {
  let keys: BenchKeys
  let client: SocialClient
  private var state: Bool?
  private var reason = ""
  private var waiting: CheckedContinuation<Void, Never>?

  /// - Parameter keys: keys of a known user; nil if a new user logs in for the first time.
  init<Store: BlobStore>(_ server: BenchServer<Store>, _ address: ListenAddress, _ keys: BenchKeys? = nil) throws {
    self.keys = keys ?? BenchKeys()
    client = SocialClient(
      to: address, server.configuration(self.keys, isNew: keys == nil), scheduler: EventLoop.shared)
    client.onEvent = { [weak self] event in
      guard let self else { return }
      switch event {
      case .state(.established): state = true
      case .ended(let sentence):
        reason = sentence
        state = state ?? false
      default: return
      }
      waiting?.resume()
      waiting = nil
    }
    try client.start()
  }

  func open() async throws {
    if state == nil { await withCheckedContinuation { waiting = $0 } }
    guard state == true else { throw SocialBench.NotRun(reason: "a login failed: \(reason)") }
  }

  func exec(_ command: Command) async throws {
    let result = await withCheckedContinuation { continuation in
      client.exec(command) { continuation.resume(returning: $0) }
    }
    guard case .success(let answer) = result, answer.result == .success else {
      throw SocialBench.NotRun(reason: "\(result)")
    }
  }
}

/// A client without a socket: what the server sends goes to the client's session at once.
@LoopActor
private final class MemoryClient {
  let stream = MemoryStream()
  let user: UserKey
  private(set) var blobs = 0
  private var session: ClientSession
  private var answers: [Acknowledgement] = []
  private var waiting: CheckedContinuation<Void, Never>?

  static func established<Store: BlobStore>(_ server: BenchServer<Store>) async throws -> MemoryClient {
    let client = MemoryClient(server.configuration(BenchKeys(), isNew: true))
    server.service.accept(client.stream, address: "bench")
    client.carryOut(client.session.start())
    client.carryOut(try client.session.logIn())
    while client.session.state != .established {
      guard client.session.state != .closed else { throw SocialBench.NotRun(reason: "a session was closed") }
      await withCheckedContinuation { client.waiting = $0 }
    }
    client.answers = []
    return client
  }

  private init(_ configuration: ClientSession.Configuration) {
    user = configuration.user
    var random = SystemRandom()
    session = ClientSession(configuration: configuration, random: &random)
    stream.onOutput = { [weak self] bytes in
      guard let self else { return }
      carryOut(session.receive(bytes))
      waiting?.resume()
      waiting = nil
    }
  }

  /// Drops further output of the server to this client.
  func forget() { stream.onOutput = { _ in } }

  func exec(_ command: Command) async throws -> [UInt8] {
    carryOut(try session.exec(command).actions)
    while answers.isEmpty { await withCheckedContinuation { waiting = $0 } }
    let answer = answers.removeFirst()
    guard answer.result == .success else { throw SocialBench.NotRun(reason: answer.text) }
    return answer.data
  }

  private func carryOut(_ actions: [ClientAction]) {
    for action in actions {
      switch action {
      case .send(let bytes): stream.arrive(bytes)
      case .answered(_, let answer): answers.append(answer)
      case .arrived: blobs += 1
      case .state, .redirected, .close: break
      }
    }
  }
}

/// The server's end of a connection in memory.
@LoopActor
private final class MemoryStream: StreamConnection {
  var onEvent: @LoopActor (StreamEvent) -> Void = { _ in }
  var isReading = true { didSet { if isReading { deliver() } } }
  var onOutput: @LoopActor ([UInt8]) -> Void = { _ in }
  private var input: [[UInt8]] = []

  func send(_ bytes: [UInt8]) {
    EventLoop.shared.soon { [weak self] in
      self?.onEvent(.written(bytes.count))
      self?.onOutput(bytes)
    }
  }

  func close() { onEvent = { _ in } }

  func arrive(_ bytes: [UInt8]) {
    input.append(bytes)
    deliver()
  }

  private func deliver() {
    EventLoop.shared.soon { [weak self] in
      guard let self, isReading, !input.isEmpty else { return }
      onEvent(.received(input.removeFirst()))
      deliver()
    }
  }
}
