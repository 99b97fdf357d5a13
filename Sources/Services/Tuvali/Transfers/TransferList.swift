import Checking
import Common
import Loop
import Radio

/// The transfers of a service, the present ones and the last of those that ended: a bounded number.
@LoopActor
public final class TransferList {
  public private(set) var transfers: [Transfer] = []
  /// How many are kept.
  public var limit: Int
  /// Where their numbers are from.
  public let numbers: TransferNumbers

  private let scheduler: any Scheduler
  private let clock: any WallClock
  private let added = Observers<Transfer>()
  private let removed = Observers<Transfer>()

  /// - Parameter clock: tells the dates of what was received.
  public init(
    limit: Int, scheduler: any Scheduler, numbers: TransferNumbers = TransferNumbers(),
    clock: any WallClock = SystemWallClock()
  ) {
    self.limit = limit
    self.scheduler = scheduler
    self.numbers = numbers
    self.clock = clock
  }

  /// Calls `added` with each transfer that comes, and `removed` with each that goes.
  public func observe(
    added: @escaping @LoopActor (Transfer) -> Void, removed: @escaping @LoopActor (Transfer) -> Void
  ) {
    self.added.addForGood(added)
    self.removed.addForGood(removed)
  }

  /// - Parameter number: the number that the transfer had in an earlier run; nil draws one.
  public func add(_ direction: Transfer.Direction, _ state: Transfer.State, number: Int? = nil) -> Transfer {
    makeRoom()
    let known = number.flatMap { number in transfers.contains { $0.number == number } ? nil : number }
    let transfer = Transfer(
      number: known ?? numbers.next(), direction: direction, state: state, scheduler: scheduler, clock: clock)
    transfers.append(transfer)
    added.call(transfer)
    return transfer
  }

  /// An incoming transfer of an earlier run, whose credential waits for its verdict, or to be taken.
  ///
  /// - Parameters:
  ///   - number: the transfer's number in that run; nil where it is not known.
  ///   - verdict: what the checker said about the credential in that run; nil if it was not checked.
  public func restore(
    _ credential: [UInt8], number: Int? = nil, peer: String, dialect: String, isAccepted: Bool = false,
    verdict: CheckVerdict? = nil
  ) -> Transfer {
    let transfer = add(.incoming, .connected, number: number)
    transfer.beganEarlier()
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

  /// Credentials that wait for a verdict, or to be taken.
  public var waitingCredentials: Int {
    transfers.count { $0.text != nil }
  }

  /// Those that ended go, the oldest first: first of all those that failed, so that nobody pushes out what was received by
  /// failing. One whose credential nobody has judged, or nobody has taken, never goes.
  private func makeRoom() {
    while transfers.count >= limit {
      let ended = transfers.filter { !$0.isLive && $0.state.isEnd && $0.text == nil }
      guard let first = ended.first(where: { $0.state == .failed }) ?? ended.first else { return }
      remove(first)
    }
  }
}
