import Common
import Crypto

/// All sessions of a server. It decides who may connect, in which order requests go to the store, and which sessions
/// get a push.
///
/// Requests to the store are intents, because the store works on a separate thread. The caller passes them to a
/// `CommandEngine` in the order of the intents, lets it commit, and returns the outcomes in the same order.
public struct SocialServer: Sendable {
  public struct Configuration: Sendable {
    public var session: ServerSession.Configuration
    public var sessions = 1000
    public var sessionsPerUser = 8
    public var sessionsPerAddress = 16
    /// Maximum number of connections that are not logged in. Beyond it, the address with the most of them loses one to
    /// an address that has fewer.
    public var strangers = 256
    /// Maximum number of failed logins in a minute from one address. Above it the address's connections are refused for
    /// `refusalTime`.
    public var failedLogins = 5
    public var refusalTime = Duration.seconds(600)
    /// Maximum memory of all sessions together, in octets: waiting output, incomplete input, requests, answers and
    /// pushed blobs. Beyond it the session that uses most is closed. A quarter of it is for requests; beyond it no
    /// session is read. Another quarter is for answers of the store; beyond it requests wait.
    public var held = 256 * 1024 * 1024
    /// Maximum memory of each user's sessions, in octets. Beyond it the user's session that uses most is closed.
    public var heldPerUser = 64 * 1024 * 1024
    /// Maximum length of an answer of the store, in octets.
    public var answer = 1024 * 1024
    /// Maximum number of octets that the blobs of one user may cause to be sent to other sessions, in a second and at
    /// one moment. Beyond it, further blobs of the user wait.
    public var fanOut = 64 * 1024 * 1024
    /// Maximum number of users that first logins from one address may make in a minute.
    public var newUsersPerAddress = 20
    /// Maximum number of new blobs of each user in a second.
    public var blobs = 20
    /// Number of names per second, and at one moment, that the server may compare with the references of one user.
    public var lookups = Limits.lookups * Limits.namesInLookup

    public init(session: ServerSession.Configuration) { self.session = session }
  }

  public enum Intent: Sendable {
    case send(SessionID, [UInt8])
    case ping(SessionID)
    /// Close a connection. The transport first writes all earlier output, unless the reason drops the output.
    case close(SessionID, CloseReason)
    case perform(StoreRequest, job: UInt64)
  }

  /// Counters of events since the server was created.
  public struct Counters: Hashable, Sendable {
    public var accepted: UInt64 = 0
    public var refused: UInt64 = 0
    public var logins: UInt64 = 0
    public var failedLogins: UInt64 = 0
    /// Connections that violated the protocol: by segments, PDUs or keys.
    public var malformed: UInt64 = 0
    /// Blobs that were dropped because they were not permitted, malformed, or still delayed by the rate limit at the
    /// end of the connection.
    public var droppedBlobs: UInt64 = 0
    public var pushes: UInt64 = 0
    /// Sessions that were closed because too much output waited.
    public var slow: UInt64 = 0
    public var redirected: UInt64 = 0
    public var delayed: UInt64 = 0

    public init() {}
  }

  private struct Entry {
    var session: ServerSession
    let address: String
    var name: String?
    /// Whether blobs are pushed to the session, because it is logged in and not paused.
    var isLoggedIn = false
    /// Whether the session has been logged in at any time.
    var isKnown = false
    /// Requests that wait for their user's rate limit, or for memory for their answers.
    var queue = Fifo<Job>()
    /// Octets that are reserved for answers of the store.
    var reserved = 0
  }
  private struct Job {
    let request: StoreRequest
    let number: UInt64
  }
  private struct Origin {
    let session: SessionID
    let slot: UInt64?
    let user: UserKey?
    /// Size of the request, in octets.
    let octets: Int
    /// Octets that are reserved for the answer of the store to this request.
    var reserved = 0
    /// Whether the request is its user's lookup in progress.
    var isLookup = false
    /// The request, if the store executes it in portions, and the answers of its earlier portions.
    var repeated: StoreRequest?
    var data: [UInt8] = []
  }
  /// The rate limits of a user.
  private struct Rate {
    var blobs: TokenBucket
    var fanOut: TokenBucket
    var lookups: TokenBucket

    func isFull(at now: Instant) -> Bool {
      blobs.isFull(at: now) && fanOut.isFull(at: now) && lookups.isFull(at: now)
    }
  }
  private struct Failures {
    var bucket: TokenBucket
    /// Remaining number of users that the address may make.
    var newUsers: TokenBucket
    var refusedUntil: Instant?
    var last: Instant
  }

  private let configuration: Configuration
  private var random: AnyRandom
  private var entries: [SessionID: Entry] = [:]
  private var jobs: [UInt64: Origin] = [:]
  private var rates: [UserKey: Rate] = [:]
  private var failures: [String: Failures] = [:]
  private var accepted = AcceptedKeys()
  /// The ephemeral keys of the clients of all open sessions, none of which may be used again.
  private var live: Set<UserKey> = []
  private var lastSession: UInt64 = 0
  private var lastJob: UInt64 = 0
  private var nextTimer: Instant?
  private var memory = MemoryAccount()
  /// Sessions whose next request waits for memory for the answer, or for an earlier lookup of the same user.
  private var blocked: Set<SessionID> = []
  /// Users with a lookup in progress. A user has one lookup at a time, so that requests of other users run in between.
  private var lookingUp: Set<UserKey> = []
  public private(set) var counters = Counters()
  /// The last error of the store; nil if a change succeeded after a minute without an error.
  public private(set) var trouble: StoreError?
  private var troubledAt = Instant.zero

  /// Time without an error after which `trouble` is reset: a store that is nearly full refuses large blobs and accepts
  /// small ones.
  private static let recoveryTime = Duration.seconds(60)

  /// Maximum number of addresses with a record of failed logins.
  private static let addresses = 4096

  public init(configuration: Configuration, random: any RandomSource & Sendable) {
    (self.configuration, self.random) = (configuration, AnyRandom(random))
  }

  public var sessionCount: Int { entries.count }
  public var loggedIn: Int { entries.values.count(where: \.isLoggedIn) }
  /// The users that are logged in, in ascending order; a user is listed once for each of its sessions.
  public var users: [UserKey] { entries.values.filter(\.isLoggedIn).compactMap { $0.session.login?.key }.sorted() }

  public func state(of id: SessionID) -> SessionState? { entries[id]?.session.state }

  /// Whether the transport of a session must not read more for now.
  public func isHolding(_ id: SessionID) -> Bool { isCrowded || entries[id]?.session.isHolding ?? true }

  /// Whether requests use their maximum memory, so that no session is read.
  public var isCrowded: Bool { memory.requests > configuration.held / 4 }

  /// Memory of all sessions, in octets.
  public var held: Int { memory.total }

  /// Time at which the event `timer` is due.
  public var deadline: Instant? { nextTimer }

  // MARK: Connections

  /// Closes an existing connection if a new connection from this address would be refused otherwise. Call it before
  /// `open`.
  ///
  /// At the limits of sessions, the method closes the oldest session that has been logged in for the idle time and is
  /// not confirmed. The client of such a session only receives, or its login is a replay. At the limit of connections
  /// without a login, it closes the oldest of the address with the most, if the address of the new one has fewer.
  public mutating func makeRoom(for address: String, at now: Instant, epoch: UInt64) -> [Intent] {
    guard !isRefused(address, at: now) else { return [] }
    let own = entries.filter { $0.value.address == address }
    let isFull = entries.count >= configuration.sessions
    let isAddressFull = own.count >= configuration.sessionsPerAddress
    if isFull || isAddressFull {
      let yielding = (isAddressFull ? own : entries).filter { $0.value.session.yields.map { $0 <= now } ?? false }
      return displace(yielding.keys.min(), at: now, epoch)
    }
    let strangers = entries.filter { $0.value.session.login == nil }
    guard strangers.count >= configuration.strangers else { return [] }
    var counts: [String: Int] = [:]
    for entry in strangers.values { counts[entry.address, default: 0] += 1 }
    guard let most = counts.max(by: { ($0.value, $0.key) < ($1.value, $1.key) }),
      most.value > (counts[address] ?? 0) + 1
    else { return [] }
    return displace(strangers.filter { $0.value.address == most.key }.keys.min(), at: now, epoch)
  }

  private mutating func displace(_ id: SessionID?, at now: Instant, _ epoch: UInt64) -> [Intent] {
    guard let id else { return [] }
    return change(id, at: now, epoch) { session, _ in session.end(.displaced) }
  }

  private func isRefused(_ address: String, at now: Instant) -> Bool {
    failures[address]?.refusedUntil.map { now < $0 } ?? false
  }

  /// Opens a new connection; nil if it is refused.
  ///
  /// - Parameters:
  ///   - address: the key by which connections are counted, for example an IP address, or the user ID at a Unix socket.
  ///   - isFramed: whether the transport has frames.
  public mutating func open(
    address: String, dialect: Dialect = .seed, isFramed: Bool = true, at now: Instant
  ) -> SessionID? {
    guard !isRefused(address, at: now), entries.count < configuration.sessions,
      entries.values.count(where: { $0.session.login == nil }) < configuration.strangers,
      entries.values.count(where: { $0.address == address }) < configuration.sessionsPerAddress
    else {
      counters.refused += 1
      return nil
    }
    counters.accepted += 1
    lastSession += 1
    let id = SessionID(lastSession)
    var session = configuration.session
    (session.dialect, session.isFramed) = (dialect, isFramed)
    entries[id] = Entry(session: ServerSession(id, configuration: session, at: now), address: address)
    schedule(entries[id]?.session.deadline)
    return id
  }

  /// Handles octets from a transport: a frame, or a portion of any size.
  public mutating func receive(
    _ id: SessionID, _ bytes: some Collection<UInt8>, at now: Instant, epoch: UInt64
  ) -> [Intent] {
    if let key = entries[id]?.session.key(completedBy: bytes), isUsed(key) {
      return change(id, at: now, epoch) { session, _ in session.end(.keyUsed) }
    }
    return change(id, at: now, epoch) { $0.receive(bytes, random: &$1, at: now, epoch: epoch) }
  }

  /// Whether a client's ephemeral key was used before. A genuine client never uses it again.
  private func isUsed(_ key: UserKey) -> Bool {
    accepted.contains(key) || live.contains(key)
  }

  /// Handles the report that a transport has written `count` octets.
  public mutating func wrote(_ id: SessionID, _ count: Int, at now: Instant, epoch: UInt64) -> [Intent] {
    change(id, at: now, epoch) { $0.wrote(count, random: &$1, at: now, epoch: epoch) }
  }

  public mutating func heardPong(_ id: SessionID, at now: Instant) { entries[id]?.session.heardPong(at: now) }

  /// Handles the end of a transport, possibly also for a session that an intent has closed.
  public mutating func disconnected(_ id: SessionID, at now: Instant, epoch: UInt64) -> [Intent] {
    change(id, at: now, epoch) { session, _ in session.disconnected() }
  }

  /// Redirects all clients to a URL; if it is empty, to the same server after at least ten seconds.
  public mutating func redirectAll(to url: String, at now: Instant, epoch: UInt64) -> [Intent] {
    entries.keys.sorted().flatMap { id in
      change(id, at: now, epoch) { session, _ in session.redirect(to: url, epoch: epoch) }
    }
  }

  public mutating func timer(at now: Instant, epoch: UInt64) -> [Intent] {
    guard let due = nextTimer, now >= due else { return [] }
    nextTimer = nil
    var intents: [Intent] = []
    for id in entries.keys.sorted() {
      guard let entry = entries[id] else { continue }
      if let deadline = entry.session.deadline, now >= deadline {
        intents += change(id, at: now, epoch) { $0.timer(random: &$1, at: now, epoch: epoch) }
      }
      intents += drain(id, at: now)
      schedule(entries[id]?.session.deadline)
    }
    // A user that connects again gets no new allowance.
    rates = rates.filter { !$0.value.isFull(at: now) }
    return intents
  }

  // MARK: The store's answers

  /// Handles the outcome of a job. Outcomes come in the order of the jobs.
  public mutating func outcome(
    _ job: UInt64, _ outcome: StoreOutcome, at now: Instant, epoch: UInt64
  ) -> [Intent] {
    if let intents = goOn(job, outcome, at: now) { return intents }
    guard let origin = forget(job) else { return [] }
    note(outcome, at: now)
    let outcome = completed(outcome, origin)
    if let user = origin.user, outcome.lookups > 0 { spendLookups(outcome.lookups, of: user, at: now) }
    if case .provisional? = outcome.login, outcome.isDurable, let address = entries[origin.session]?.address {
      countNewUser(address, at: now)
    }
    if let user = outcome.login?.user, let key = entries[origin.session]?.session.ephemeral {
      accepted.insert(key, of: user)
    }
    var intents: [Intent] = []
    if let slot = origin.slot {
      intents += change(origin.session, at: now, epoch) { $0.answer(slot, outcome, random: &$1, at: now, epoch: epoch) }
    }
    intents += drainBlocked(origin.session, at: now)
    return intents + deliver(outcome.pushes, except: origin.session, by: origin.user, at: now, epoch: epoch)
  }

  /// Requests the next portion of a request from the store, after its earlier portions; returns nil if the request is
  /// complete.
  private mutating func goOn(_ job: UInt64, _ outcome: StoreOutcome, at now: Instant) -> [Intent]? {
    guard let next = outcome.continuation, var origin = jobs[job], var request = origin.repeated else { return nil }
    note(outcome, at: now)
    // More than an answer may have is not stored.
    if origin.data.count <= configuration.answer { origin.data += outcome.data }
    request.continuation = next
    jobs[job] = nil
    lastJob += 1
    jobs[lastJob] = origin
    return [.perform(request, job: lastJob)]
  }

  /// The outcome of a request with the answers of its earlier portions.
  private func completed(_ outcome: StoreOutcome, _ origin: Origin) -> StoreOutcome {
    guard origin.repeated != nil, outcome.result == .success else { return outcome }
    guard origin.data.count + outcome.data.count <= configuration.answer else {
      var refusal = StoreOutcome(
        Refusal(.failure, "The request is carried out, but its answer has more than \(configuration.answer) octets"))
      refusal.isDurable = outcome.isDurable
      return refusal
    }
    var outcome = outcome
    outcome.data = origin.data + outcome.data
    return outcome
  }

  /// Removes a request that no longer waits and is no longer in the store.
  private mutating func forget(_ job: UInt64) -> Origin? {
    guard let origin = jobs.removeValue(forKey: job) else { return nil }
    memory.addRequest(-origin.octets, of: origin.user)
    memory.reserve(-origin.reserved, of: origin.user)
    entries[origin.session]?.reserved -= origin.reserved
    if origin.isLookup, let user = origin.user { lookingUp.remove(user) }
    return origin
  }

  /// Handles the outcome of a request that does not belong to a session.
  public mutating func deliver(_ outcome: StoreOutcome, at now: Instant, epoch: UInt64) -> [Intent] {
    note(outcome, at: now)
    return deliver(outcome.pushes, except: nil, at: now, epoch: epoch)
  }

  private mutating func note(_ outcome: StoreOutcome, at now: Instant) {
    if let trouble = outcome.trouble {
      (self.trouble, troubledAt) = (trouble, now)
    } else if outcome.isDurable, now >= troubledAt.advanced(by: Self.recoveryTime) {
      trouble = nil
    }
  }

  /// Sends each blob to every session that may receive it, except the session that sent it. Each session gets one copy.
  public mutating func deliver(
    _ pushes: [Push], except origin: SessionID?, by user: UserKey? = nil, at now: Instant, epoch: UInt64
  ) -> [Intent] {
    guard !pushes.isEmpty else { return [] }
    var intents: [Intent] = []
    var octets = 0
    defer { if let user, octets > 0 { spend(Double(octets), of: user, at: now) } }
    for id in entries.keys.sorted() where id != origin {
      var sent: Set<Sum> = []
      for push in pushes {
        guard let entry = entries[id], entry.isLoggedIn, let login = entry.session.login, push.isFor(login),
          sent.insert(push.blob.sum).inserted
        else { continue }
        counters.pushes += 1
        octets += push.blob.bytes.count
        memory.hold(push.blob)
        intents += change(id, at: now, epoch) { session, _ in session.push(push.blob, epoch: epoch) }
      }
    }
    return intents
  }

  // MARK: Carrying out what sessions want

  private mutating func change(
    _ id: SessionID, at now: Instant, _ epoch: UInt64, _ body: (inout ServerSession, inout AnyRandom) -> [ServerAction]
  ) -> [Intent] {
    // The session is taken out of the table, so that it is changed in place.
    guard var entry = entries.removeValue(forKey: id) else { return [] }
    memory.add(-entry.session.held, of: entry.session.login?.key)
    entry.session.setClock(now)
    let isNew = entry.session.ephemeral == nil
    let actions = body(&entry.session, &random)
    if isNew, let key = entry.session.ephemeral { live.insert(key) }
    memory.add(entry.session.held, of: entry.session.login?.key)
    entries[id] = entry
    var intents: [Intent] = []
    for action in actions { intents += carryOut(action, of: id, at: now, epoch) }
    if blocked.contains(id) { intents += drain(id, at: now) }
    schedule(entries[id]?.session.deadline)
    return intents + freeMemory(after: id, at: now, epoch)
  }

  /// Closes the session that uses the most memory: of a user that exceeds its share, or of all users.
  private mutating func freeMemory(after id: SessionID, at now: Instant, _ epoch: UInt64) -> [Intent] {
    var candidates: [SessionID: Entry] = [:]
    if let login = entries[id]?.session.login, login.role == .user,
      memory.octets(of: login.key) > configuration.heldPerUser
    {
      candidates = entries.filter { $0.value.session.login == login }
    } else if memory.total > configuration.held {
      candidates = entries
    }
    // Requests that are with the store end by themselves, and closing their session does not free them.
    guard let largest = candidates.max(by: { $0.value.session.footprint < $1.value.session.footprint }),
      largest.value.session.footprint > 0
    else { return [] }
    return change(largest.key, at: now, epoch) { session, _ in session.end(.slow) }
  }

  private mutating func carryOut(
    _ action: ServerAction, of id: SessionID, at now: Instant, _ epoch: UInt64
  ) -> [Intent] {
    switch action {
    case .send(let segment): return [.send(id, segment)]
    case .ping: return [.ping(id)]
    case .perform(var request, let slot):
      if case .login = request.kind { request.mayMakeUser = mayMakeUser(id, at: now) }
      lastJob += 1
      let origin = Origin(
        session: id, slot: slot, user: request.login?.key, octets: request.octets,
        repeated: request.isPortioned ? request : nil)
      jobs[lastJob] = origin
      memory.addRequest(origin.octets, of: origin.user)
      let job = Job(request: request, number: lastJob)
      guard entries[id] != nil else { return [.perform(request, job: job.number)] }
      entries[id]?.queue.append(job)
      return drain(id, at: now)
    case .ask(let command, let slot):
      let outcome = answer(command, of: id)
      return change(id, at: now, epoch) { $0.answer(slot, outcome, random: &$1, at: now, epoch: epoch) }
    case .loggedIn(let login): return loggedIn(login, id, at: now, epoch)
    case .confirmed: return limitSessions(like: id, at: now, epoch)
    case .loginFailed:
      counters.failedLogins += 1
      if let address = entries[id]?.address { countFailure(address, at: now) }
      return []
    case .dropped:
      counters.droppedBlobs += 1
      return []
    case .released(let sum):
      memory.release(sum)
      return []
    case .close(let reason): return close(id, reason, at: now)
    }
  }

  private mutating func loggedIn(
    _ login: Login?, _ id: SessionID, at now: Instant, _ epoch: UInt64
  ) -> [Intent] {
    entries[id]?.isLoggedIn = login != nil
    guard login != nil else { return [] }
    if entries[id]?.isKnown == false { counters.logins += 1 }
    entries[id]?.isKnown = true
    return limitSessions(like: id, at: now, epoch)
  }

  /// Closes the oldest sessions of a session's user while the user has more than its limit. Sessions that are paused
  /// count too.
  ///
  /// Sessions that have sent nothing since their login are counted separately, so that replayed logins close no session
  /// of an active client.
  private mutating func limitSessions(like id: SessionID, at now: Instant, _ epoch: UInt64) -> [Intent] {
    guard let session = entries[id]?.session, let login = session.login, login.role == .user else { return [] }
    let same = entries.filter { _, entry in
      let other = entry.session
      return other.login == login && other.isConfirmed == session.isConfirmed && other.state != .closed
    }
    var intents: [Intent] = []
    for oldest in same.keys.sorted().dropLast(configuration.sessionsPerUser) {
      intents += change(oldest, at: now, epoch) { session, _ in session.end(.tooMany) }
    }
    return intents
  }

  private mutating func close(_ id: SessionID, _ reason: CloseReason, at now: Instant) -> [Intent] {
    switch reason {
    case .segment, .pdu, .badKey, .keyUsed: counters.malformed += 1
    case .slow: counters.slow += 1
    case .redirected: counters.redirected += 1
    case .displaced: counters.refused += 1
    case .quit, .disconnected, .loginRefused, .noKey, .noLogin, .idle, .suspendedTooLong, .tooMany: break
    }
    guard let entry = entries.removeValue(forKey: id) else { return [.close(id, reason)] }
    memory.add(-entry.session.held, of: entry.session.login?.key)
    if let key = entry.session.ephemeral { live.remove(key) }
    blocked.remove(id)
    var queue = entry.queue
    var intents: [Intent] = []
    // What the session asked for before it ended is carried out: its marks end. Blobs above the rate are dropped, as
    // otherwise a user could avoid it by closing connections. Nobody gets the answers to requests that only read.
    while let job = queue.popFirst() {
      if job.request.onlyReads {
        _ = forget(job.number)
      } else if let user = job.request.login?.key, job.request.makesBlob, !mayMakeBlob(user, at: now) {
        counters.droppedBlobs += 1
        _ = forget(job.number)
      } else {
        intents.append(.perform(job.request, job: job.number))
      }
    }
    return intents + [.close(id, reason)]
  }

  /// Passes the requests of a session to the store, up to the first that has to wait. A request that makes a blob waits
  /// for its user's rate limit. A request with a long answer waits for memory. A lookup waits for an earlier lookup of
  /// its user, and for the user's limit of compared names.
  private mutating func drain(_ id: SessionID, at now: Instant) -> [Intent] {
    var intents: [Intent] = []
    blocked.remove(id)
    while let job = entries[id]?.queue.first {
      if let user = job.request.login?.key, job.request.makesBlob, !mayMakeBlob(user, at: now) {
        counters.delayed += 1
        schedule(now.advanced(by: .nanoseconds(1_000_000_000 / Int64(max(1, configuration.blobs)))))
        break
      }
      let searcher = job.request.searcher
      if let searcher, lookingUp.contains(searcher) {
        blocked.insert(id)
        break
      }
      if let searcher, !mayLookUp(searcher, at: now) {
        counters.delayed += 1
        schedule(now.advanced(by: .milliseconds(100)))
        break
      }
      if job.request.hasLongAnswer {
        guard hasRoom(id) else {
          blocked.insert(id)
          break
        }
        reserve(job.number, id)
      }
      if let searcher {
        lookingUp.insert(searcher)
        jobs[job.number]?.isLookup = true
      }
      entries[id]?.queue.popFirst()
      intents.append(.perform(job.request, job: job.number))
    }
    return intents
  }

  /// Passes on the requests that waited for memory. The session whose answer arrived comes first, then the others.
  private mutating func drainBlocked(_ id: SessionID, at now: Instant) -> [Intent] {
    guard !blocked.isEmpty else { return [] }
    var intents = blocked.contains(id) ? drain(id, at: now) : []
    for other in blocked.sorted() where hasRoomForAnswer {
      intents += drain(other, at: now)
    }
    return intents
  }

  /// Whether there is memory for another answer of the store to a session. At least one answer always fits.
  private func hasRoom(_ id: SessionID) -> Bool {
    guard let entry = entries[id] else { return true }
    let isFirst = entry.reserved == 0 && entry.session.unsent == 0
    let used = entry.reserved + entry.session.unsent + entry.session.answers
    guard isFirst || used + configuration.answer <= configuration.session.waiting else { return false }
    return hasRoomForAnswer
  }

  private var hasRoomForAnswer: Bool {
    memory.reserved == 0 || memory.reserved + configuration.answer <= configuration.held / 4
  }

  private mutating func reserve(_ job: UInt64, _ id: SessionID) {
    guard let user = jobs[job]?.user else { return }
    let octets = configuration.answer
    jobs[job]?.reserved = octets
    entries[id]?.reserved += octets
    memory.reserve(octets, of: user)
  }

  private func rate(of user: UserKey) -> Rate {
    rates[user]
      ?? Rate(
        blobs: TokenBucket(configuration.blobs), fanOut: TokenBucket(configuration.fanOut),
        lookups: TokenBucket(configuration.lookups))
  }

  /// Whether the user's limit of compared names allows another lookup.
  private mutating func mayLookUp(_ user: UserKey, at now: Instant) -> Bool {
    var rate = rate(of: user)
    let isGranted = rate.lookups.take(0, at: now)
    rates[user] = rate
    return isGranted
  }

  /// Counts names that the store compared for a user. While they exceed the limit, further lookups wait.
  private mutating func spendLookups(_ names: Int, of user: UserKey, at now: Instant) {
    var rate = rate(of: user)
    _ = rate.lookups.take(0, at: now)
    rate.lookups.spend(Double(names))
    rates[user] = rate
  }

  /// Takes one new blob from the rate limit of a user. Returns false if the limit is used up.
  private mutating func mayMakeBlob(_ user: UserKey, at now: Instant) -> Bool {
    var rate = rate(of: user)
    let isGranted = rate.fanOut.take(0, at: now) && rate.blobs.take(at: now)
    rates[user] = rate
    return isGranted
  }

  /// Counts octets that a user's blob causes to be sent. Later blobs wait while the limit is exceeded.
  private mutating func spend(_ octets: Double, of user: UserKey, at now: Instant) {
    var rate = rate(of: user)
    _ = rate.fanOut.take(0, at: now)
    rate.fanOut.spend(octets)
    rates[user] = rate
  }

  /// Whether a first login from the address of a session may create a user.
  private func mayMakeUser(_ id: SessionID, at now: Instant) -> Bool {
    guard let address = entries[id]?.address, var failure = failures[address] else { return true }
    return failure.newUsers.take(at: now)
  }

  private mutating func countNewUser(_ address: String, at now: Instant) {
    var failure = record(of: address, at: now)
    _ = failure.newUsers.take(at: now)
    failures[address] = failure
  }

  private mutating func countFailure(_ address: String, at now: Instant) {
    var failure = record(of: address, at: now)
    _ = failure.bucket.take(at: now)
    if !failure.bucket.take(0, at: now, reserve: 1) {
      failure.refusedUntil = now.advanced(by: configuration.refusalTime)
    }
    failures[address] = failure
  }

  /// The record of an address. If there are too many records, the one unused for longest is dropped.
  private mutating func record(of address: String, at now: Instant) -> Failures {
    if failures.count >= Self.addresses, failures[address] == nil {
      failures = failures.filter { $0.value.last.advanced(by: configuration.refusalTime) > now }
      if failures.count >= Self.addresses, let oldest = failures.min(by: { $0.value.last < $1.value.last }) {
        failures[oldest.key] = nil
      }
    }
    var failure =
      failures[address]
      ?? Failures(
        bucket: TokenBucket(configuration.failedLogins, each: .seconds(60)),
        newUsers: TokenBucket(configuration.newUsersPerAddress, each: .seconds(60)), last: now)
    failure.last = now
    return failure
  }

  /// `who` lists the sessions by name or key; `iam` gives the session a name.
  private mutating func answer(_ command: Command, of id: SessionID) -> StoreOutcome {
    var outcome = StoreOutcome()
    switch (command.arguments.first, command.arguments.count) {
    case ("who", 1):
      let lines = entries.keys.sorted().compactMap { entries[$0] }.filter(\.isLoggedIn).map { entry in
        (entry.name ?? entry.session.login?.key.hex ?? "") + "\n"
      }
      outcome.data = Array(lines.joined().utf8)
    case ("iam", 2):
      let name = command.arguments[1]
      guard !name.isEmpty, name.utf8.count <= 64, (try? BlobName(name)) != nil else {
        return StoreOutcome(Refusal(.illFormatted, "NAME has 1 to 64 octets"))
      }
      // `who` shows the keys of sessions without a name: a name is never taken for the key of another user.
      guard (HexPrefix(name)?.digits.utf8.count ?? 0) < 16 else {
        return StoreOutcome(Refusal(.illFormatted, "NAME looks like a key: it has only hexadecimal digits"))
      }
      entries[id]?.name = name
    default: return StoreOutcome(Refusal(.illFormatted, "usage: who, iam NAME"))
    }
    return outcome
  }

  private mutating func schedule(_ instant: Instant?) {
    guard let instant else { return }
    nextTimer = nextTimer.map { min($0, instant) } ?? instant
  }
}

extension StoreRequest {
  /// Whether executing the request makes a blob, which counts towards its user's rate limit.
  var makesBlob: Bool {
    switch kind {
    case .blob: true
    case .exec(let command):
      ["approve", "auth", "blob", "mark", "newuser", "rm", "vouch"].contains(command.arguments.first ?? "")
    case .make: true
    case .login, .load, .endMarks: false
    }
  }

  private static let lookups: Set<String> = ["approve", "cat", "fetch", "ls", "objdump", "rm", "users"]

  /// The user whose references the store looks up for the request. Nil without a lookup, and for the administrator and
  /// mirrors, which have no limit.
  var searcher: UserKey? {
    guard case .exec(let command) = kind, let login, login.role == .user,
      Self.lookups.contains(command.arguments.first ?? "")
    else { return nil }
    return login.key
  }

  /// Whether the request changes nothing, so that it need not be executed when its session has ended.
  var onlyReads: Bool { hasLongAnswer && !isPortioned }

  /// Whether the store executes the request in portions.
  var isPortioned: Bool {
    if case .exec(let command) = kind { return command.arguments.first == "gc" }
    return false
  }
}
