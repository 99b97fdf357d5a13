import Air
import Common
import Crypto
import Hall
import Loop
import Radio
import TestSupport
import Testing
import Transfers
import Tuvali
import Wallet

/// A QR code may come from an attacker.
@Suite("A wallet and malicious verifiers", .serialized)
struct HostileVerifierTests {
  init() { EventLoop.shared.runInBackground() }

  @Test(
    "With each of 2,000 random verifiers the wallet's transfer ends in time with a named error",
    arguments: Seeds.many.prefix(10))
  func hostileVerifiers(seed: UInt64) async throws {
    try await LoopActor.run {
      let log = CapturedLog()
      defer { log.close() }
      var credentials: [[UInt8]] = []
      var ends: [Transfer.State: Int] = [:]
      for number in 0..<200 {
        let dice = seed &* 1000 &+ UInt64(number)
        var chance = Dice(dice)
        let time = VirtualTime()
        let conditions = AirConditions(
          latency: .microseconds(chance.below(8000)),
          maximumMTU: chance.below(6) == 0 ? 23 + chance.below(60) : 67 + chance.below(450),
          notificationLoss: 0.1, reorder: 0.1, duplicate: 0.1)
        let air = AirSpace(scheduler: time, seed: dice, conditions: conditions)
        let radio = air.addNode().tenant(time)
        let impostor = try Impostor(on: radio, time: time, seed: dice)
        let source = SeededRandom(seed: dice)
        let wallet = WalletService(radio: air.addNode().tenant(time), scheduler: time, random: { source })
        let credential = sampleCredential(1 + chance.below(3000), seed: dice)
        credentials.append(credential)
        let transfer = try wallet.send(impostor.uri, credential)
        let ended = time.run(until: { !transfer.isLive }, limit: .seconds(1000))
        if !ended { Issue.record("verifier \(dice): the transfer is still \(transfer.state)") }
        ends[transfer.state, default: 0] += 1
        if !transfer.state.isEnd { Issue.record("verifier \(dice): it ended as \(transfer.state)") }
        if transfer.state == .failed, transfer.error == nil {
          Issue.record("verifier \(dice): it failed without a name")
        }
        impostor.stop()
        if wallet.active > 0 { Issue.record("verifier \(dice): something is still under way") }
        if !time.runUntilIdle(limit: .seconds(24 * 3600)) { Issue.record("verifier \(dice): timers without an end") }
        if !air.links.isEmpty { Issue.record("verifier \(dice): a link is left") }
      }
      #expect(ends.count >= 3, "only these ends: \(ends)")
      #expect(log.complaints(of: "Wallet").count >= ends[.failed, default: 0])
      #expect(log.shown(of: credentials) == 0)
    }
  }

  @Test(
    "A slow verifier occupies a wallet for at most 15 min", arguments: [true, false], Seeds.usual)
  func slowVerifier(isLimited: Bool, seed: UInt64) async throws {
    try await LoopActor.run {
      let time = VirtualTime()
      let air = AirSpace(scheduler: time, seed: seed, conditions: AirConditions(latency: .seconds(1)))
      let slow = SlowVerifier(time)
      let invitation = try slow.open(on: air.addNode().tenant(time))
      var configuration = WalletEngine.Configuration()
      configuration.connectTimeout = .seconds(60)
      if !isLimited { configuration.transferTimeout = .seconds(24 * 3600) }
      let wallet = WalletService(
        radio: air.addNode().tenant(time), scheduler: time, settings: .init(engine: configuration))
      let transfer = try wallet.send(invitation, sampleCredential(20_000))
      #expect(time.run(until: { !transfer.isLive }, limit: .seconds(905)) == isLimited)
      #expect(transfer.state == (isLimited ? .failed : .transferring), "\(transfer.error?.sentence ?? "")")
      #expect((transfer.error as? TuvaliError)?.reason == (isLimited ? .timeout : nil))
      wallet.stop()
      #expect(time.runUntilIdle(limit: .seconds(60)) && wallet.active == 0 && air.links.isEmpty, "seed \(seed)")
    }
  }

  /// Requests all chunks again and again.
  @LoopActor
  private final class SlowVerifier: GATTServerDelegate {
    private let time: VirtualTime
    private var server: (any GATTServer)?
    private var advertisement: Registration?
    private var timers: [Registration] = []

    init(_ time: VirtualTime) { self.time = time }

    func open(on radio: any Radio) throws -> String {
      var random = SeededRandom(seed: 1)
      let invitation = try Invitation(name: "SLOW", key: X25519.PrivateKey(randomFrom: &random).publicKey)
      advertisement = try radio.advertise(Dialect.v05.advertisement(for: invitation))
      server = radio.serve(GATTApplication(services: [Dialect.v05.gattService]), delegate: self)
      return invitation.text(as: .uri)
    }

    func linkOpened(_ link: LinkID, address: BluetoothAddress, since: Instant) {}
    func linkChanged(_ link: LinkID, mtu: Int) {}
    func linkClosed(_ link: LinkID) {}

    func written(_ value: [UInt8], to id: CharacteristicID, on link: LinkID) throws(ATTError) {
      guard id == Dialect.v05.id(of: .transferReportRequest), timers.count < 60 else { return }
      timers.append(
        time.schedule(after: .milliseconds(40)) { [weak self] in
          let report = TransferReport.missing(Array(1...39), totalPages: 1)
          self?.server?.notify(report.bytes, of: Dialect.v05.id(of: .transferReportResponse), to: .link(link))
        })
    }
  }
}
