import Air
import Checking
import Common
import Crypto
import Loop
import Radio
import Sharing
import TestSupport
import Transfers
import Tuvali
import Verifier
import Wallet

/// A kiosk and its clients on one simulated radio, in virtual time.
@LoopActor
public final class Hall {
  public let time = VirtualTime()
  public let air: AirSpace
  public let kioskRadio: AirRadio
  /// The kiosk's radio, shared by its services.
  public let sharedRadio: SharedRadio
  public let verifier: VerifierService
  public private(set) var wallets: [WalletService] = []
  public private(set) var walletRadios: [AirRadio] = []
  /// Texts of the credentials that the kiosk received, in order.
  public private(set) var received: [[UInt8]] = []
  /// Random sources of the kiosk's keys, and of each wallet's.
  public let kioskRandom: RecordingRandom
  public private(set) var walletRandoms: [RecordingRandom] = []
  /// Whether the local program fetches each credential when it arrives.
  public var takes = true
  /// The immediate verdict of the local program; nil for none.
  public var judge: (@LoopActor (Transfer) -> Bool)?
  public let seed: UInt64
  /// The credential checker, if any.
  public let checker: StandInChecker

  public init(
    seed: UInt64 = 1, conditions: AirConditions = AirConditions(), dialects: [Dialect] = [.v05],
    decision: VerifierService.Settings.Decision = .accept, keptTransfers: Int = 16, links: Int = 64,
    vault: (@LoopActor (VirtualTime) -> CredentialStore)? = nil, check: CheckPolicy = CheckPolicy(),
    checker answer: @escaping @LoopActor ([UInt8]) -> [StandInChecker.Step] = { _ in [] },
    configure: (inout VerifierEngine.Configuration) -> Void = { _ in }
  ) {
    self.seed = seed
    air = AirSpace(scheduler: time, seed: seed, conditions: conditions)
    kioskRadio = air.addNode()
    var limits = LinkLimits()
    limits.links = links
    // These tests cover the verifier's own limits; the limit of the radio has separate tests.
    limits.unusedLinks = links
    sharedRadio = SharedRadio(driver: kioskRadio, scheduler: time, limits: limits)
    kioskRandom = RecordingRandom(seed: seed)
    var engine = VerifierEngine.Configuration(name: "OVPMOSIP")
    configure(&engine)
    checker = StandInChecker(time, answer: answer)
    var settings = VerifierService.Settings(
      engine: engine, dialects: dialects, decision: decision, keptTransfers: keptTransfers)
    settings.check = check
    verifier = VerifierService(
      radio: sharedRadio.tenant("verifier", share: LinkShare(needs: 1, may: links, priority: 10)), scheduler: time,
      settings: settings, vault: vault?(time),
      checker: SocketChecker(path: "/run/checker", connector: checker, scheduler: time), random: kioskRandom)
    verifier.observe(
      changed: {},
      received: { [weak self] transfer in self?.received(transfer) })
    _ = verifier.start()
  }

  /// Restores the credentials of an earlier run, as the start of the service does, and waits for the disk.
  public func restore() {
    verifier.begin()
    verifier.whenRestored(within: .seconds(1)) {}
    time.advance(by: .zero)
  }

  private func received(_ transfer: Transfer) {
    // Credentials of an earlier run are left for the test to fetch.
    guard transfer.isLive else { return }
    received.append(transfer.credential ?? [])
    if takes { verifier.taken(transfer) }
    guard let judge else { return }
    // In a call of its own, as over the bus.
    time.soon { [verifier] in _ = verifier.decide(transfer, accepted: judge(transfer)) }
  }

  public func addWallet(_ configuration: WalletEngine.Configuration = .init()) -> WalletService {
    let radio = air.addNode()
    let source = RecordingRandom(seed: seed &* 1000 &+ UInt64(wallets.count))
    let wallet = WalletService(
      radio: radio.tenant(time), scheduler: time, settings: .init(engine: configuration), random: { source })
    wallets.append(wallet)
    walletRadios.append(radio)
    walletRandoms.append(source)
    return wallet
  }

  /// Runs until both sides of `transfer` have ended and no other client is served, at most for `limit` of virtual
  /// time.
  public func finish(_ transfer: Transfer, limit: Duration = .seconds(900)) -> Bool {
    time.run(until: { !transfer.isLive && self.verifier.visitors == 0 }, limit: limit)
  }

  /// Runs a complete transfer of a new wallet.
  public func visit(
    _ credential: [UInt8], _ configuration: WalletEngine.Configuration = .init(), limit: Duration = .seconds(900)
  ) throws(TuvaliError) -> (outgoing: Transfer, ended: Bool) {
    let transfer = try addWallet(configuration).send(verifier.connectionURI, credential)
    return (transfer, finish(transfer, limit: limit))
  }

  /// Whether the last received credential equals this one, byte for byte. A failed direct comparison would print both.
  public func hasReceived(_ credential: [UInt8]) -> Bool { received.last == credential }

  /// The kiosk's side of the last transfer.
  public var incoming: Transfer? { verifier.transfers.transfers.last }
}

/// Text of `count` bytes that does not compress well.
public func sampleCredential(_ count: Int, seed: UInt64 = 7) -> [UInt8] {
  var random = SeededRandom(seed: seed)
  return random.bytes(count).map { 0x21 + $0 % 0x5E }
}
