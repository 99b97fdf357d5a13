import Air
import Common
import Crypto
import Loop
import Radio
import Transfers
import Tuvali
import Verifier
import Wallet

/// A kiosk and its visitors on one simulated air, in virtual time.
@LoopActor
final class Hall {
  let time = VirtualTime()
  let air: AirSpace
  let kioskRadio: AirRadio
  let verifier: VerifierService
  private(set) var wallets: [WalletService] = []
  private(set) var walletRadios: [AirRadio] = []
  /// Texts of the credentials the kiosk received, in order.
  private(set) var received: [[UInt8]] = []
  private let seed: UInt64

  init(
    seed: UInt64 = 1, conditions: AirConditions = AirConditions(), dialects: [Dialect] = [.v05],
    decision: VerifierService.Settings.Decision = .accept,
    configure: (inout VerifierEngine.Configuration) -> Void = { _ in }
  ) {
    self.seed = seed
    air = AirSpace(scheduler: time, seed: seed, conditions: conditions)
    kioskRadio = air.addNode()
    var engine = VerifierEngine.Configuration(name: "OVPMOSIP")
    configure(&engine)
    verifier = VerifierService(
      radio: kioskRadio, scheduler: time,
      settings: .init(engine: engine, dialects: dialects, decision: decision), random: SeededRandom(seed: seed))
    verifier.observe(
      changed: {},
      received: { [weak self] transfer in self?.received.append(transfer.credential ?? []) })
    _ = verifier.start()
  }

  func addWallet(_ configuration: WalletEngine.Configuration = .init()) -> WalletService {
    let radio = air.addNode()
    let source = SeededRandom(seed: seed &* 1000 &+ UInt64(wallets.count))
    let wallet = WalletService(
      radio: radio, scheduler: time, configuration: configuration, random: { source })
    wallets.append(wallet)
    walletRadios.append(radio)
    return wallet
  }

  /// Runs until both sides of `transfer` are through, at most `limit` of virtual time.
  func finish(_ transfer: Transfer, limit: Duration = .seconds(900)) -> Bool {
    time.run(until: { !transfer.isLive && self.verifier.state == .waiting }, limit: limit)
  }

  /// One visit of a new wallet from beginning to end.
  func visit(
    _ credential: [UInt8], _ configuration: WalletEngine.Configuration = .init(), limit: Duration = .seconds(900)
  ) throws(TuvaliError) -> (outgoing: Transfer, ended: Bool) {
    let transfer = try addWallet(configuration).send(verifier.connectionURI, credential)
    return (transfer, finish(transfer, limit: limit))
  }

  /// Whether the last credential that came is this one, byte for byte. (A comparison in place would print both.)
  func hasReceived(_ credential: [UInt8]) -> Bool { received.last == credential }

  /// The kiosk's side of the last visit.
  var incoming: Transfer? { verifier.transfers.transfers.last }
}

/// Text of `count` bytes that does not compress well.
func sampleCredential(_ count: Int, seed: UInt64 = 7) -> [UInt8] {
  var random = SeededRandom(seed: seed)
  return random.bytes(count).map { 0x21 + $0 % 0x5E }
}
