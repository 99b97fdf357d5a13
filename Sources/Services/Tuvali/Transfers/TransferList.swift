import Checking
import Common
import Loop
import Radio

/// Transfers of a service: current ones, and a bounded number of ended ones.
@LoopActor
public final class TransferList {
  public private(set) var transfers: [Transfer] = []
  /// Maximum number of transfers in the list, current and ended ones together.
  public var limit: Int
  /// Source of the numbers of new transfers.
  public let numbers: TransferNumbers

  private let scheduler: any Scheduler
  private let clock: any WallClock
  private let added = Observers<Transfer>()
  private let removed = Observers<Transfer>()

  /// - Parameter clock: provides the dates of receptions.
  public init(
    limit: Int, scheduler: any Scheduler, numbers: TransferNumbers = TransferNumbers(),
    clock: any WallClock = SystemWallClock()
  ) {
    self.limit = limit
    self.scheduler = scheduler
    self.numbers = numbers
    self.clock = clock
  }

  /// Calls `added` for each new transfer, and `removed` for each removed one.
  public func observe(
    added: @escaping @LoopActor (Transfer) -> Void, removed: @escaping @LoopActor (Transfer) -> Void
  ) {
    self.added.addForGood(added)
    self.removed.addForGood(removed)
  }

  /// - Parameter number: number of the transfer in an earlier run; nil for a new one.
  public func add(_ direction: Transfer.Direction, _ state: Transfer.State, number: Int? = nil) -> Transfer {
    makeRoom()
    let known = number.flatMap { number in transfers.contains { $0.number == number } ? nil : number }
    let transfer = Transfer(
      number: known ?? numbers.next(), direction: direction, state: state, scheduler: scheduler, clock: clock)
    transfers.append(transfer)
    added.call(transfer)
    return transfer
  }

  /// Restores an incoming transfer of an earlier run, whose credential waits for its verdict or to be fetched.
  ///
  /// - Parameters:
  ///   - number: number of the transfer in that run; nil if unknown.
  ///   - verdict: verdict of the checker in that run; nil if the credential was not checked.
  public func restore(
    _ credential: [UInt8], number: Int? = nil, peer: String, dialect: String, isAccepted: Bool = false,
    verdict: CheckVerdict? = nil
  ) -> Transfer {
    let transfer = add(.incoming, .connected, number: number)
    transfer.beganEarlier(isDecided: isAccepted)
    transfer.met(BluetoothAddress(peer), dialect: dialect)
    transfer.receive(credential)
    if let verdict { transfer.note(.done(verdict)) }
    transfer.enter(isAccepted ? .accepted : .received)
    transfer.end()
    return transfer
  }

  public func remove(_ transfer: Transfer) {
    guard let index = transfers.firstIndex(where: { $0 === transfer }) else { return }
    transfers.remove(at: index)
    removed.call(transfer)
  }

  /// Number of credentials that wait for a verdict or to be fetched.
  public var waitingCredentials: Int {
    transfers.count { $0.text != nil }
  }

  /// Removes ended transfers at the limit: failed ones first, so that failures do not displace received credentials,
  /// then the oldest. A transfer with a credential is never removed.
  private func makeRoom() {
    while transfers.count >= limit {
      let ended = transfers.filter { !$0.isLive && $0.state.isEnd && $0.text == nil }
      guard let first = ended.first(where: { $0.state == .failed }) ?? ended.first else { return }
      remove(first)
    }
  }
}
