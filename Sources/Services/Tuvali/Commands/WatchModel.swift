import CommandLine
import Common
import DBus
import Terminal
import Tool
import Verifier

/// State and decisions of `earshot verifier watch`. It is a value without I/O that handles events and returns actions.
///
/// One credential at a time is fetched, stored, reported, and then judged. The service may end and restart at any time:
/// nothing is fetched twice, and credentials that arrived meanwhile are fetched.
struct WatchModel: Sendable {
  private let options: WatchOptions
  private(set) var verifier: VerifierView?
  private(set) var isServiceThere = false
  private var transfers: [String: WatchedTransfer] = [:]
  /// Credentials that were reported, or left in the service, by object path. They stay here after their objects are
  /// removed.
  private var known: [String: Known] = [:]
  private var knownInOrder: [String] = []
  private var jobs: [Job] = []
  private var current: Job?
  /// Number of runs of the service that this command has seen.
  private var life = 0
  /// Run of the service in which the current job began, by its number.
  private var lifeOfJob = 0
  private var stopping: WatchEvent.StopReason?
  private var began: Instant?
  /// Time of the current event, in milliseconds since 1970-01-01 UTC.
  private var date: UInt64 = 0
  private var shownCode = ""
  private var shownTroubles: [String] = []
  private var actions: [WatchAction] = []

  private enum Job: Sendable, Equatable {
    case take(String)
    case judge(String)
  }

  private struct Known: Sendable {
    /// Time of reception, in milliseconds since 1970-01-01 UTC.
    var received: UInt64
    /// Whether the command has not fetched the credential.
    var isLeft: Bool
  }

  /// Maximum known credentials, many times more than a service stores (`KeptTransfers=`).
  private static let mostKnown = 4096
  /// Maximum difference of two readings of one time, in milliseconds. Time services slew the clock, and files store
  /// whole seconds.
  private static let sameTime: UInt64 = 2000

  init(_ options: WatchOptions) { self.options = options }

  // MARK: Output

  /// Credentials that wait for a verdict, sorted by number.
  var waiting: [WatchedTransfer] { sorted { $0.awaitsVerdict } }

  /// Transfers in progress, sorted by number.
  var underWay: [WatchedTransfer] { sorted { $0.stage == .underWay && $0.view.isUnderWay } }

  /// Sentences about why no wallet is invited, and about problems.
  var troubles: [String] {
    if !isServiceThere, began != nil { return ["The service is not running; waiting for it."] }
    return verifier?.troubles ?? []
  }

  private func sorted(_ isWanted: (WatchedTransfer) -> Bool) -> [WatchedTransfer] {
    transfers.filter { isWanted($0.value) }.sorted { ($0.key.utf8.count, $0.key) < ($1.key.utf8.count, $1.key) }
      .map(\.value)
  }

  // MARK: Events

  /// - Parameters:
  ///   - now: time of the monotonic clock.
  ///   - date: milliseconds since 1970-01-01 UTC.
  mutating func handle(_ event: WatchEvent, at now: Instant, date: UInt64) -> [WatchAction] {
    self.date = date
    switch event {
    case .came(let objects): came(objects, now, date)
    case .went: went()
    case .added(let path, let properties): add(path, properties, now, date)
    case .removed(let path): remove(path)
    case .changed(let path, let interface, let values): change(path, interface, values)
    case .refused(let code, let sentence):
      report(
        "A phone was refused. \(sentence)", .bad,
        [.init("refused", .string(code)), .init("sentence", .string(sentence))])
    case .verdictReceived(let path): if transfers[path] != nil { actions.append(.check(path: path)) }
    case .checked(let path, let properties, let claims): checked(path, properties, claims)
    case .looked(let path, let properties): looked(path, properties)
    case .taken(let path, let credential): taken(path, credential)
    case .notTaken(let path, let failure): notTaken(path, failure)
    case .judged(let path, let properties): judged(path, properties)
    case .notJudged(let path, let failure, let properties): notJudged(path, failure, properties)
    case .ordered(let path, let verdict): order(path, verdict)
    case .stop(let reason): stopping = stopping ?? reason
    }
    showVerifier()
    work()
    defer { actions = [] }
    return actions
  }

  // MARK: The service

  private mutating func came(_ objects: ToolPart.Objects, _ now: Instant, _ date: UInt64) {
    guard let view = VerifierView(objects) else {
      return finish(.failure(Failure(.failed, "The service has no verifier.")))
    }
    let isFirst = began == nil
    began = began ?? now
    isServiceThere = true
    life += 1
    verifier = view
    let prefix = VerifierAdaptor.path.string + "/"
    let found = objects.filter { $0.key.hasPrefix(prefix) }.compactMapValues { $0[TransferView.interface] }
    if isFirst {
      if !view.uri.isEmpty { report("Waiting for wallets.") }
      for (path, properties) in found { enter(path, properties, isThereBefore: true, now) }
      let left = transfers.values.count { $0.awaitsVerdict && $0.stage == .left }
      if left > 0 {
        report(
          "\(left) earlier \(left == 1 ? "credential waits" : "credentials wait") for a verdict.",
          hint: "Try: earshot transfers, or earshot verifier watch --waiting")
      }
    } else {
      report("The service is running again.", .plain, [.init("service", "back")])
      for path in transfers.keys.sorted() where found[path] == nil { remove(path, afterRestart: true) }
      for (path, properties) in found { meetAgain(path, properties, now, date) }
    }
    for transfer in sorted({ $0.stage == .queued }) { queue(.take(transfer.view.path.string)) }
    for transfer in sorted({ $0.stage == .told && $0.verdict != nil && $0.view.state == "received" }) {
      queue(.judge(transfer.view.path.string))
    }
  }

  private mutating func went() {
    guard isServiceThere else { return }
    isServiceThere = false
    jobs = []
    report("The service has ended; waiting for it.", .bad, [.init("service", "gone")])
  }

  /// Handles a transfer in the list of a restarted service.
  private mutating func meetAgain(_ path: String, _ properties: [String: DBusValue], _ now: Instant, _ date: UInt64) {
    let view = TransferView(ObjectPath(path) ?? "/", properties)
    guard let before = transfers[path], isSame(before.view.receivedAt, view.receivedAt) || before.stage == .queued
    else {
      transfers[path] = nil
      return add(path, properties, now, date)
    }
    let (stage, state) = (before.stage, before.view.state)
    transfers[path]?.view = view
    switch stage {
    // The reply to the failed call is still to come.
    case .taking, .judging: break
    case .left, .underWay, .queued, .told, .done: moved(path, from: state, wasLive: view.isLive)
    }
  }

  private func isSame(_ time: UInt64, _ other: UInt64) -> Bool {
    (max(time, other) - min(time, other)) <= Self.sameTime
  }

  // MARK: Transfers

  /// Adds a transfer from a signal, or from the list of a restarted service.
  private mutating func add(_ path: String, _ properties: [String: DBusValue], _ now: Instant, _ date: UInt64) {
    guard isServiceThere, path.hasPrefix(VerifierAdaptor.path.string + "/"), transfers[path] == nil else { return }
    let received = TransferView("/", properties).receivedAt
    let start = began.map { date - min(date, UInt64(max(0, $0.duration(to: now) / .milliseconds(1)))) } ?? date
    // The service may restore a credential of an earlier run long after its start.
    let isOld = received > 0 && received + Self.sameTime / 2 < start
    enter(path, properties, isThereBefore: isOld, now)
    if transfers[path]?.stage == .queued { queue(.take(path)) }
  }

  private mutating func enter(_ path: String, _ properties: [String: DBusValue], isThereBefore: Bool, _ now: Instant) {
    guard let object = ObjectPath(path) else { return }
    let view = TransferView(object, properties)
    let isHere = view.state == "received" || view.state == "accepted" && view.expiresAt > 0
    let before = known[path].flatMap { isSame($0.received, view.receivedAt) ? $0 : nil }
    let isLeft = before?.isLeft ?? (isThereBefore && !options.takesWaiting)
    let stage: WatchedTransfer.Stage =
      view.isUnderWay ? .underWay : !isHere ? .done : isLeft ? .left : before != nil ? .told : .queued
    transfers[path] = WatchedTransfer(view: view, stage: stage, seen: now)
    // The service ended before it received the verdict.
    if stage == .told { transfers[path]?.verdict = options.verdict }
    if stage == .left { note(path) }
    if isHere, view.hasVerdict { actions.append(.check(path: path)) }
    // The transfer failed before this program received a signal about it.
    if stage == .done, !isThereBefore, view.isFailed { actions.append(.look(path: path)) }
  }

  /// Records that the credential was reported, or left in the service.
  private mutating func note(_ path: String) {
    guard let transfer = transfers[path] else { return }
    let entry = Known(received: transfer.view.receivedAt, isLeft: transfer.stage == .left)
    if known.updateValue(entry, forKey: path) == nil { knownInOrder.append(path) }
    if knownInOrder.count > Self.mostKnown { known[knownInOrder.removeFirst()] = nil }
  }

  private mutating func remove(_ path: String, afterRestart: Bool = false) {
    guard let transfer = transfers.removeValue(forKey: path) else { return }
    jobs.removeAll { $0 == .take(path) || $0 == .judge(path) }
    let name = transfer.view.name
    switch transfer.stage {
    case .queued: lost("\(name) is gone: another program judged it before it was fetched.")
    case .underWay where afterRestart:
      failed(transfer.view, "\(name) failed: the service ended during the transfer.", code: .notRunning)
    case .told where transfer.view.state == "received" && afterRestart:
      report("\(name) is no longer in the service.")
    case .left, .underWay, .taking, .told, .judging, .done: break
    }
  }

  private mutating func change(_ path: String, _ interface: String, _ values: [String: DBusValue]) {
    guard interface == TransferView.interface else {
      _ = verifier?.update(interface, values)
      return
    }
    guard let before = transfers[path]?.view else { return }
    transfers[path]?.view.update(values)
    if known[path] != nil { note(path) }
    moved(path, from: before.state, wasLive: before.isLive)
  }

  /// Handles a changed state of a transfer or its link.
  private mutating func moved(_ path: String, from before: String, wasLive: Bool) {
    guard let transfer = transfers[path] else { return }
    let (view, state) = (transfer.view, transfer.view.state)
    switch transfer.stage {
    case .underWay:
      switch state {
      case "received", "accepted":
        transfers[path]?.stage = .queued
        queue(.take(path))
      case "failed":
        transfers[path]?.stage = .done
        actions.append(.look(path: path))
      case "rejected", "undecided":
        transfers[path]?.stage = .done
        lost("\(view.name) ended as \(state) before it was fetched.")
      default: break
      }
    case .queued:
      guard state == "rejected" || state == "undecided" else { return }
      transfers[path]?.stage = .done
      jobs.removeAll { $0 == .take(path) }
      lost("\(view.name) ended as \(state) before it was fetched.")
    case .left, .told:
      guard before == "received" else { return }
      if state != "received" {
        transfers[path]?.stage = .done
        jobs.removeAll { $0 == .judge(path) }
        reportVerdict(view, own: nil)
      } else if wasLive, !view.isLive {
        report(
          "The phone of \(view.name) has left. A verdict does not reach it any more.", .bad,
          [.init("transfer", .string(path)), .init("phone", "left")])
      }
    case .taking, .judging, .done: break
    }
  }

  private mutating func looked(_ path: String, _ properties: [String: DBusValue]) {
    transfers[path]?.view.update(properties)
    guard let view = transfers[path]?.view else { return }
    failed(view, "\(view.name) failed. \(view.error)", code: .failed)
  }

  private mutating func checked(_ path: String, _ properties: [String: DBusValue], _ claims: String?) {
    let state = transfers[path]?.view.state
    // Signals report changes of the state in order, so it is ignored here.
    transfers[path]?.view.update(properties.filter { state == nil || $0.key != "State" })
    transfers[path]?.claims = claims
    guard let transfer = transfers[path], transfer.view.hasVerdict else { return }
    switch transfer.stage {
    case .queued, .taking: transfers[path]?.hasUntoldCheck = true
    // The list of waiting credentials shows it.
    case .left: break
    case .underWay, .told, .judging, .done: reportCheck(path)
    }
  }

  private mutating func reportCheck(_ path: String) {
    guard let transfer = transfers[path] else { return }
    transfers[path]?.hasUntoldCheck = false
    actions.append(.report(.check(transfer)))
  }

  private mutating func failed(_ view: TransferView, _ sentence: String, code: ExitCode) {
    report(
      sentence, .bad, [.init("transfer", .string(view.path.string)), .init("error", .string(view.error))])
    if options.isOnce { finish(.failure(Failure(code, sentence))) }
  }

  private mutating func lost(_ sentence: String) {
    if options.isOnce { finish(.failure(Failure(.failed, sentence))) } else { complain(sentence) }
  }

  // MARK: Jobs

  private mutating func queue(_ job: Job, first: Bool = false) {
    guard !jobs.contains(job), current != job else { return }
    if first { jobs.insert(job, at: 0) } else { jobs.append(job) }
  }

  /// Begins the next job. While the command is stopping, it only sends verdicts.
  private mutating func work() {
    guard current == nil else { return }
    if stopping != nil { jobs.removeAll { if case .take = $0 { true } else { false } } }
    while isServiceThere, let job = jobs.first {
      jobs.removeFirst()
      switch job {
      case .take(let path):
        guard transfers[path]?.stage == .queued else { continue }
        transfers[path]?.stage = .taking
        actions.append(.take(path: path, fetch: options.fetches))
      case .judge(let path):
        guard let transfer = transfers[path], let verdict = transfer.verdict, transfer.view.state == "received" else {
          continue
        }
        transfers[path]?.stage = .judging
        actions.append(.judge(path: path, verdict))
      }
      (current, lifeOfJob) = (job, life)
      return
    }
    switch stopping {
    case .time where options.isOnce:
      finish(.failure(Failure(.timeout, "No credential was received within the time of --for.")))
    case .time, .left: finish(.success(.ok))
    case nil: break
    }
  }

  private mutating func order(_ path: String, _ verdict: Verdict) {
    guard let transfer = transfers[path], transfer.view.state == "received" else { return }
    transfers[path]?.verdict = verdict
    switch transfer.stage {
    case .left where verdict == .accept && options.fetches:
      transfers[path]?.stage = .queued
      queue(.take(path), first: true)
    case .left, .told: queue(.judge(path), first: true)
    // The verdict is sent as soon as the credential is stored.
    case .queued, .taking: break
    case .underWay, .judging, .done: break
    }
  }

  private mutating func taken(_ path: String, _ credential: TakenCredential) {
    current = nil
    transfers[path]?.view.update(credential.properties)
    transfers[path]?.stage = .told
    let verdict = options.verdict ?? transfers[path]?.verdict
    transfers[path]?.verdict = verdict
    note(path)
    // The object may be gone although the credential was fetched.
    let view = transfers[path]?.view ?? TransferView(ObjectPath(path) ?? "/", credential.properties)
    actions.append(.report(.reception(view, credential, verdict, at: date)))
    if transfers[path]?.hasUntoldCheck == true { reportCheck(path) }
    if verdict != nil, transfers[path]?.view.state == "received" {
      queue(.judge(path), first: true)
    } else if options.isOnce {
      finish(.success(.ok))
    }
  }

  private mutating func notTaken(_ path: String, _ failure: Failure) {
    current = nil
    if isInterrupted(failure) {
      guard transfers[path]?.stage == .taking else { return }
      transfers[path]?.stage = .queued
      return queue(.take(path), first: true)
    }
    if transfers[path]?.stage == .taking { transfers[path]?.stage = .left }
    transfers[path]?.verdict = nil
    let name = TransferView(ObjectPath(path) ?? "/", [:]).name
    let rest =
      failure.code == .notWritten && transfers[path]?.view.state == "received"
      ? "\n\(name) waits in the service: earshot transfers get \(name)" : ""
    let failure = Failure(failure.code, failure.text + rest)
    if options.isOnce { finish(.failure(failure)) } else { complain(failure.text) }
  }

  /// Whether the service ended before it answered the current job, which is then repeated.
  private func isInterrupted(_ failure: Failure) -> Bool {
    !isServiceThere || failure.code == .notRunning || life != lifeOfJob
  }

  private mutating func judged(_ path: String, _ properties: [String: DBusValue]) {
    current = nil
    guard let verdict = transfers[path]?.verdict else { return }
    transfers[path]?.view.update(properties)
    transfers[path]?.stage = .done
    note(path)
    if let view = transfers[path]?.view { reportVerdict(view, own: verdict) }
    if options.isOnce { finish(.success(.ok)) }
  }

  private mutating func notJudged(_ path: String, _ failure: Failure, _ properties: [String: DBusValue]) {
    current = nil
    if isInterrupted(failure) {
      guard transfers[path]?.stage == .judging else { return }
      transfers[path]?.stage = .told
      // A restarted service may or may not have the verdict; the state shows it.
      if transfers[path]?.view.state == "received" { return queue(.judge(path), first: true) }
      return
    }
    transfers[path]?.view.update(properties)
    guard let view = transfers[path]?.view else { return }
    transfers[path]?.verdict = nil
    guard view.isEnded else {
      transfers[path]?.stage = .told
      if options.isOnce { finish(.failure(failure)) } else { complain("\(view.name): \(failure.text)") }
      return
    }
    // The verdict of another program, or of the service itself, came first and counts.
    transfers[path]?.stage = .done
    reportVerdict(view, own: nil)
    if options.isOnce { finish(.success(.ok)) }
  }

  // MARK: Reports

  private mutating func reportVerdict(_ view: TransferView, own verdict: Verdict?) {
    let sentence =
      switch (verdict, view.state) {
      case (let verdict?, _): "\(verdict.past) \(view.name).\(view.deliveryNote)"
      case (nil, "accepted"), (nil, "rejected"): "\(view.name) was \(view.state).\(view.deliveryNote)"
      default: "\(view.name) was erased, because it was not judged in time."
      }
    let isGood = view.state == "accepted" && view.verdictDelivery != "peerGone"
    report(
      sentence, isGood ? .good : .bad,
      [
        .init("transfer", .string(view.path.string)), .init("state", .string(view.state)),
        .init("verdictDelivery", .string(view.verdictDelivery)),
      ])
  }

  private mutating func showVerifier() {
    let troubles = troubles
    let news = troubles.filter { !shownTroubles.contains($0) }
    shownTroubles = troubles
    if !news.isEmpty, isServiceThere {
      // People get the new sentences one by one, programs the current list.
      for sentence in news { report(sentence, .bad) }
      report("", .bad, [.init("troubles", .array(troubles.map { .string($0) }))])
    }
    let code = isServiceThere ? verifier?.uri ?? "" : ""
    guard code != shownCode else { return }
    shownCode = code
    if !code.isEmpty { actions.append(.code(code)) }
  }

  private mutating func report(
    _ sentence: String, _ tone: WatchReport.Tone = .plain, _ members: [JSONValue.Member] = [], hint: String = ""
  ) {
    actions.append(.report(WatchReport(sentence: sentence, hint: hint, tone: tone, members: members)))
  }

  private mutating func complain(_ sentence: String) {
    actions.append(.report(WatchReport(sentence: sentence, tone: .bad, isComplaint: true)))
  }

  private mutating func finish(_ result: Result<ExitCode, Failure>) { actions.append(.finish(result)) }
}
