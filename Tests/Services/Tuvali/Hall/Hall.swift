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

/// A kiosk and its visitors on one simulated air, in virtual time.
@LoopActor
public final class Hall {
  public let time = VirtualTime()
  public let air: AirSpace
  public let kioskRadio: AirRadio
  /// The kiosk's radio as its services share it.
  public let sharedRadio: SharedRadio
  public let verifier: VerifierService
  public private(set) var wallets: [WalletService] = []
  public private(set) var walletRadios: [AirRadio] = []
  /// Texts of the credentials the kiosk received, in order.
  public private(set) var received: [[UInt8]] = []
  /// What chose the keys of the kiosk, and of each wallet.
  public let kioskRandom: RecordingRandom
  public private(set) var walletRandoms: [RecordingRandom] = []
  /// Whether the local program fetches each credential, as it comes.
  public var takes = true
  /// What the local program says to a credential, at once; nil says nothing.
  public var judge: (@LoopActor (Transfer) -> Bool)?
  public let seed: UInt64
  /// What checks credentials, if anything does.
  public let checker: StandInChecker

  public init(
    seed: UInt64 = 1, conditions: AirConditions = AirConditions(), dialects: [Dialect] = [.v05],
    decision: VerifierService.Settings.Decision = .accept, keptTransfers: Int = 16, links: Int = 64,
    vault: (@LoopActor (VirtualTime) -> VaultKeeper)? = nil, check: CheckPolicy = CheckPolicy(),
    checker answer: @escaping @LoopActor ([UInt8]) -> [StandInChecker.Step] = { _ in [] },
    configure: (inout VerifierEngine.Configuration) -> Void = { _ in }
  ) {
    self.seed = seed
    air = AirSpace(scheduler: time, seed: seed, conditions: conditions)
    kioskRadio = air.addNode()
    var limits = LinkLimits()
    limits.links = links
    // What a kiosk does with a crowd is the verifier's affair here; the radio's own bound is tried by itself.
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

  private func received(_ transfer: Transfer) {
    // What an earlier run has kept is the test's to take.
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

  /// Runs until both sides of `transfer` are through and nobody else is served, at most `limit` of virtual time.
  public func finish(_ transfer: Transfer, limit: Duration = .seconds(900)) -> Bool {
    time.run(until: { !transfer.isLive && self.verifier.visitors == 0 }, limit: limit)
  }

  /// One visit of a new wallet from beginning to end.
  public func visit(
    _ credential: [UInt8], _ configuration: WalletEngine.Configuration = .init(), limit: Duration = .seconds(900)
  ) throws(TuvaliError) -> (outgoing: Transfer, ended: Bool) {
    let transfer = try addWallet(configuration).send(verifier.connectionURI, credential)
    return (transfer, finish(transfer, limit: limit))
  }

  /// Whether the last credential that came is this one, byte for byte. (A comparison in place would print both.)
  public func hasReceived(_ credential: [UInt8]) -> Bool { received.last == credential }

  /// The kiosk's side of the last visit.
  public var incoming: Transfer? { verifier.transfers.transfers.last }
}

/// Text of `count` bytes that does not compress well.
public func sampleCredential(_ count: Int, seed: UInt64 = 7) -> [UInt8] {
  var random = SeededRandom(seed: seed)
  return random.bytes(count).map { 0x21 + $0 % 0x5E }
}
