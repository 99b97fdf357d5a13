import Common
import Crypto

/// All sessions of a server: who may connect, in which order the store is asked, and who gets which push.
///
/// The store is asked by intents, because it works on a thread of its own: the caller hands requests to a
/// `CommandEngine` in the order of the intents, has it commit, and hands the outcomes back in the same order.
public struct SocialServer: Sendable {
  public struct Configuration: Sendable {
    public var session: ServerSession.Configuration
    public var sessions = 1000
    public var sessionsPerUser = 8
    public var sessionsPerAddress = 16
    /// Connections that are not logged in.
    public var strangers = 256
    /// Logins that may fail in a minute from one address, before its connections are refused for `refusalTime`.
    public var failedLogins = 5
    public var refusalTime = Duration.seconds(600)
    /// Octets of memory of all sessions together, for output that waits and input that is not complete. Beyond it the
    /// session with the most is closed.
    public var held = 256 * 1024 * 1024
    /// New blobs a second for each user.
    public var blobs = 20

    public init(session: ServerSession.Configuration) { self.session = session }
  }

  public enum Intent: Sendable {
    case send(SessionID, [UInt8])
    case ping(SessionID)
    /// What was sent before is still to be written.
    case close(SessionID, CloseReason)
    case perform(StoreRequest, job: UInt64)
  }

  /// How often something happened since the start.
  public struct Counters: Hashable, Sendable {
    public var accepted: UInt64 = 0
    public var refused: UInt64 = 0
    public var logins: UInt64 = 0
    public var failedLogins: UInt64 = 0
    /// Connections that broke the protocol: segments, PDUs, keys.
    public var malformed: UInt64 = 0
    /// Blobs that were dropped because they were not permitted or malformed.
    public var droppedBlobs: UInt64 = 0
    public var pushes: UInt64 = 0
    /// Sessions that were closed because their output waited.
    public var slow: UInt64 = 0
    public var redirected: UInt64 = 0
    public var delayed: UInt64 = 0

    public init() {}
  }

  private struct Entry {
    var session: ServerSession
    let address: String
    var name: String?
    /// Whether blobs are pushed to the session: it is logged in and not paused.
    var isLoggedIn = false
    /// Whether the session was logged in before.
    var isKnown = false
    /// Requests that wait until the user may make another blob.
    var queue = Fifo<Job>()
  }
  private struct Job {
    let request: StoreRequest
    let number: UInt64
  }
  private struct Origin {
    let session: SessionID
    let slot: UInt64?
  }
  private struct Failures {
    var bucket: TokenBucket
    var refusedUntil: Instant?
    var last: Instant
  }

  private let configuration: Configuration
  private var random: AnyRandom
  private var entries: [SessionID: Entry] = [:]
  private var jobs: [UInt64: Origin] = [:]
  private var buckets: [UserKey: TokenBucket] = [:]
  private var failures: [String: Failures] = [:]
  private var accepted = AcceptedKeys()
  private var lastSession: UInt64 = 0
  private var lastJob: UInt64 = 0
  private var nextTimer: Instant?
  /// Octets of memory of all sessions.
  private var held = 0
  public private(set) var counters = Counters()
  /// The last trouble of the store; nil after a request succeeded in writing.
  public private(set) var trouble: StoreError?

  /// Addresses whose failed logins are remembered.
  private static let addresses = 4096

  public init(configuration: Configuration, random: any RandomSource & Sendable) {
    (self.configuration, self.random) = (configuration, AnyRandom(random))
  }

  public var sessionCount: Int { entries.count }
  public var loggedIn: Int { entries.values.count(where: \.isLoggedIn) }
  /// The users that are logged in, in ascending order, each as often as it has sessions.
  public var users: [UserKey] { entries.values.filter(\.isLoggedIn).compactMap { $0.session.login?.key }.sorted() }

  public func state(of id: SessionID) -> SessionState? { entries[id]?.session.state }

  /// Whether the transport should read nothing more for now.
  public func isHolding(_ id: SessionID) -> Bool { entries[id]?.session.isHolding ?? true }

  /// When `timer` is due.
  public var deadline: Instant? { nextTimer }

  // MARK: Connections

  /// A new connection; nil if it is refused.
  ///
  /// - Parameters:
  ///   - address: what connections are counted by, for example an IP address; the users of a Unix socket by their user
  ///   ID.
  ///   - isFramed: whether the transport has frames.
  public mutating func open(
    address: String, dialect: Dialect = .seed, isFramed: Bool = true, at now: Instant
  ) -> SessionID? {
    let isRefused = failures[address]?.refusedUntil.map { now < $0 } ?? false
    guard !isRefused, entries.count < configuration.sessions,
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

  /// Takes octets from a transport: a frame, or a portion of any size.
  public mutating func receive(
    _ id: SessionID, _ bytes: some Collection<UInt8>, at now: Instant, epoch: UInt64
  ) -> [Intent] {
    if let key = entries[id]?.session.key(completedBy: bytes), isUsed(key) {
      return change(id, at: now, epoch) { session, _ in session.end(.keyUsed) }
    }
    return change(id, at: now, epoch) { $0.receive(bytes, random: &$1, at: now, epoch: epoch) }
  }

  /// Whether a client's ephemeral key was used before. The client that has its secret never uses it again.
  private func isUsed(_ key: UserKey) -> Bool {
    accepted.contains(key) || entries.values.contains { $0.session.ephemeral == key }
  }

  /// A transport wrote so many octets.
  public mutating func wrote(_ id: SessionID, _ count: Int, at now: Instant, epoch: UInt64) -> [Intent] {
    change(id, at: now, epoch) { $0.wrote(count, random: &$1, at: now, epoch: epoch) }
  }

  public mutating func heardPong(_ id: SessionID, at now: Instant) { entries[id]?.session.heardPong(at: now) }

  /// A transport is gone. A session that was closed by an intent may have one too.
  public mutating func disconnected(_ id: SessionID, at now: Instant, epoch: UInt64) -> [Intent] {
    change(id, at: now, epoch) { session, _ in session.disconnected() }
  }

  /// Sends every client elsewhere, or to the same server in ten seconds or more if the URL is empty.
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
    let users = Set(entries.values.compactMap { $0.session.login?.key })
    buckets = buckets.filter { users.contains($0.key) }
    return intents
  }

  // MARK: The store's answers

  /// Takes the outcome of a job, in the order of the jobs.
  public mutating func outcome(
    _ job: UInt64, _ outcome: StoreOutcome, at now: Instant, epoch: UInt64
  ) -> [Intent] {
    guard let origin = jobs.removeValue(forKey: job) else { return [] }
    note(outcome)
    if let user = outcome.login?.user, let key = entries[origin.session]?.session.ephemeral {
      accepted.insert(key, of: user)
    }
    var intents: [Intent] = []
    if let slot = origin.slot {
      intents += change(origin.session, at: now, epoch) { $0.answer(slot, outcome, random: &$1, at: now, epoch: epoch) }
    }
    return intents + deliver(outcome.pushes, except: origin.session, at: now, epoch: epoch)
  }

  /// Takes the outcome of a request that no session made.
  public mutating func deliver(_ outcome: StoreOutcome, at now: Instant, epoch: UInt64) -> [Intent] {
    note(outcome)
    return deliver(outcome.pushes, except: nil, at: now, epoch: epoch)
  }

  private mutating func note(_ outcome: StoreOutcome) {
    if let trouble = outcome.trouble { self.trouble = trouble } else if !outcome.pushes.isEmpty { trouble = nil }
  }

  /// Sends each blob to every session that may receive it: one copy each, and none to the one that it came from.
  public mutating func deliver(
    _ pushes: [Push], except origin: SessionID?, at now: Instant, epoch: UInt64
  ) -> [Intent] {
    guard !pushes.isEmpty else { return [] }
    var intents: [Intent] = []
    for id in entries.keys.sorted() where id != origin {
      var sent: Set<Sum> = []
      for push in pushes {
        guard let entry = entries[id], entry.isLoggedIn, let login = entry.session.login, push.isFor(login),
          sent.insert(push.blob.sum).inserted
        else { continue }
        counters.pushes += 1
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
    let before = entry.session.held
    let actions = body(&entry.session, &random)
    held += entry.session.held - before
    entries[id] = entry
    var intents: [Intent] = []
    for action in actions { intents += carryOut(action, of: id, at: now, epoch) }
    schedule(entries[id]?.session.deadline)
    return intents + freeMemory(at: now, epoch)
  }

  /// Closes the session that uses the most memory while all together use more than the limit.
  private mutating func freeMemory(at now: Instant, _ epoch: UInt64) -> [Intent] {
    guard held > configuration.held, let largest = entries.max(by: { $0.value.session.held < $1.value.session.held })
    else { return [] }
    return change(largest.key, at: now, epoch) { session, _ in session.end(.slow) }
  }

  private mutating func carryOut(
    _ action: ServerAction, of id: SessionID, at now: Instant, _ epoch: UInt64
  ) -> [Intent] {
    switch action {
    case .send(let segment): return [.send(id, segment)]
    case .ping: return [.ping(id)]
    case .perform(let request, let slot):
      lastJob += 1
      jobs[lastJob] = Origin(session: id, slot: slot)
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
    case .close(let reason): return close(id, reason)
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
  /// Sessions that have sent nothing since their login are counted apart, so that replayed logins close no session of
  /// a client that is there.
  private mutating func limitSessions(like id: SessionID, at now: Instant, _ epoch: UInt64) -> [Intent] {
    guard let session = entries[id]?.session, let login = session.login, login.role == .user else { return [] }
    let same = entries.filter { $0.value.session.login == login && $0.value.session.isConfirmed == session.isConfirmed }
    var intents: [Intent] = []
    for oldest in same.keys.sorted().dropLast(configuration.sessionsPerUser) {
      intents += change(oldest, at: now, epoch) { session, _ in session.end(.tooMany) }
    }
    return intents
  }

  private mutating func close(_ id: SessionID, _ reason: CloseReason) -> [Intent] {
    switch reason {
    case .segment, .pdu, .badKey, .keyUsed: counters.malformed += 1
    case .slow: counters.slow += 1
    case .redirected: counters.redirected += 1
    case .quit, .disconnected, .loginRefused, .noKey, .noLogin, .idle, .suspendedTooLong, .tooMany: break
    }
    // What the session asked for before it ended is carried out: its marks end.
    let entry = entries.removeValue(forKey: id)
    held -= entry?.session.held ?? 0
    var queue = entry?.queue ?? Fifo()
    var intents: [Intent] = []
    while let job = queue.popFirst() { intents.append(.perform(job.request, job: job.number)) }
    return intents + [.close(id, reason)]
  }

  /// Hands on the requests of a session up to the first that makes a blob while its user may make none.
  private mutating func drain(_ id: SessionID, at now: Instant) -> [Intent] {
    var intents: [Intent] = []
    while let job = entries[id]?.queue.first {
      if let user = job.request.login?.key, job.request.makesBlob {
        var bucket = buckets[user] ?? TokenBucket(configuration.blobs)
        let isGranted = bucket.take(at: now)
        buckets[user] = bucket
        guard isGranted else {
          counters.delayed += 1
          schedule(now.advanced(by: .nanoseconds(1_000_000_000 / Int64(max(1, configuration.blobs)))))
          break
        }
      }
      entries[id]?.queue.popFirst()
      intents.append(.perform(job.request, job: job.number))
    }
    return intents
  }

  private mutating func countFailure(_ address: String, at now: Instant) {
    if failures.count >= Self.addresses, failures[address] == nil {
      failures = failures.filter { $0.value.last.advanced(by: configuration.refusalTime) > now }
      if failures.count >= Self.addresses, let oldest = failures.min(by: { $0.value.last < $1.value.last }) {
        failures[oldest.key] = nil
      }
    }
    var failure =
      failures[address] ?? Failures(bucket: TokenBucket(configuration.failedLogins, each: .seconds(60)), last: now)
    failure.last = now
    _ = failure.bucket.take(at: now)
    if !failure.bucket.take(0, at: now, reserve: 1) {
      failure.refusedUntil = now.advanced(by: configuration.refusalTime)
    }
    failures[address] = failure
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
  /// Whether carrying it out makes a blob, which counts against the rate of its user.
  var makesBlob: Bool {
    switch kind {
    case .blob: true
    case .exec(let command):
      ["approve", "auth", "blob", "mark", "newuser", "rm", "vouch"].contains(command.arguments.first ?? "")
    case .login, .load, .endMarks: false
    }
  }
}
