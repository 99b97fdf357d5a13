import Common
import Glibc
import Journal
import Loop
import Store
import Transfers

/// Where received credentials wait for their verdict: in memory, and in an encrypted spool where there is one, so that a
/// restart does not lose what a wallet was told is received.
@LoopActor
public final class CredentialVault {
  /// How long a credential waits for a verdict before it is erased.
  public var keepFor: Duration

  private let scheduler: any Scheduler
  private let spool: CredentialSpool?
  /// Why credentials are not kept over a restart; nil when they are.
  public private(set) var trouble: StoreError?
  private var waiting: [Int: Waiting] = [:]
  private lazy var expiry = Deadline(scheduler) { [weak self] in self?.expire() }

  private struct Waiting {
    let transfer: Transfer
    let id: SpoolID?
    let until: Instant
  }

  /// - Parameters:
  ///   - spool: nil keeps credentials in memory alone.
  ///   - trouble: why there is no spool, for those who ask.
  public init(
    _ spool: CredentialSpool?, trouble: StoreError? = nil, keepFor: Duration = .seconds(86_400),
    scheduler: any Scheduler
  ) {
    self.spool = spool
    self.trouble = trouble
    self.keepFor = keepFor
    self.scheduler = scheduler
  }

  /// Puts a credential away.
  ///
  /// - Parameter then: called on the loop when it is in safe hands, or with the reason why it cannot be taken: the spool
  ///   is full. A disk that fails is no reason: the credential is then kept in memory.
  func put(_ credential: [UInt8], of transfer: Transfer, then: @escaping @LoopActor (StoreError?) -> Void) {
    guard let spool else {
      keep(transfer, nil)
      return then(nil)
    }
    let entry = SpoolEntry(
      received: Self.wallClock(), dialect: transfer.dialect, peer: transfer.peer?.description ?? "",
      credential: credential)
    let work: @Sendable () -> Result<SpoolID, StoreError> = {
      Result { () throws(StoreError) in try spool.put(entry) }
    }
    scheduler.offload(work, then: { [weak self] in self?.put($0, transfer, then) })
  }

  private func put(
    _ result: Result<SpoolID, StoreError>, _ transfer: Transfer, _ then: @LoopActor (StoreError?) -> Void
  ) {
    switch result {
    case .success(let id):
      mend()
      keep(transfer, id)
      then(nil)
    case .failure(let error) where error.reason == .spoolFull: then(error)
    case .failure(let error):
      complain(error)
      keep(transfer, nil)
      then(nil)
    }
  }

  /// Erases a credential: it was judged, or its wallet never heard of its success.
  func remove(_ transfer: Transfer) {
    guard let entry = waiting.removeValue(forKey: transfer.number) else { return }
    schedule()
    guard let spool, let id = entry.id else { return }
    let work: @Sendable () -> Result<Void, StoreError> = {
      Result { () throws(StoreError) in try spool.remove(id) }
    }
    scheduler.offload(
      work,
      then: { [weak self] result in
        if case .failure(let error) = result { self?.complain(error) }
      })
  }

  /// The credentials of an earlier run, as transfers that wait for their verdict.
  func restore(into list: TransferList) {
    guard let spool else { return }
    let contents: SpoolContents
    do throws(StoreError) {
      contents = try spool.list()
    } catch {
      return complain(error)
    }
    for problem in contents.problems {
      Log.shared.error("A kept credential cannot be read: \(problem.error)", id: .storeDegraded, .error(problem.error))
    }
    let now = Self.wallClock()
    for restored in contents.credentials {
      let age = Duration.seconds(max(0, now - restored.entry.received))
      let transfer = list.restore(
        restored.entry.credential, peer: restored.entry.peer, dialect: restored.entry.dialect)
      waiting[transfer.number] = Waiting(
        transfer: transfer, id: restored.id, until: scheduler.now.advanced(by: keepFor - age))
    }
    schedule()
    guard !contents.credentials.isEmpty else { return }
    Log.shared.notice(
      "\(contents.credentials.count) credentials from before the start are here again", id: .storeRestored)
  }

  // MARK: Time

  private func keep(_ transfer: Transfer, _ id: SpoolID?) {
    waiting[transfer.number] = Waiting(transfer: transfer, id: id, until: scheduler.now.advanced(by: keepFor))
    schedule()
  }

  private func schedule() {
    expiry.set(waiting.values.map(\.until).min())
  }

  private func expire() {
    for entry in waiting.values where entry.until <= scheduler.now {
      Log.shared.warning(
        "A credential waited too long for a verdict and is erased", .transfer("\(entry.transfer.number)"))
      entry.transfer.forget()
      remove(entry.transfer)
    }
    schedule()
  }

  private static func wallClock() -> Int64 { Int64(time(nil)) }

  // MARK: Trouble

  private func complain(_ error: StoreError) {
    guard trouble != error else { return }
    trouble = error
    Log.shared.error("Credentials are kept in memory only: \(error)", id: .storeDegraded, .error(error))
  }

  private func mend() {
    guard trouble != nil else { return }
    trouble = nil
    Log.shared.notice("Credentials are kept over a restart again")
  }
}
