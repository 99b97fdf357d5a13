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

@testable import Verifier

/// Complete malicious transfers, generated at random.
@Suite("A verifier and malicious wallets", .serialized)
struct HostileWalletTests {
  typealias Write = (to: Characteristic, value: [UInt8], kind: WriteKind)

  init() { EventLoop.shared.runInBackground() }

  /// Number of scripts per test case; there are two cases of each kind, and eight with `ALL=1`.
  private static let count = 1250
  private static let seeds = Seeds.many.prefix(Extent.of(2, all: 8))

  @Test("Random sequences of writes do not stop the verifier", arguments: seeds)
  func randomScripts(seed: UInt64) async throws {
    try await play("random scripts", seed, received: 0) { dice, _ in
      (0..<dice.below(12)).map { _ in
        let value = dice.below(12) == 0 ? dice.bytes(dice.below(530)) : dice.bytes(dice.below(60))
        return (Characteristic.allCases[dice.below(9)], value, dice.below(2) == 0 ? .request : .command)
      }
    }
  }

  @Test("Mutated sequences of valid writes do not stop the verifier", arguments: seeds)
  func mutatedScripts(seed: UInt64) async throws {
    try await play("mutated scripts", seed, received: 10) { dice, uri in
      let (identify, keys) = try Phone.identify(to: uri, seed: dice.next())
      let frame = try Sealing(text: sampleCredential(1 + dice.below(900), seed: dice.next()), keys: keys).run().get()
      let good = try Phone.writes(of: frame, mtu: 185)
      var script: [Write] = [(.identify, identify, .request)]
      script += good.map { ($0.0, $0.1, $0.0 == .submitResponse ? .command : .request) }
      for _ in 0...dice.below(4) {
        let index = dice.below(script.count)
        guard index < script.count else { break }
        switch dice.below(6) {
        case 0: script.remove(at: index)
        case 1: script.insert(script[index], at: dice.below(script.count))
        case 2: script.swapAt(index, dice.below(script.count))
        case 3: script[index].to = Characteristic.allCases[dice.below(9)]
        case 4: script = Array(script[...index])
        default: script[index].value = dice.mutated(script[index].value)
        }
      }
      return script
    }
  }

  /// Plays scripts one after the other. After each, the kiosk waits and stores nothing, and sometimes serves a
  /// client.
  private func play(
    _ fault: String, _ seed: UInt64, received: Int, _ make: @Sendable (inout Dice, String) throws -> [Write]
  ) async throws {
    // In parts, so that other tests get time on the loop.
    for part in 0..<5 {
      try await LoopActor.run {
        var dice = Dice(seed &* 100 &+ UInt64(part))
        let hall = Hall(seed: seed, conditions: AirConditions(latency: .zero))
        try Trial.run("\(fault), part \(part)", hall) { trial in
          let phone = Phone(in: hall)
          for number in 0..<Self.count / 5 {
            let script = try make(&dice, hall.verifier.connectionURI)
            phone.connect(mtu: [185, 185, 185, 185, 517, 67, 23, nil][dice.below(8)], subscribing: false)
            for write in script { phone.write(write.value, to: write.to, as: write.kind) }
            // Random time until the wallet disconnects: during the transfer, or only after the answer.
            let patience = Duration.milliseconds([100, 150, 200, 3000, 75_000][dice.below(5)])
            hall.time.run(until: { phone.isThrough }, limit: .milliseconds(1000))
            hall.time.run(until: { !phone.isConnected }, limit: patience)
            phone.leave()
            let isBack = hall.time.run(
              until: { hall.verifier.state == .waiting && hall.verifier.held == .init() }, limit: .seconds(1))
            trial.check(isBack, "after script \(number) the kiosk holds \(hall.verifier.held): \(script)")
            guard isBack else { return }
            phone.forget()
          }
          trial.check(hall.verifier.transfers.transfers.count <= 17, "the list has no end")
          let counters = hall.verifier.counters
          trial.check(
            counters.visits > 5 && counters.failed > 5 && counters.ignoredWrites > 20 && counters.received >= received,
            "the scripts are too tame: \(counters)")
          try trial.expectOrdinaryVisit()
        }
      }
    }
  }
}
