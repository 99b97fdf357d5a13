import ASN
import Common
import LocalSockets
import Loop
import SocialStore
import Streams
import TLS

/// A running ASN server: it owns the sessions, the store and the timers, and executes the intents of the sessions.
@LoopActor
public final class SocialService<Store: BlobStore> {
  private let worker: StoreWorker<Store>
  private let scheduler: any Scheduler
  private let epoch: @LoopActor () -> UInt64
  private var server: SocialServer
  private var connections: [SessionID: any StreamConnection] = [:]
  /// The session that made each request that is in the store.
  private var jobs: [UInt64: SessionID] = [:]
  private var listeners: [ListenAddress: [Registration]] = [:]
  private var inherited: [Registration] = []
  private var inheritedAddresses: [ListenAddress] = []
  /// Connections in the handshake of WebSocket.
  private var greetings: [UInt64: (greeting: WebSocketGreeting, peer: StreamPeer)] = [:]
  private var lastGreeting: UInt64 = 0
  /// Requests of this machine's operator that are in the store.
  private var ownJobs: [UInt64: @LoopActor (StoreOutcome) -> Void] = [:]
  private var lastOwnJob: UInt64 = 1 << 63
  private var isStopped = false
  /// Called when the last session has ended, after `stop`.
  private var onRest: (@LoopActor () -> Void)?
  /// Whether no connection is read, because requests use as much memory as they may.
  private var isCrowded = false
  private lazy var timer = Deadline(scheduler) { [weak self] in self?.timeHasCome() }

  /// Called when the store begins to fail, and with nil when it works again.
  public var onTrouble: @LoopActor (ASN.StoreError?) -> Void = { _ in }
  /// Called with each connection that ends, and the reason.
  public var onClosed: @LoopActor (SessionID, CloseReason) -> Void = { _, _ in }
  /// Called after each request that the store has executed.
  public var onActivity: @LoopActor () -> Void = {}
  private var trouble: ASN.StoreError?

  /// The certificate for future connections to `wss:` addresses; nil closes them.
  public var identity: TLSIdentity?

  /// Number of connections that were refused before or during the handshake of WebSocket.
  public private(set) var refusedUpgrades: UInt64 = 0

  private static var greetingLimit: Int { 256 }
  private static var greetingsOfOnePeer: Int { 16 }

  /// Makes a server.
  ///
  /// - Parameter epoch: returns the time in nanoseconds since 1970.
  public init(
    server: SocialServer, worker: StoreWorker<Store>, scheduler: any Scheduler, epoch: @escaping @LoopActor () -> UInt64
  ) {
    (self.server, self.worker, self.scheduler, self.epoch) = (server, worker, scheduler, epoch)
    worker.onOutcomes = { [weak self] outcomes in
      for (job, outcome) in outcomes { self?.take(outcome, of: job) }
    }
  }

  public var counters: SocialServer.Counters { server.counters }
  public var sessionCount: Int { server.sessionCount }
  /// The users that are logged in; a user is listed once for each of its sessions.
  public var users: [UserKey] { server.users }

  // MARK: Connections

  /// Listens at an address for the lifetime of the service. An address of the service manager is refused.
  ///
  /// - Parameters:
  ///   - hosts: the numeric addresses of the host, if it is a name.
  ///   - mode: the permissions of a Unix socket. Every local user may connect, as to a TCP port, because clients log
  ///     in.
  /// - Throws: the first error. Hosts at which the service already listens stay.
  public func listen(
    at address: ListenAddress, hosts: [String] = [], mode: UInt32 = 0o666, using port: any LocalListening
  ) throws(ListenError) {
    guard listeners[address] == nil else { return }
    switch address.place {
    case .unix(let path):
      listeners[address] = [try port.listen(at: path, mode: mode) { [weak self] in self?.take($0, .user($1), address) }]
    case .tcp(let host, let number), .webSocket(let host, let number, _, _):
      var opened: [Registration] = []
      defer { if !opened.isEmpty { listeners[address] = opened } }
      for host in hosts.isEmpty ? [host] : hosts {
        opened.append(try port.listen(atHost: host, port: number) { [weak self] in self?.take($0, $1, address) })
      }
    case .inherited(let name, _, _): throw .badAddress(name)
    }
  }

  /// Listens at a socket that the service manager passed; the descriptor is closed with the service.
  public func listen(on descriptor: Int32, address: ListenAddress) {
    inherited.append(SocketListener().listen(on: descriptor) { [weak self] in self?.take($0, $1, address) })
    inheritedAddresses.append(address)
  }

  /// The addresses at which the service listens.
  public var addresses: [ListenAddress] { listeners.keys.sorted { $0.text < $1.text } + inheritedAddresses }

  private func take(_ connection: any StreamConnection, _ peer: StreamPeer, _ address: ListenAddress) {
    guard let path = address.webSocketPath else {
      return accept(connection, address: peer.description, dialect: address.dialect)
    }
    greet(connection, path: path, peer: peer, dialect: address.dialect, isSecure: address.isSecure)
  }

  /// Handles a connection whose client begins with the handshake of WebSocket.
  ///
  /// - Parameter isSecure: whether a TLS handshake precedes it. Both handshakes share one time limit.
  public func greet(
    _ connection: any StreamConnection, path: String, peer: StreamPeer, dialect: Dialect = .seed, isSecure: Bool = false
  ) {
    if !isStopped, greetings.count >= Self.greetingLimit { closeGreeting(for: peer) }
    guard !isStopped, greetings.count < Self.greetingLimit,
      greetings.values.count(where: { $0.peer == peer }) < Self.greetingsOfOnePeer
    else {
      refusedUpgrades += 1
      return connection.close()
    }
    lastGreeting += 1
    let number = lastGreeting
    var connection = connection
    if isSecure {
      guard let identity, let session = TLSCertificateSession(identity) else {
        refusedUpgrades += 1
        return connection.close()
      }
      connection = TLSStream(connection, session)
    }
    let greeting = WebSocketGreeting(connection, path: path, scheduler: scheduler) { [weak self] outcome in
      guard let self else { return }
      greetings[number] = nil
      switch outcome {
      case .accepted(let stream, let rest):
        accept(stream, address: peer.description, dialect: dialect, isFramed: true)
        stream.receive(rest)
      case .refused: refusedUpgrades += 1
      case .disconnected: break
      }
    }
    greetings[number] = (greeting, peer)
  }

  /// Closes the oldest connection in the handshake of the peer that has the most, unless that is not more than one
  /// above the number of the given peer.
  private func closeGreeting(for peer: StreamPeer) {
    var counts: [StreamPeer: Int] = [:]
    for (_, peer) in greetings.values { counts[peer, default: 0] += 1 }
    guard let most = counts.values.max(), most > (counts[peer] ?? 0) + 1,
      let oldest = greetings.filter({ counts[$0.value.peer] == most }).keys.min()
    else { return }
    refusedUpgrades += 1
    greetings.removeValue(forKey: oldest)?.greeting.close()
  }

  /// Handles a connection.
  ///
  /// - Parameters:
  ///   - address: the key by which connections are counted.
  ///   - isFramed: whether each event `received` is a frame.
  public func accept(
    _ connection: any StreamConnection, address: String, dialect: Dialect = .seed, isFramed: Bool = false
  ) {
    if !isStopped { carryOut(server.makeRoom(for: address, at: scheduler.now, epoch: epoch())) }
    guard !isStopped,
      let id = server.open(address: address, dialect: dialect, isFramed: isFramed, at: scheduler.now)
    else { return connection.close() }
    connections[id] = connection
    connection.onEvent = { [weak self] event in self?.handle(event, of: id) }
    timer.set(server.deadline)
  }

  /// Stops listening, and redirects all clients to a URL; if it is empty, to the same server. Pending requests are
  /// still executed. `then` is called when they are and all output is sent, or 10 s later.
  public func stop(redirectingTo url: String = "", then: @escaping @LoopActor () -> Void = {}) {
    isStopped = true
    (listeners, inherited, inheritedAddresses) = ([:], [], [])
    for (greeting, _) in greetings.values { greeting.close() }
    greetings = [:]
    carryOut(server.redirectAll(to: url, at: scheduler.now, epoch: epoch()))
    // The store has carried out all earlier requests by then.
    worker.run({ _, _ in }, then: { [weak self] _ in self?.finish(then) })
  }

  private func finish(_ then: @escaping @LoopActor () -> Void) {
    guard worker.isIdle else { return worker.run({ _, _ in }, then: { [weak self] _ in self?.finish(then) }) }
    onRest = then
    checkRest()
  }

  private func checkRest() {
    guard server.sessionCount == 0, let report = onRest else { return }
    onRest = nil
    timer.set(nil)
    report()
  }

  private func handle(_ event: StreamEvent, of id: SessionID) {
    let (now, time) = (scheduler.now, epoch())
    switch event {
    case .received(let bytes): carryOut(server.receive(id, bytes, at: now, epoch: time))
    case .written(let count): carryOut(server.wrote(id, count, at: now, epoch: time))
    case .pong:
      server.heardPong(id, at: now)
      timer.set(server.deadline)
    case .ended: carryOut(server.disconnected(id, at: now, epoch: time))
    }
    update(id)
  }

  // MARK: The operator of this machine

  /// Executes a request that no session made, and pushes its blobs to the sessions.
  ///
  /// - Parameters:
  ///   - login: the user of the request.
  ///   - then: called once with the outcome, when its changes are durable.
  public func perform(
    _ kind: StoreRequest.Kind, by login: Login, then: @escaping @LoopActor (StoreOutcome) -> Void
  ) {
    lastOwnJob += 1
    ownJobs[lastOwnJob] = then
    let request = StoreRequest(
      session: .operator, login: login, ephemeral: login.key, dialect: .seed, kind: kind)
    worker.perform(request, job: lastOwnJob)
  }

  /// Runs other work with the store's engine, on the thread of the store.
  public func run<Value: Sendable>(
    _ work: @escaping @Sendable (inout CommandEngine<Store>, UInt64) -> Value,
    then: @escaping @LoopActor (Value) -> Void
  ) {
    worker.run(work, then: then)
  }

  /// The time in nanoseconds since 1970.
  public var time: UInt64 { epoch() }

  // MARK: Intents

  private func carryOut(_ intents: [SocialServer.Intent]) {
    var changed: Set<SessionID> = []
    for intent in intents {
      switch intent {
      case .send(let id, let bytes):
        connections[id]?.send(bytes)
        changed.insert(id)
      case .ping(let id):
        connections[id]?.ping()
        changed.insert(id)
      case .close(let id, let reason):
        // Output that waits for a slow client is dropped, because it uses memory. Otherwise all output is written.
        let connection = connections.removeValue(forKey: id)
        if reason.dropsOutput { connection?.abort() } else { connection?.close() }
        onClosed(id, reason)
      case .perform(let request, let job):
        jobs[job] = request.session
        changed.insert(request.session)
        worker.perform(request, job: job)
      }
    }
    if server.isCrowded != isCrowded {
      isCrowded = server.isCrowded
      changed = Set(connections.keys)
    }
    for id in changed { update(id) }
    timer.set(server.deadline)
    checkRest()
  }

  private func take(_ outcome: StoreOutcome, of job: UInt64) {
    if let report = ownJobs.removeValue(forKey: job) {
      carryOut(server.deliver(outcome, at: scheduler.now, epoch: epoch()))
      report(outcome)
    } else {
      let id = jobs.removeValue(forKey: job)
      carryOut(server.outcome(job, outcome, at: scheduler.now, epoch: epoch()))
      if let id { update(id) }
    }
    onActivity()
    guard server.trouble != trouble else { return }
    trouble = server.trouble
    onTrouble(trouble)
  }

  /// Pauses or resumes reading for a session. Unread octets stay with the peer.
  private func update(_ id: SessionID) {
    connections[id]?.isReading = !server.isHolding(id)
  }

  private func timeHasCome() {
    carryOut(server.timer(at: scheduler.now, epoch: epoch()))
    for id in connections.keys { update(id) }
  }
}
