import Bytes
import Checking
import Common
import Crypto
import Loop
import Store
import Transfers

/// Keeps received credentials until they are judged and fetched. A `CredentialVault` decides; the keeper carries out what
/// it decides, on the disk away from the loop, and tells it what became of that, and what time it is.
@LoopActor
public final class VaultKeeper {
  public typealias Opening = @Sendable () throws(StoreError) -> RecordSpool

  private let scheduler: any Scheduler
  let disk: any Offloading
  let clock: any WallClock
  let open: Opening?
  private var random: any RandomSource
  private weak var list: TransferList?
  private var onRestored: @LoopActor (Transfer) -> Void = { _ in }
  private var onChange: @LoopActor () -> Void = {}

  private(set) var vault: CredentialVault
  var spool: RecordSpool?
  /// The names of the credentials of transfers, by the transfers' numbers.
  private var ids: [Int: SpoolID] = [:]
  private var transfers: [SpoolID: Transfer] = [:]
  private var askers: [Int: @LoopActor (StoreError?) -> Void] = [:]
  private var lastAsker = 0
  private var clockWatch: Registration?
  private lazy var timer = Deadline(scheduler) { [weak self] in self?.handle(.timer) }

  /// - Parameters:
  ///   - disk: carries out `open` and all that is done with the spool; nil for the scheduler.
  ///   - random: draws the names of files.
  ///   - open: opens the spool, at the first need and again after a failure; nil keeps credentials in memory alone.
  public init(
    _ settings: VaultSettings = .init(), scheduler: any Scheduler, disk: (any Offloading)? = nil,
    clock: any WallClock = SystemWallClock(), random: any RandomSource = SystemRandom(), open: Opening? = nil
  ) {
    vault = CredentialVault(settings, hasDisk: open != nil)
    self.scheduler = scheduler
    self.disk = disk ?? scheduler
    self.clock = clock
    self.random = random
    self.open = open
    guard open != nil else { return }
    clockWatch = clock.onSet { [weak self] in self?.handle(.clockSet) }
  }

  public var settings: VaultSettings {
    get { vault.settings }
    set { handle(.settings(newValue)) }
  }

  // MARK: For the service

  /// Names the list that credentials of an earlier run are put on.
  ///
  /// - Parameters:
  ///   - changed: called when `trouble` has changed.
  ///   - restored: called for each credential that is restored and not judged yet.
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

  /// Keeps a credential.
  ///
  /// - Parameter then: called on the loop when the credential survives a loss of power, or with the reason why it is not
  ///   kept: there is no room. A disk that fails or hangs is no reason: the credential is then kept in memory.
  func put(_ credential: [UInt8], of transfer: Transfer, then: @escaping @LoopActor (StoreError?) -> Void) {
    let peer = transfer.peer?.description ?? ""
    let record: CredentialRecord
    do throws(WireError) {
      record = try CredentialRecord(
        dialect: transfer.dialect, peer: peer, credential: credential, number: UInt64(clamping: transfer.number))
    } catch {
      return then(StoreError(.tooLarge, "The credential cannot be kept: \(error)."))
    }
    let id = SpoolID(randomFrom: &random)
    enter(transfer, as: id)
    handle(.put(id, record, asker: asker(then)))
  }

  /// Notes that a credential is accepted; it is kept until a program fetches it.
  ///
  /// - Parameter then: called when that survives a loss of power, or the disk is in trouble.
  func accept(_ transfer: Transfer, then: @escaping @LoopActor () -> Void = {}) {
    guard let id = ids[transfer.number] else { return then() }
    handle(.accept(id, asker: asker { _ in then() }))
  }

  /// Stores the checker's verdict beside its credential.
  ///
  /// - Returns: false if there is no room for it, or no such credential: the verdict is not kept over a restart, and its document has
  ///   to go from memory.
  func note(_ verdict: CheckVerdict, of transfer: Transfer) -> Bool {
    guard let id = ids[transfer.number], vault.hasRoom(forVerdict: verdict.document.count, of: id) else { return false }
    // What another attempt may mend is not kept: the credential is checked again at the next start.
    if verdict.failure == nil { handle(.verdict(id, verdict.document)) }
    return true
  }

  /// Erases a credential: it is not wanted any more, or its wallet never heard of its success.
  ///
  /// - Parameter then: called when it does not come back after a loss of power, or the disk is in trouble.
  func remove(_ transfer: Transfer, then: @escaping @LoopActor () -> Void = {}) {
    guard let id = ids[transfer.number] else { return then() }
    handle(.remove(id, asker: asker { _ in then() }))
  }

  /// Restores the credentials of an earlier run, as transfers that wait for their verdict or to be fetched. This waits for
  /// the disk.
  func restore() {
    for action in vault.handle(.start, at: scheduler.now, date: clock.seconds) {
      if case .open(let look) = action, let open { opened(Self.open(open, look)) } else { perform(action) }
    }
    showWaiting()
    timer.set(vault.deadline)
  }

  /// Restores the same away from the loop. `whenIdle` says when that is done; a disk that hangs holds nothing up, and what it has
  /// comes when it answers.
  func begin() { handle(.start) }

  /// Calls `then` when nothing is to be done on the disk except what it refused, after `limit` at the latest.
  public func whenIdle(within limit: Duration, then: @escaping @LoopActor () -> Void) {
    handle(.awaitIdle(asker: asker { _ in then() }, limit: limit))
  }

  /// What is wrong with keeping credentials over a restart; nil when nothing is.
  public var trouble: StoreError? { vault.trouble }

  /// The same for `systemctl status`: a few words; empty when nothing is wrong.
  public var troubleInShort: String { vault.troubleInShort }

  /// How many credentials are kept, and how many files are still to be erased.
  var kept: (waiting: Int, erasing: Int) { vault.kept }

  // MARK: The vault

  func handle(_ event: CredentialVault.Event) {
    for action in vault.handle(event, at: scheduler.now, date: clock.seconds) { perform(action) }
    showWaiting()
    if case .clockSet = event { for transfer in list?.transfers ?? [] { transfer.clockWasSet() } }
    timer.set(vault.deadline)
  }

  /// Lets the transfers tell since when their credentials wait, and until when.
  private func showWaiting() {
    for (id, transfer) in transfers {
      let kept = vault.entries[id].flatMap { transfer.text == nil || $0.status == .unwanted ? nil : $0 }
      transfer.wait(kept.map { $0.received..<max($0.received, vault.end(of: $0)) })
    }
  }

  private func perform(_ action: CredentialVault.Action) {
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
}
