import Common
import Crypto
import Store

@testable import Verifier

/// A store with a disk, a service and clocks that act at random, by a seed, and the invariants that must hold.
/// Violations are in `complaints`.
struct CredentialStoreModel {
  typealias Action = CredentialStorePlan.Action

  /// State of a credential, as far as the service knows.
  struct Credential {
    enum State { case putting, kept, accepted, removed, expired }

    var state = State.putting
    var asked: Instant
  }

  struct Asker {
    enum Purpose { case put, accept, remove, idle }

    let purpose: Purpose
    let id: SpoolID?
    let until: Instant
  }

  /// A file: its mark, its date, and whether it can be read now.
  struct File {
    var isAccepted: Bool
    var date: Int64
    var isReadable = true
    /// Running time of the service at its reception.
    var running: UInt64 = 0
    /// The checker's verdict.
    var verdict: [UInt8] = []
  }

  static let room = 12
  static let record = CredentialStoreScript.record(64)

  var script = CredentialStoreScript(room: room * record.fileSize)
  var random: SeededRandom
  /// Credentials that the store has not dropped.
  var credentials: [SpoolID: Credential] = [:]
  private var forgotten: Set<SpoolID> = []
  /// Verdicts that the service has stored, or that were restored.
  private var verdicts: [SpoolID: [UInt8]] = [:]
  var askers: [Int: Asker] = [:]
  var files: [SpoolID: File] = [:]
  /// The note on the disk, and the first number that the store has not reported as free.
  var note = CredentialStoreNote()
  private var firstUnsaid = 1
  /// The pending operation of the disk.
  var pending: Action?
  /// Whether most operations of the disk fail.
  var isFailing = false
  var complaints: [String] = []
  private(set) var counts: [String: Int] = [:]
  private var lastID = 0
  private var lastAsker = 0

  init(seed: UInt64) {
    random = SeededRandom(seed: seed)
    script.writesNotes = false
  }

  mutating func chance(_ percent: Int) -> Bool { Int.random(in: 0..<100, using: &random) < percent }

  mutating func complain(_ sentence: String) {
    if complaints.count < 20 { complaints.append("at \(script.now.nanoseconds / 1_000_000_000) s: \(sentence)") }
  }

  // MARK: One step

  /// Performs a random event.
  mutating func step() {
    switch Int.random(in: 0..<100, using: &random) {
    case 0..<14: put()
    case 14..<19: accept()
    case 19..<22: check()
    case 22..<32: remove()
    case 32..<36: awaitIdle()
    case 36..<66: if pending != nil { finish(isWell: !isFailing || chance(30)) }
    case 66..<90: pass(Duration.milliseconds(Int.random(in: 1...4000, using: &random)))
    case 90: if chance(50) { handle(.numbersWanted) }
    case 91..<94: pass(.seconds(Int.random(in: 5...400, using: &random)))
    case 94: isFailing = chance(25)
    case 95: setClock()
    case 96:
      handle(
        .settings(
          CredentialStoreSettings(keepFor: .seconds(keepTime()), maximumBytes: Self.room * Self.record.fileSize)))
    case 97, 98: setReadable()
    default: if chance(30) { restart() }
    }
  }

  private mutating func keepTime() -> Int { [600, 1200, 7200].randomElement(using: &random) ?? 600 }

  /// Advances time, and delivers timer events at the deadlines or a little late.
  mutating func pass(_ duration: Duration) {
    let end = script.now.advanced(by: duration)
    while let deadline = script.vault.deadline, deadline <= end {
      script.now = max(script.now, deadline)
      handle(.timer)
      if let next = script.vault.deadline, next <= script.now { complain("the timer is due again at once") }
      if complaints.count > 10 { return }
    }
    script.now = end
  }

  private mutating func setClock() {
    let jumps: [Int64] = [3600, -3600, 31_536_000, -31_536_000, -1_900_000_000, 20]
    script.dateAtZero = CredentialStoreScript.date + (jumps.randomElement(using: &random) ?? 0)
    // Not every clock reports that it was set.
    if chance(70) { handle(.clockSet) }
  }

  /// Makes some files unreadable for a while.
  private mutating func setReadable() {
    for id in files.keys.sorted() {
      let isReadable = chance(90)
      files[id]?.isReadable = isReadable
    }
  }

  /// Adds a file of another run, which the disk may not be able to read.
  private mutating func strangeFile() {
    let date = script.date + Int64.random(in: -9000...9000, using: &random)
    files[nextID()] = File(isAccepted: chance(50), date: date, isReadable: chance(50), running: note.running)
  }

  // MARK: The service

  mutating func put() {
    let id = nextID()
    credentials[id] = Credential(asked: script.now)
    handle(.put(id, Self.record, asker: asker(.put, id, CredentialStorePlan.patience)))
  }

  /// The service judges only credentials that are reported as stored.
  mutating func accept() {
    guard let id = pick(where: { $0 == .kept }) else { return }
    credentials[id]?.state = .accepted
    handle(.accept(id, asker: asker(.accept, id, CredentialStorePlan.patience)))
  }

  /// The checker sends a verdict on a stored credential, maybe a second one.
  mutating func check() {
    guard let id = pick(where: { $0 == .kept || $0 == .accepted }) else { return }
    let verdict = [UInt8](
      repeating: UInt8.random(in: 0...255, using: &random), count: Int.random(in: 1...90, using: &random))
    guard script.vault.hasRoom(forVerdict: verdict.count, of: id) else { return }
    counts["verdict", default: 0] += 1
    verdicts[id] = verdict
    handle(.verdict(id, verdict))
  }

  mutating func remove() {
    guard let id = pick(where: { $0 == .kept || $0 == .accepted || $0 == .putting }) else { return }
    credentials[id]?.state = .removed
    handle(.remove(id, asker: asker(.remove, id, CredentialStorePlan.patience)))
  }

  mutating func awaitIdle() {
    let limit = Duration.seconds(Int.random(in: 1...9, using: &random))
    handle(.awaitIdle(asker: asker(.idle, nil, limit), limit: limit))
  }

  mutating func pick(where isMeant: (Credential.State) -> Bool) -> SpoolID? {
    credentials.filter { isMeant($0.value.state) }.keys.sorted().randomElement(using: &random)
  }

  private mutating func nextID() -> SpoolID {
    lastID += 1
    return CredentialStoreScript.id(lastID)
  }

  private mutating func asker(_ purpose: Asker.Purpose, _ id: SpoolID?, _ limit: Duration) -> Int {
    lastAsker += 1
    askers[lastAsker] = Asker(purpose: purpose, id: id, until: script.now.advanced(by: limit))
    return lastAsker
  }

  /// Kills the service at any point: credentials that were reported as stored are on the disk.
  mutating func restart() {
    counts["restart", default: 0] += 1
    askers = [:]
    // The pending operation is done, or not.
    if let pending, chance(50) { carryOut(pending) }
    pending = nil
    (credentials, forgotten, verdicts) = ([:], [], [:])
    for _ in 0..<3 where chance(50) { strangeFile() }
    var fresh = CredentialStoreScript(room: Self.room * Self.record.fileSize)
    (fresh.now, fresh.dateAtZero, fresh.writesNotes) = (script.now, script.dateAtZero, false)
    script = fresh
    handle(.start)
  }

  // MARK: The credential store

  mutating func handle(_ event: CredentialStorePlan.Event) {
    let before = script.vault.trouble
    let actions = script.handle(event)
    counts["event", default: 0] += 1
    for action in actions { take(action) }
    if script.vault.trouble != before, !actions.contains(.changed) { complain("a change of the trouble is not told") }
    checkMemory()
  }

  private mutating func take(_ action: Action) {
    switch action {
    case .open, .inspect, .put, .accept, .verdict, .erase, .redate, .note:
      if pending != nil { complain("two things at one time: \(action)") }
      pending = action
      if case .verdict(let id, _) = action, isGone(id) || files[id] == nil {
        complain("a verdict is written on \(id), which is gone")
      }
      if case .put(let id, _, _, _) = action, isGone(id) { complain("\(id) is put, and nobody wants it") }
    case .numbers(let numbers):
      if numbers.lowerBound < firstUnsaid { complain("\(numbers) are not free") }
      if note.numbers < UInt64(numbers.upperBound) { complain("\(numbers) are free, and the disk does not know") }
      firstUnsaid = numbers.upperBound
      counts["numbers", default: 0] += 1
    case .answer(let number, let error): answer(number, error)
    case .restore(let id, let record, let isAccepted):
      verdicts[id] = record.verdict.isEmpty ? nil : record.verdict
      if credentials[id] != nil || forgotten.contains(id) { complain("\(id) is restored, and is here") }
      credentials[id] = Credential(state: isAccepted ? .accepted : .kept, asked: script.now)
      counts["restore", default: 0] += 1
    case .expire(let id, _):
      guard let state = credentials[id]?.state, state != .removed, state != .expired else {
        return complain("\(id) expires, and is not here")
      }
      credentials[id]?.state = .expired
      counts["expire", default: 0] += 1
    case .forget(let id):
      // The asker of a refused credential is answered by the same event.
      if credentials[id]?.state != .putting && !isGone(id) { complain("\(id) is forgotten, and wanted") }
      // A credential that had already expired when it was read was never restored.
      if credentials.removeValue(forKey: id) == nil, forgotten.contains(id) { complain("\(id) is forgotten twice") }
      forgotten.insert(id)
    case .changed, .log: break
    }
  }

  private func isGone(_ id: SpoolID) -> Bool {
    switch credentials[id]?.state {
    case .removed, .expired, nil: true
    case .putting, .kept, .accepted: false
    }
  }

  private mutating func answer(_ number: Int, _ error: StoreError?) {
    guard let asker = askers.removeValue(forKey: number) else { return complain("asker \(number) is answered twice") }
    counts["\(asker.purpose)", default: 0] += 1
    if script.now > asker.until { complain("asker \(number) waited too long") }
    if let error {
      if asker.purpose != .put || error.reason != .spoolFull { complain("asker \(number) hears \(error)") }
      return
    }
    if let id = asker.id, credentials[id]?.state == .putting { credentials[id]?.state = .kept }
    // While the disk works, the answer is definite.
    guard script.vault.trouble == nil else { return }
    counts["\(asker.purpose) well", default: 0] += 1
    guard let id = asker.id else {
      if let work = script.vault.work, !isInspecting, script.now < asker.until {
        complain("it is not idle: \(work.kind)")
      }
      for (id, verdict) in verdicts where script.now < asker.until && files[id] != nil && !isGone(id) {
        if files[id]?.verdict != verdict { complain("the verdict on \(id) is not on the disk") }
        counts["verdict on the disk", default: 0] += 1
      }
      return
    }
    switch asker.purpose {
    case .put: if files[id] == nil, !isGone(id) { complain("\(id) is not on the disk") }
    case .accept: if files[id]?.isAccepted != true, !isGone(id) { complain("\(id) is not accepted on the disk") }
    case .remove: if files[id] != nil { complain("\(id) is still on the disk") }
    case .idle: break
    }
  }

  private var isInspecting: Bool { if case .inspect? = script.vault.work?.kind { true } else { false } }

  /// Checks that memory holds no credential that is already on the disk, or that is no longer needed.
  private mutating func checkMemory() {
    for kept in script.vault.entries.values {
      if kept.isOnDisk && kept.record != nil { complain("\(kept.id) is in memory twice") }
      if isGone(kept.id) && kept.verdict != nil {
        complain("the verdict on \(kept.id) is in memory, and nobody wants it")
      }
      let verdict = CredentialRecord.size(ofVerdict: verdicts[kept.id]?.count ?? 0)
      if !isGone(kept.id) && kept.size != Self.record.fileSize + verdict {
        complain("\(kept.id) has \(kept.size) bytes")
      }
      if isGone(kept.id) && kept.record != nil { complain("\(kept.id) is in memory, and nobody wants it") }
      if !isGone(kept.id) && !kept.isOnDisk && kept.record == nil { complain("\(kept.id) is lost") }
      if isGone(kept.id) != (kept.status == .unwanted) { complain("\(kept.id) is \(kept.status)") }
    }
    let kept = credentials.filter { $0.value.state == .kept || $0.value.state == .accepted }
    for id in kept.keys where script.vault.entries[id] == nil { complain("\(id) is lost") }
    if script.vault.bytes > script.vault.settings.maximumBytes { complain("too much is kept") }
  }
}
