import Air
import Common
import Hall
import Loop
import Transfers
import Tuvali
import Wallet

/// A person with a phone who transfers one credential, and retries until it is accepted.
@LoopActor
final class HonestVisitor {
  /// Some 9 kB a second, with chunks of 505 bytes: the pace of an iPhone, which sends 182 bytes in 20 ms.
  static let pace = AirConditions(latency: .milliseconds(55), maximumMTU: 517)
  /// Time from reading the screen to the first packet of the phone.
  private static let scanTime = Duration.seconds(1)
  /// Time from a failure to the next reading of the screen.
  private static let pause = Duration.seconds(2)

  /// Time from arrival to the verdict; nil before it.
  private(set) var wait: Duration?
  private(set) var attempts = 0

  private let hall: Hall
  private let wallet: WalletService
  private let radio: AirRadio
  private let credential: [UInt8]
  private let arrival: Instant
  private var current: Transfer?
  private var timer: Registration?

  init(in hall: Hall, bringing credential: [UInt8]) {
    self.hall = hall
    self.credential = credential
    var configuration = WalletEngine.Configuration()
    // The code on the screen has changed meanwhile.
    configuration.scanTimeout = .seconds(3)
    wallet = hall.addWallet(configuration)
    radio = hall.walletRadios[hall.walletRadios.count - 1]
    arrival = hall.time.now
    look()
  }

  private func look() {
    let code = hall.verifier.connectionURI
    timer = hall.time.schedule(after: Self.scanTime) { [weak self] in self?.send(code) }
  }

  private func send(_ code: String) {
    attempts += 1
    guard let transfer = try? wallet.send(code, credential) else { return lookAgain() }
    current = transfer
    transfer.onChange { [weak self] in self?.changed($0) }
  }

  private func changed(_ transfer: Transfer) {
    guard current === transfer else { return }
    if transfer.state == .accepted {
      (wait, current) = (arrival.duration(to: hall.time.now), nil)
    } else if !transfer.isLive {
      current = nil
      lookAgain()
    }
  }

  private func lookAgain() {
    timer = hall.time.schedule(after: Self.pause) { [weak self] in self?.look() }
  }

  /// Removes its phone from the simulated radio after its link has ended.
  func leave() {
    timer = nil
    if wallet.active == 0 { hall.air.removeNode(radio) }
  }
}

/// Waiting times of clients in seconds.
struct Waits: CustomStringConvertible {
  private let seconds: [Double]

  /// - Parameter waits: nil for a client that was not served, which counts as an infinite wait.
  init(_ waits: [Duration?]) {
    seconds = waits.map { $0.map { $0 / Duration.seconds(1) } ?? .infinity }.sorted()
  }

  /// The waiting time that this percentage did not exceed.
  func percentile(_ share: Int) -> Double { seconds[(seconds.count * share + 99) / 100 - 1] }

  var description: String {
    let words = [50, 95].map { share -> String in
      let wait = percentile(share)
      return "p\(share) " + (wait.isFinite ? "\(Double(Int(wait * 10)) / 10) s" : "never")
    }
    return words.joined(separator: ", ")
  }
}
