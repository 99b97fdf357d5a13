import Common
import Crypto
import Journal
import Loop
import Radio
import Transfers
import Tuvali

/// The wallet: brings credentials to verifiers, a bounded number at a time.
@LoopActor
public final class WalletService {
  /// Transfers under way at one time.
  public static let concurrentTransfers = 4

  public let transfers: TransferList
  public var configuration: WalletEngine.Configuration

  private let radio: any Radio
  let scheduler: any Scheduler
  private let random: @LoopActor () -> any RandomSource & Sendable
  private var sessions: [Int: WalletSession] = [:]

  /// - Parameter random: makes the source of each transfer's key and nonce.
  public init(
    radio: any Radio, scheduler: any Scheduler, configuration: WalletEngine.Configuration = .init(),
    keptTransfers: Int = 16, random: @escaping @LoopActor () -> any RandomSource & Sendable = { SystemRandom() }
  ) {
    self.radio = radio
    self.scheduler = scheduler
    self.configuration = configuration
    self.random = random
    transfers = TransferList(limit: keptTransfers, scheduler: scheduler)
  }

  /// Transfers under way.
  public var active: Int { sessions.count }

  /// Brings `credential` (UTF-8) to the verifier whose QR code says `invitation`.
  ///
  /// - Returns: the transfer, which has just begun.
  /// - Throws: what can be said at once: an invitation that is none, a credential that is empty, too large or not text,
  ///   too many transfers under way.
  public func send(_ invitation: String, _ credential: [UInt8]) throws(TuvaliError) -> Transfer {
    guard sessions.count < Self.concurrentTransfers else {
      throw TuvaliError(
        .walletUnknown, .limitExceeded, "\(Self.concurrentTransfers) transfers are under way. Wait for one to end.")
    }
    let engine = try WalletEngine(
      invitation: invitation, text: credential, configuration: configuration, random: random())
    let transfer = transfers.add(.outgoing, .searching)
    let session = WalletSession(engine, transfer, radio: radio, scheduler: scheduler) { [weak self] in
      self?.sessions[transfer.number] = nil
    }
    sessions[transfer.number] = session
    session.start()
    return transfer
  }

  /// Ends a transfer under way.
  ///
  /// - Returns: false where it has ended already.
  public func disconnect(_ transfer: Transfer) -> Bool {
    guard let session = sessions[transfer.number], session.transfer === transfer else { return false }
    session.stop()
    return true
  }

  /// Ends everything under way.
  public func stop() {
    for session in sessions.values { session.stop() }
  }
}
