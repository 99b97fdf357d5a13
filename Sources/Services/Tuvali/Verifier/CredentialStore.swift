import Bytes
import Checking
import Common
import Crypto
import Journal
import Loop
import Store
import Transfers

/// Stores received credentials until they are judged and fetched. A `CredentialStorePlan` decides; this class performs
/// its actions, disk operations outside of the loop, and reports results and time.
@LoopActor
public final class CredentialStore {
  public typealias Opening = @Sendable () throws(StoreError) -> RecordSpool

  private let scheduler: any Scheduler
  private let disk: any Offloading
  let clock: any WallClock
  private let open: Opening?
  private var random: any RandomSource
  private weak var list: TransferList?
  private var onRestored: @LoopActor (Transfer) -> Void = { _ in }
  private var onChange: @LoopActor () -> Void = {}

  private(set) var vault: CredentialStorePlan
  private var spool: RecordSpool?
  /// Record names by number of the transfer.
  private var ids: [Int: SpoolID] = [:]
  private var transfers: [SpoolID: Transfer] = [:]
  private var askers: [Int: @LoopActor (StoreError?) -> Void] = [:]
  private var lastAsker = 0
  private var clockWatch: Registration?
  private lazy var timer = Deadline(scheduler) { [weak self] in self?.handle(.timer) }

  /// - Parameters:
  ///   - disk: worker for `open` and all operations on the spool; nil for the scheduler.
  ///   - random: source of file names.
  ///   - open: opens the spool when first needed, and again after a failure; nil stores credentials in memory only.
  public init(
    _ settings: CredentialStoreSettings = .init(), scheduler: any Scheduler, disk: (any Offloading)? = nil,
    clock: any WallClock = SystemWallClock(), random: any RandomSource = SystemRandom(), open: Opening? = nil
  ) {
    vault = CredentialStorePlan(settings, hasDisk: open != nil)
    self.scheduler = scheduler
    self.disk = disk ?? scheduler
    self.clock = clock
    self.random = random
    self.open = open
    guard open != nil else { return }
    clockWatch = clock.onSet { [weak self] in self?.handle(.clockSet) }
  }

  public var settings: CredentialStoreSettings {
    get { vault.settings }
    set { handle(.settings(newValue)) }
  }

  // MARK: For the service

  /// Sets the list to which credentials of an earlier run are added.
  ///
  /// - Parameters:
  ///   - changed: called when `trouble` has changed.
  ///   - restored: called for each restored credential without a verdict.
  func attach(
    _ list: TransferList, changed: @escaping @LoopActor () -> Void,
    restored: @escaping @LoopActor (Transfer) -> Void
  ) {
    self.list = list
    if open != nil {
      let strays = TransferNumbers.strays
      let place = random.bytes(8).reduce(0) { $0 << 8 | UInt64($1) } % UInt64(strays.count)
      list.numbers.keep(strayFrom: strays.lowerBound + Int(place)) { [weak self] in self?.handle(.numbersWanted) }
    }
    onChange = changed
    onRestored = restored
  }

  /// Stores a credential.
  ///
  /// - Parameter then: called on the loop when the credential is durable, or with an error if there is no capacity. If
  ///   the disk fails or hangs, the credential is stored in memory without an error.
  func put(_ credential: [UInt8], of transfer: Transfer, then: @escaping @LoopActor (StoreError?) -> Void) {
    let peer = transfer.peer?.description ?? ""
    let record: CredentialRecord
    do throws(WireError) {
      record = try CredentialRecord(
        dialect: transfer.dialect, peer: peer, credential: credential, number: UInt64(clamping: transfer.number))
    } catch {
      return then(StoreError(.tooLarge, "The credential cannot be stored: \(error)."))
    }
    let id = SpoolID(randomFrom: &random)
    enter(transfer, as: id)
    handle(.put(id, record, asker: asker(then)))
  }

  /// Records that a credential is accepted. It is stored until a program fetches it.
  ///
  /// - Parameter then: called when this is durable, or the disk fails.
  func accept(_ transfer: Transfer, then: @escaping @LoopActor () -> Void = {}) {
    guard let id = ids[transfer.number] else { return then() }
    handle(.accept(id, asker: asker { _ in then() }))
  }

  /// Stores the checker's verdict beside its credential.
  ///
  /// - Returns: false if there is no capacity for it, or no such credential. The verdict then does not survive a
  ///   restart, and its document must be dropped from memory.
  func note(_ verdict: CheckVerdict, of transfer: Transfer) -> Bool {
    guard let id = ids[transfer.number], vault.hasRoom(forVerdict: verdict.document.count, of: id) else { return false }
    // A failed check is not stored, so that the credential is checked again at the next start.
    if verdict.failure == nil { handle(.verdict(id, verdict.document)) }
    return true
  }

  /// Erases a credential that is no longer needed, or whose wallet was not notified of success.
  ///
  /// - Parameter then: called when the removal is durable, or the disk fails.
  func remove(_ transfer: Transfer, then: @escaping @LoopActor () -> Void = {}) {
    guard let id = ids[transfer.number] else { return then() }
    handle(.remove(id, asker: asker { _ in then() }))
  }

  /// Restores the credentials of an earlier run outside of the loop, as transfers that wait for their verdict or to be
  /// fetched. `whenIdle` reports the end. A hanging disk blocks
  /// nothing; its credentials are restored when it answers.
  func begin() { handle(.start) }

  /// Calls `then` when no disk operation is due except failed ones, or after `limit`.
  public func whenIdle(within limit: Duration, then: @escaping @LoopActor () -> Void) {
    handle(.awaitIdle(asker: asker { _ in then() }, limit: limit))
  }

  /// Worst problem of storing credentials over a restart; nil if there is none.
  public var trouble: StoreError? { vault.trouble }

  /// Short sentence for `systemctl status`; empty if there is no problem.
  public var troubleInShort: String { vault.troubleInShort }

  /// Number of stored credentials, and of files to be erased.
  var kept: (waiting: Int, erasing: Int) { vault.kept }

  // MARK: The store

  func handle(_ event: CredentialStorePlan.Event) {
    for action in vault.handle(event, at: scheduler.now, date: clock.seconds) { perform(action) }
    showWaiting()
    if case .clockSet = event { for transfer in list?.transfers ?? [] { transfer.clockWasSet() } }
    timer.set(vault.deadline)
  }

  /// Updates since when the credentials of transfers wait, and until when.
  private func showWaiting() {
    for (id, transfer) in transfers {
      let kept = vault.entries[id].flatMap { transfer.text == nil || $0.status == .unwanted ? nil : $0 }
      transfer.wait(kept.map { $0.received..<max($0.received, vault.end(of: $0)) })
    }
  }

  private func perform(_ action: CredentialStorePlan.Action) {
    switch action {
    case .open, .inspect, .put, .accept, .verdict, .erase, .redate, .note: performOnDisk(action)
    case .numbers(let numbers): list?.numbers.add(numbers)
    case .answer(let asker, let error): askers.removeValue(forKey: asker)?(error)
    case .restore(let id, let record, let isAccepted): restore(id, record, isAccepted: isAccepted)
    case .expire(let id, let isAccepted):
      guard let transfer = transfers[id] else { return }
      log(expired: transfer, isAccepted: isAccepted)
      transfer.forget()
    case .forget(let id):
      guard let transfer = transfers.removeValue(forKey: id) else { return }
      ids[transfer.number] = nil
      transfer.wait(nil)
    case .changed: onChange()
    case .log(let notice): log(notice)
    }
  }

  private func restore(_ id: SpoolID, _ record: CredentialRecord, isAccepted: Bool) {
    guard let list else { return }
    let transfer = list.restore(
      record.credential, number: record.number == 0 ? nil : Int(exactly: record.number), peer: record.peer,
      dialect: record.dialect, isAccepted: isAccepted, verdict: try? CheckReply.verdict(inDocument: record.verdict))
    enter(transfer, as: id)
    onRestored(transfer)
  }

  private func enter(_ transfer: Transfer, as id: SpoolID) {
    ids[transfer.number] = id
    transfers[id] = transfer
  }

  private func asker(_ then: @escaping @LoopActor (StoreError?) -> Void) -> Int {
    lastAsker += 1
    askers[lastAsker] = then
    return lastAsker
  }

  // MARK: Disk

  private typealias Opened = Result<(spool: RecordSpool, found: CredentialStorePlan.Found), StoreError>

  private func performOnDisk(_ action: CredentialStorePlan.Action) {
    switch action {
    case .open(let look):
      guard let open else { return }
      run({ () throws(StoreError) in try Self.open(open, look).get() }, then: { $0.opened($1) })
    case .inspect(let look):
      onSpool({ (spool) throws(StoreError) in try Self.look(look, into: spool) }, then: { $0.handle(.inspected($1)) })
    case .put(let id, let record, let date, let isAccepted):
      let mark = CredentialRecord.Mark(isAccepted: isAccepted).rawValue
      change { (spool) throws(StoreError) in
        try spool.put(SpoolRecord(received: date, mark: mark, content: record.content), as: id)
      }
    case .accept(let id):
      let mark = CredentialRecord.Mark.accepted.rawValue
      change { (spool) throws(StoreError) in try spool.mark(id, as: mark) }
    case .verdict(let id, let verdict):
      change { (spool) throws(StoreError) in
        try spool.rewrite(id) { (content) throws(WireError) in
          var record = try CredentialRecord(reading: content)
          record.verdict = verdict
          return record.content
        }
      }
    case .erase(let id): change { (spool) throws(StoreError) in try spool.remove(id) }
    case .redate(let id, let date): change { (spool) throws(StoreError) in try spool.redate(id, received: date) }
    case .note(let note): change { (spool) throws(StoreError) in try spool.write(note: note.bytes) }
    case .numbers, .answer, .restore, .expire, .forget, .changed, .log: break
    }
  }

  /// Opens the spool, inspects it, and reserves numbers for this run.
  private nonisolated static func open(_ open: Opening, _ look: CredentialStorePlan.Look) -> Opened {
    do throws(StoreError) {
      let spool = try open()
      var found = try Self.look(look, into: spool)
      found.note = try CredentialStoreNote.read(from: spool, found.contents.entries.map(\.value)) {
        UInt64(Int.random(in: TransferNumbers.strays))
      }
      var note = found.note
      let numbers = note.takeBlock()
      // If this write fails, the store retries and reports it.
      if (try? spool.write(note: note.bytes)) != nil { (found.note, found.numbers) = (note, numbers) }
      return .success((spool, found))
    } catch {
      return .failure(error)
    }
  }

  private nonisolated static func look(
    _ look: CredentialStorePlan.Look, into spool: RecordSpool
  ) throws(StoreError) -> CredentialStorePlan.Found {
    let tooOld = look.date.map {
      spool.removeAll(olderThan: look.keepFor, now: $0, epoch: CredentialStorePlan.epoch, except: look.except).removed
        .count
    }
    let contents = try spool.list(except: look.except, room: (.max, look.room)) { (record) throws(WireError) in
      try CredentialRecord(reading: record)
    }
    return CredentialStorePlan.Found(contents: contents, tooOld: tooOld ?? 0)
  }

  private func opened(_ result: Opened) {
    switch result {
    case .success(let (spool, found)):
      self.spool = spool
      log(keyOf: spool)
      handle(.opened(.success(found)))
    case .failure(let error): handle(.opened(.failure(error)))
    }
  }

  private func change(_ work: @escaping @Sendable (RecordSpool) throws(StoreError) -> Void) {
    onSpool(work) { keeper, result in
      switch result {
      case .success: keeper.handle(.done(nil))
      case .failure(let error): keeper.handle(.done(error))
      }
    }
  }

  private func onSpool<Value: Sendable>(
    _ work: @escaping @Sendable (RecordSpool) throws(StoreError) -> Value,
    then: @escaping @LoopActor (CredentialStore, Result<Value, StoreError>) -> Void
  ) {
    guard let spool else { return }
    run({ () throws(StoreError) in try work(spool) }, then: then)
  }

  /// Runs `work` on the disk, outside of the loop.
  private func run<Value: Sendable>(
    _ work: @escaping @Sendable () throws(StoreError) -> Value,
    then: @escaping @LoopActor (CredentialStore, Result<Value, StoreError>) -> Void
  ) {
    let attempt: @Sendable () -> Result<Value, StoreError> = {
      do throws(StoreError) { return .success(try work()) } catch { return .failure(error) }
    }
    disk.offload(attempt) { [weak self] result in
      if let self { then(self, result) }
    }
  }

  // MARK: Journal

  private func log(_ notice: CredentialStorePlan.Notice) {
    switch notice {
    case .degraded(let trouble, let error):
      Log.shared.error("\(trouble.sentence): \(error)", id: .storeDegraded, .error(error))
    case .recovered: Log.shared.notice("Credentials are stored on the disk again")
    case .restored(let count):
      Log.shared.notice("\(count) stored credentials from before the start were restored", id: .storeRestored)
    case .withoutRoom(let count):
      Log.shared.warning("\(count) stored credentials wait on the disk until there is capacity to load them")
    case .tooOld(let count):
      Log.shared.warning("\(count) stored credentials waited longer than KeepFor= and were erased")
    case .redated(let count):
      Log.shared.notice("The wall clock was set: the dates of \(count) stored credentials were corrected")
    }
  }

  private func log(expired transfer: Transfer, isAccepted: Bool) {
    let purpose: String = isAccepted ? "a program to fetch it" : "a verdict"
    Log.shared.warning(
      "A credential waited longer than KeepFor= for \(purpose) and was erased", .transfer("\(transfer.number)"))
  }

  /// Logs the origin of the spool's key once, and possible problems with it.
  private func log(keyOf spool: RecordSpool) {
    let key = spool.key
    let origin: String =
      switch key.origin {
      case .systemCredential: "systemd's credential \(SpoolKey.credentialName)"
      case .stateDirectory: "the state directory"
      case .made: "the state directory, where it was created now"
      }
    Log.shared.info("Credentials are stored on the disk, encrypted with the key from \(origin)")
    if key.isMissingFromCredentials {
      Log.shared.warning(
        "systemd passes credentials, but none named \(SpoolKey.credentialName): the key in the state directory is used")
    }
    if key.origin == .made, spool.count > 0 {
      Log.shared.warning("Stored credentials cannot be read: they are encrypted with a different key")
    }
  }
}
