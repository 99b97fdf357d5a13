import Air
import Common
import Hall
import Loop
import Radio
import TestSupport
import Testing
import Transfers
import Tuvali
import Wallet

@testable import Verifier

/// A radio that refuses at once: no adapter, or powered off.
@Suite("A wallet whose radio refuses operations", .serialized)
struct RefusingRadioTests {
  init() { EventLoop.shared.runInBackground() }

  @Test(
    "If the radio refuses an operation, the transfer fails at once with its error, which is logged once",
    arguments: [RefusingRadio.Refusal.scan, .connect], [1, 2, 3] as [UInt64])
  func refused(refusal: RefusingRadio.Refusal, seed: UInt64) async throws {
    try await LoopActor.run {
      try Trial.run("the radio refuses to \(refusal)", Hall(seed: seed, conditions: Trial.quick)) { trial in
        let hall = trial.hall
        let wallet = WalletService(
          radio: RefusingRadio(hall.air.addNode().tenant(hall.time), refusal), scheduler: hall.time)
        let transfer = try wallet.send(hall.verifier.connectionURI, sampleCredential(500))
        trial.expectEnd(of: transfer, within: .seconds(3))
        hall.time.run(until: { !transfer.isLive }, limit: .seconds(3))
        let error = transfer.error as? TuvaliError
        trial.check(error?.reason == .radioRefused, "the reason is \(String(describing: error?.reason))")
        trial.check(error?.sentence == RefusingRadio.words, "the words are \(error?.sentence ?? "none")")
        trial.check(wallet.active == 0 && wallet.counters.failed == 1, "\(wallet.active), \(wallet.counters)")
        trial.check(trial.log.complaints(of: "Wallet").count == 1, "\(trial.log.complaints(of: "Wallet").count) lines")
        try trial.expectOrdinaryVisit()
      }
    }
  }
}

/// A radio with one fault.
@LoopActor
final class RefusingRadio: Radio {
  enum Refusal: String, CustomStringConvertible, Sendable {
    case scan, connect

    var description: String { rawValue }
  }

  nonisolated static let words = "The adapter hci7 is switched off."

  private let radio: any Radio
  private let refusal: Refusal

  init(_ radio: any Radio, _ refusal: Refusal) {
    (self.radio, self.refusal) = (radio, refusal)
  }

  func askForQuiet() -> Registration { radio.askForQuiet() }

  var isQuietWanted: Bool { radio.isQuietWanted }

  var isPersonAwaited: Bool { radio.isPersonAwaited }

  func onQuiet(_ handler: @escaping @LoopActor (Bool) -> Void) -> Registration { radio.onQuiet(handler) }

  var status: RadioStatus { radio.status }

  func onStatus(_ handler: @escaping @LoopActor (RadioStatus) -> Void) -> Registration { radio.onStatus(handler) }

  var tallies: [Tally] { radio.tallies }

  func advertise(
    _ advertisement: Advertisement, _ terms: AdvertisingTerms, for server: (any GATTServer)?
  ) throws(RadioError) -> Registration {
    try radio.advertise(advertisement, terms, for: server)
  }

  func serve(_ application: GATTApplication, delegate: any GATTServerDelegate) -> any GATTServer {
    radio.serve(application, delegate: delegate)
  }

  func scan(
    for services: [BluetoothUUID], _ handler: @escaping @LoopActor (ScanEvent) -> Void
  ) throws(RadioError) -> Registration {
    guard refusal != .scan else { throw .notReady(Self.words) }
    return try radio.scan(for: services, handler)
  }

  var advertisingUse: AdvertisingUse { radio.advertisingUse }

  func advertisingSet(
    _ terms: AdvertisingTerms, every interval: Duration, resting: AdvertisingData?
  ) throws(RadioError) -> any AdvertisingSet {
    try radio.advertisingSet(terms, every: interval, resting: resting)
  }

  func listen(
    for patterns: [AdvertisingPattern], _ handler: @escaping @LoopActor (AdvertisingPacket) -> Void
  ) throws(RadioError) -> Registration {
    try radio.listen(for: patterns, handler)
  }

  func allow(_ backlog: Backlog, on link: LinkID) { radio.allow(backlog, on: link) }

  func onLinkWanted(_ handler: @escaping @LoopActor ([LinkID]) -> LinkID?) { radio.onLinkWanted(handler) }

  func connect(
    to address: BluetoothAddress, _ handler: @escaping @LoopActor (LinkEvent) -> Void
  ) throws(RadioError) -> any Link {
    guard refusal != .connect else { throw .notReady(Self.words) }
    return try radio.connect(to: address, handler)
  }
}
