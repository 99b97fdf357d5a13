import Air
import Checking
import Common
import Glibc
import LocalSockets
import Loop
import Radio
import Sharing
import Transfers
import Tuvali
import Verifier
import Wallet

/// Measures the check of credentials through a socket and with one process for each, like the units but without their
/// sandbox. The results are verdicts per second for each format, and the time from the end of a transfer to the
/// verdict. The part is skipped if Python lacks the checker's dependencies.
@LoopActor
final class CheckBench {
  private static let formats = [
    ("ldp_vc, RSA", "ldp-RsaSignature2018-RS256.json"), ("ldp_vc, EdDSA", "ldp-eddsa-rdfc-2022-EdDSA.json"),
    ("SD-JWT", "sdjwt-ES256.txt"), ("mdoc", "mdoc-ES256.txt"),
  ]
  private static let checks = 12
  private static let transfers = 7

  private let folder: String
  private let process: Process
  private let checker: SocketChecker

  static func run() async -> [Figure] {
    guard let bench = CheckBench() else {
      FileHandleError.write("Checks were not measured: Tests/Check is missing, or scripts/check-socket cannot run.\n")
      return []
    }
    var figures: [Figure] = []
    for (format, file) in formats {
      guard let rate = await bench.rate(of: file) else { continue }
      figures.append(.more("credentials checked, \(format), 2 at a time", rate, "1/s"))
    }
    if let time = await bench.timeAfterTransfer() {
      figures.append(.less("from the end of a transfer to its verdict", time, "ms", goal: 500))
    }
    return figures
  }

  private init?() {
    var template = Array("/tmp/earshot-check.XXXXXX".utf8CString)
    guard let made = mkdtemp(&template) else { return nil }
    folder = String(cString: made)
    // The checker refuses a trust folder that other users can write, and a checkout may be such a folder.
    let prepare = "cp -r Tests/Check/samples/trust \(folder)/trust && chmod -R go-w \(folder)/trust"
    guard (try? Process("/bin/sh", ["-c", prepare]))?.wait() != nil,
      access("\(folder)/trust", R_OK) == 0,
      let process = try? Process("scripts/check-socket", ["\(folder)/socket", "\(folder)/trust"])
    else { return nil }
    self.process = process
    for _ in 0..<200 where access("\(folder)/socket", F_OK) != 0 { usleep(20_000) }
    guard access("\(folder)/socket", F_OK) == 0 else { return nil }
    checker = SocketChecker(path: "\(folder)/socket", connector: SocketConnector(), scheduler: EventLoop.shared)
  }

  deinit { (try? Process("/bin/rm", ["-rf", folder]))?.wait() }

  private func sample(_ name: String) -> [UInt8]? {
    guard let file = fopen("Tests/Check/samples/\(name)", "r") else { return nil }
    defer { fclose(file) }
    var bytes = [UInt8](repeating: 0, count: 1 << 20)
    let count = fread(&bytes, 1, bytes.count, file)
    return Array(bytes.prefix(count))
  }

  /// Verdicts per second; nil if a check failed.
  private func rate(of name: String) async -> Double? {
    guard let credential = sample(name) else { return nil }
    let queue = CheckQueue(checker)
    let begin = EventLoop.shared.now
    var (done, failed) = (0, 0)
    await withCheckedContinuation { continuation in
      for number in 0..<Self.checks {
        queue.add(number, credential: { credential }) { verdict in
          done += 1
          if verdict.failure != nil { failed += 1 }
          if done == Self.checks { continuation.resume() }
        }
      }
    }
    let seconds = Double(begin.duration(to: EventLoop.shared.now) / .milliseconds(1)) / 1000
    return failed == 0 ? Double(Self.checks) / seconds : nil
  }

  /// The median time of several transfers on the simulated radio, in milliseconds.
  private func timeAfterTransfer() async -> Double? {
    guard let credential = sample(Self.formats[0].1) else { return nil }
    let air = AirSpace(scheduler: EventLoop.shared, seed: 1, conditions: AirConditions(latency: .zero))
    let share = LinkShare(needs: 1, may: 64, priority: 10)
    func radio() -> any Radio {
      SharedRadio(driver: air.addNode(), scheduler: EventLoop.shared).tenant("bench", share: share)
    }
    var settings = VerifierService.Settings(engine: .init(name: "BENCH"), decision: .check)
    settings.check = CheckPolicy(isOn: true, onUndecided: .reject)
    let verifier = VerifierService(
      radio: radio(), scheduler: EventLoop.shared, settings: settings, checker: checker)
    let wallet = WalletService(radio: radio(), scheduler: EventLoop.shared)
    var began = EventLoop.shared.now
    var times: [Double] = []
    var next: CheckedContinuation<Void, Never>?
    verifier.observe(
      changed: {}, received: { _ in began = EventLoop.shared.now },
      checked: { _ in times.append(Double(began.duration(to: EventLoop.shared.now) / .microseconds(1)) / 1000) })
    _ = verifier.start()
    for _ in 0..<Self.transfers {
      guard let transfer = try? wallet.send(verifier.connectionURI, credential) else { return nil }
      transfer.onChange { transfer in
        guard !transfer.isLive else { return }
        next?.resume()
        next = nil
      }
      await withCheckedContinuation { next = $0 }
      for transfer in verifier.transfers.transfers where transfer.state == .accepted { verifier.taken(transfer) }
    }
    verifier.stop()
    return times.isEmpty ? nil : times.sorted()[times.count / 2]
  }
}
