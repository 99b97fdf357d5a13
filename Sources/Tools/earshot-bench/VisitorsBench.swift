import Air
import Common
import Loop
import Radio
import Sharing
import Transfers
import Tuvali
import Verifier
import Wallet

/// Number of wallets that a kiosk serves while there is always a queue. It runs in virtual time, on the simulated radio
/// at a phone's rate: the result depends on the rules of the service, not on the processor's speed.
@LoopActor
final class VisitorsBench {
  /// Radio conditions of a phone: about 8 kB per second, with chunks of 505 bytes.
  private static let pace = AirConditions(latency: .milliseconds(62), maximumMTU: 517)
  private static let credentialBytes = 100_000
  /// Time from looking at the screen until the phone has read the code and sends.
  private static let scanTime = Duration.seconds(1)
  /// Time from a failure to the next look at the screen.
  private static let pause = Duration.seconds(2)
  private static let minutes = 20

  static func run() -> [Figure] {
    [1, 4].map { places in
      let bench = VisitorsBench(places: places)
      bench.next()
      bench.time.advance(by: .seconds(60 * minutes))
      let rate = Double(bench.served) / Double(minutes)
      let words = places == 1 ? "one slot" : "\(places) slots"
      return .more("sessions, 100 KB each, \(words), virtual time", rate, "1/min")
    }
  }

  private let time = VirtualTime()
  private let radio: SharedRadio
  private let verifier: VerifierService
  /// The phones: one more than session slots, so that the first phone of the queue always finds one.
  private var phones: [(radio: SharedRadio, wallet: WalletService)] = []
  private var served = 0
  private var timer: Registration?

  private init(places: Int) {
    let air = AirSpace(scheduler: time, seed: 1, conditions: Self.pace)
    let share = LinkShare(needs: 1, may: 64, priority: 10)
    radio = SharedRadio(driver: air.addNode(), scheduler: time)
    var engine = VerifierEngine.Configuration(name: "BENCH")
    engine.visitors = places
    verifier = VerifierService(
      radio: radio.tenant("verifier", share: share), scheduler: time,
      settings: .init(engine: engine, decision: .accept))
    verifier.observe(changed: {}, received: { [weak self] in self?.verifier.taken($0) })
    var configuration = WalletEngine.Configuration()
    // The code on the screen may change meanwhile.
    configuration.scanTimeout = .seconds(3)
    for _ in 0...places {
      let radio = SharedRadio(driver: air.addNode(), scheduler: time)
      let wallet = WalletService(
        radio: radio.tenant("wallet", share: share), scheduler: time, settings: .init(engine: configuration))
      phones.append((radio, wallet))
    }
    _ = verifier.start()
  }

  /// Lets the first person in the queue look at the screen.
  private func next() {
    let code = verifier.connectionURI
    timer = time.schedule(after: Self.scanTime) { [weak self] in self?.send(code) }
  }

  private func lookAgain() {
    timer = time.schedule(after: Self.pause) { [weak self] in self?.next() }
  }

  private func send(_ code: String) {
    guard let phone = phones.first(where: { $0.wallet.active == 0 }),
      let transfer = try? phone.wallet.send(code, SystemRandomBytes.text(Self.credentialBytes))
    else { return lookAgain() }
    var isFirst = true
    transfer.onChange { [weak self] transfer in
      guard let self else { return }
      // The verifier has accepted the wallet: the next person looks at the screen.
      if isFirst, transfer.state == .transferring {
        isFirst = false
        next()
      }
      guard !transfer.isLive else { return }
      if transfer.state == .accepted { served += 1 }
      if isFirst {
        isFirst = false
        lookAgain()
      }
    }
  }
}
