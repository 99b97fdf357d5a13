import Common
import Hall
import Loop
import Testing
import Transfers
import Tuvali
import Wallet

@testable import Air
@testable import Verifier

/// One fault in one hall: what has to hold after it, and how to say which one it was when it does not.
///
/// The suites are serialized: they keep the loop busy, and tests that wait for the outside world want it, too.
@LoopActor
final class Trial {
  let hall: Hall
  let log: CapturedLog
  /// Which fault it is, with the place where it strikes.
  let fault: String
  private let firstURI: String
  private(set) var credentials: [[UInt8]] = []
  private(set) var outgoing: [Transfer] = []

  static let quick = AirConditions(maximumMTU: 185)

  /// Runs `body` with a log of its own, and looks for secrets in what it wrote.
  static func run(_ fault: String, _ hall: Hall, _ body: (Trial) throws -> Void) rethrows {
    let trial = Trial(fault, hall)
    defer { trial.log.close() }
    try body(trial)
    trial.expectNoSecrets()
  }

  private init(_ fault: String, _ hall: Hall) {
    log = CapturedLog()
    self.hall = hall
    self.fault = "\(fault), seed \(hall.seed)"
    firstURI = hall.verifier.connectionURI
  }

  func check(_ condition: Bool, _ sentence: @autoclosure () -> String, _ location: SourceLocation = #_sourceLocation) {
    if !condition { Issue.record("\(fault): \(sentence())", sourceLocation: location) }
  }

  /// A wallet sets out with a credential.
  @discardableResult
  func send(
    _ count: Int = 700, _ configuration: WalletEngine.Configuration = .init()
  ) throws -> (transfer: Transfer, wallet: WalletService) {
    let credential = sampleCredential(count, seed: UInt64(credentials.count) + 50)
    let wallet = hall.addWallet(configuration)
    let transfer = try wallet.send(hall.verifier.connectionURI, credential)
    credentials.append(credential)
    outgoing.append(transfer)
    return (transfer, wallet)
  }

  /// The kiosk waits, with a fresh key if the old one was used, and keeps nothing of who was there.
  func expectWaiting(within limit: Duration, _ location: SourceLocation = #_sourceLocation) {
    let kiosk = hall.verifier
    let start = hall.time.now
    let isBack = hall.time.run(
      until: { [.waiting, .full].contains(kiosk.state) && kiosk.held == .init() }, limit: limit)
    check(
      isBack, "after \(start.duration(to: hall.time.now)) it is \(kiosk.state) and holds \(kiosk.held)", location)
    if kiosk.counters.visits > 0 { check(kiosk.connectionURI != firstURI, "the key is the old one", location) }
  }

  /// The wallet's side of a transfer is through.
  func expectEnd(of transfer: Transfer, within limit: Duration, _ location: SourceLocation = #_sourceLocation) {
    let ended = hall.time.run(until: { !transfer.isLive }, limit: limit)
    check(ended && transfer.state.isEnd, "the wallet is still \(transfer.state) after \(limit)", location)
  }

  /// A wallet that comes now is served, on an air without faults; and after it nothing at all is left.
  func expectOrdinaryVisit(_ location: SourceLocation = #_sourceLocation) throws {
    hall.air.conditions = AirConditions(maximumMTU: 185)
    let (transfer, _) = try send(300)
    let ended = hall.finish(transfer, limit: .seconds(60))
    check(
      ended && transfer.state == .accepted && hall.hasReceived(credentials.last ?? []),
      "the next wallet's visit is \(transfer.state): \(transfer.error?.sentence ?? "no error")", location)
    expectNothingLeft(location)
  }

  /// Nobody is connected, nothing is timed, nobody is on the way.
  func expectNothingLeft(_ location: SourceLocation = #_sourceLocation) {
    let unjudged = hall.verifier.transfers.transfers.count { $0.state == .received }
    let waiting = hall.verifier.vault.kept.waiting
    check(waiting == unjudged, "the vault keeps \(waiting) of \(unjudged) credentials", location)
    let isIdle = hall.time.runUntilIdle(limit: .seconds(24 * 3600))
    check(isIdle && hall.time.pending == 0, "\(hall.time.pending) events never end", location)
    check(hall.verifier.held == .init(), "the kiosk holds \(hall.verifier.held)", location)
    let kept = hall.verifier.vault.kept
    check(kept == (0, 0), "the vault keeps \(kept.waiting) and erases \(kept.erasing)", location)
    check(hall.air.links.isEmpty, "\(hall.air.links.count) links are left", location)
    let (air, radio) = (hall.air, hall.kioskRadio)
    check(radio.attempts.isEmpty && radio.ends.isEmpty, "somebody is still connecting", location)
    check(air.scans.isEmpty, "somebody is still looking", location)
    let shown = air.onAir.values.filter { $0.node === radio }.count
    check(shown == hall.verifier.settings.dialects.count, "\(shown) advertisements are on the air", location)
    check(radio.applications.count == 1, "it serves \(radio.applications.count) applications", location)
    check(hall.wallets.allSatisfy { $0.active == 0 }, "a wallet is still under way", location)
    check(!hall.verifier.transfers.transfers.contains(where: \.isLive), "a transfer lives on", location)
    check(outgoing.allSatisfy { !$0.isLive && $0.state.isEnd }, "a wallet's transfer lives on", location)
  }

  /// Neither a wallet is under way, nor the kiosk serving one.
  var isOver: Bool { hall.verifier.visitors == 0 && outgoing.allSatisfy { !$0.isLive } }

  /// What the kiosk received is what was sent; and who is told of a success has had one.
  func expectHonesty(_ location: SourceLocation = #_sourceLocation) {
    check(hall.received.allSatisfy(credentials.contains), "something was received that nobody has sent", location)
    for (transfer, credential) in zip(outgoing, credentials) where [.received, .accepted].contains(transfer.state) {
      check(hall.received.contains(credential), "a wallet believes in a success that was none", location)
    }
  }

  /// Whoever reads the journal learns of each failure.
  func expectComplaints(_ location: SourceLocation = #_sourceLocation) {
    let isUnjudged = hall.incoming?.state == .received
    if hall.verifier.counters.failed > 0 || isUnjudged {
      check(!log.complaints(of: "Verifier").isEmpty, "the journal knows nothing of the kiosk's failure", location)
    }
    if outgoing.contains(where: { $0.state == .failed || $0.state == .undecided }) {
      check(!log.complaints(of: "Wallet").isEmpty, "the journal knows nothing of the wallet's failure", location)
    }
  }

  private func expectNoSecrets() {
    let keys = CapturedLog.secrets(
      kiosk: hall.kioskRandom.drawn(32), wallets: hall.walletRandoms.flatMap { $0.drawn(32) })
    check(log.shown(of: keys) == 0, "a key is in the journal")
    check(log.shown(of: credentials) == 0, "a credential is in the journal")
  }
}
