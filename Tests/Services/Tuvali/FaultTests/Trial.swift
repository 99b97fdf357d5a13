import Common
import Hall
import Loop
import Testing
import Transfers
import Tuvali
import Wallet

@testable import Air
@testable import Verifier

/// One fault in one hall: the conditions that must hold after it, and a description of the fault for failures.
///
/// The suites are serialized, because they occupy the loop, and tests that wait for other programs need it, too.
@LoopActor
final class Trial {
  let hall: Hall
  let log: CapturedLog
  /// Description of the fault, and of the event at which it happens.
  let fault: String
  private let firstURI: String
  private(set) var credentials: [[UInt8]] = []
  private(set) var outgoing: [Transfer] = []

  static let quick = AirConditions(maximumMTU: 185)

  /// Runs `body` with a log of its own, and searches the log for secrets.
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

  /// Starts a transfer of a credential by a wallet.
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

  /// Expects that the kiosk waits, with a fresh key if the old one was used, and has no record of the client.
  func expectWaiting(within limit: Duration, _ location: SourceLocation = #_sourceLocation) {
    let kiosk = hall.verifier
    let start = hall.time.now
    let isBack = hall.time.run(
      until: { [.waiting, .full].contains(kiosk.state) && kiosk.held == .init() }, limit: limit)
    check(
      isBack, "after \(start.duration(to: hall.time.now)) it is \(kiosk.state) and holds \(kiosk.held)", location)
    if kiosk.counters.visits > 0 { check(kiosk.connectionURI != firstURI, "the key is the old one", location) }
  }

  /// Expects that the wallet's side of a transfer has ended.
  func expectEnd(of transfer: Transfer, within limit: Duration, _ location: SourceLocation = #_sourceLocation) {
    let ended = hall.time.run(until: { !transfer.isLive }, limit: limit)
    check(ended && transfer.state.isEnd, "the wallet is still \(transfer.state) after \(limit)", location)
  }

  /// Expects that the next wallet is served without faults, and that nothing is left after it.
  func expectOrdinaryVisit(_ location: SourceLocation = #_sourceLocation) throws {
    hall.air.conditions = AirConditions(maximumMTU: 185)
    let (transfer, _) = try send(300)
    let ended = hall.finish(transfer, limit: .seconds(60))
    check(
      ended && transfer.state == .accepted && hall.hasReceived(credentials.last ?? []),
      "the next wallet's visit is \(transfer.state): \(transfer.error?.sentence ?? "no error")", location)
    expectNothingLeft(location)
  }

  /// Expects no connection, no timer and no packet under way.
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

  /// Whether no wallet is under way and the kiosk serves none.
  var isOver: Bool { hall.verifier.visitors == 0 && outgoing.allSatisfy { !$0.isLive } }

  /// Expects that each received credential equals the sent one, and that only successful wallets were notified of
  /// success.
  func expectHonesty(_ location: SourceLocation = #_sourceLocation) {
    check(hall.received.allSatisfy(credentials.contains), "something was received that nobody has sent", location)
    for (transfer, credential) in zip(outgoing, credentials) where [.received, .accepted].contains(transfer.state) {
      check(hall.received.contains(credential), "a wallet believes in a success that was none", location)
    }
  }

  /// Expects a log line for each failure.
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
