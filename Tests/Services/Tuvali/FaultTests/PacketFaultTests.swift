import Air
import Common
import Hall
import Loop
import TestSupport
import Testing
import Transfers
import Tuvali

@testable import Verifier

/// Packets that arrive twice, late, changed or cut short, at every step of a transfer and in either direction.
@Suite("Faulty packets in credential transfers", .serialized)
struct PacketFaultTests {
  init() { EventLoop.shared.runInBackground() }

  enum Fault: String, CaseIterable, Sendable {
    case lost, doubled, late, flipped, truncated, emptied, prolonged, replaced

    func verdict(_ packet: AirPacket, _ dice: inout Dice) -> AirVerdict {
      var value = packet.value
      switch self {
      case .lost: return .drop
      case .doubled: return .duplicate
      case .late: return .delay(.milliseconds(5 + dice.below(200)))
      case .flipped where value.isEmpty: return .deliver
      case .flipped: value[dice.below(value.count)] ^= 1 << UInt8(dice.below(8))
      case .truncated: value = Array(value.prefix(dice.below(value.count)))
      case .emptied: value = []
      case .prolonged: value += dice.bytes(1 + dice.below(8))
      case .replaced: value = dice.bytes(dice.below(185))
      }
      return .corrupt(value)
    }
  }

  @Test(
    "A single faulty packet of any kind does not prevent the next transfer", arguments: Fault.allCases, Seeds.few)
  func anyPacket(fault: Fault, seed: UInt64) async throws {
    try await LoopActor.run {
      var dice = Dice(seed)
      for number in 0... {
        let hall = Hall(seed: seed)
        var conditions = Trial.quick
        let striker = Striker(at: number, where: { _ in true }) { fault.verdict($0, &dice) }
        conditions.filter = striker.judge
        hall.air.conditions = conditions
        try Trial.run("packet \(number) \(fault.rawValue)", hall) { trial in
          let (transfer, _) = try trial.send()
          trial.check(hall.time.run(until: { trial.isOver }, limit: .seconds(63)), "it takes over 63 s")
          trial.check(transfer.state.isEnd, "the wallet's end is \(transfer.state)")
          trial.expectHonesty()
          guard striker.hasStruck else { return }
          trial.expectWaiting(within: .seconds(1))
          trial.expectComplaints()
          try trial.expectOrdinaryVisit()
        }
        guard striker.hasStruck else { return #expect(number > 8) }
      }
    }
  }

  @Test(
    "With 10% faulty packets in both directions both sides end a transfer with the correct result",
    arguments: Seeds.many)
  func everythingAtOnce(seed: UInt64) async throws {
    try await LoopActor.run {
      var dice = Dice(seed)
      let hall = Hall(seed: seed)
      var conditions = AirConditions(
        maximumMTU: 67 + dice.below(450), commandLoss: 0.1, reorder: 0.2, duplicate: 0.1)
      let striker = Striker(at: 0, throughout: true, where: { _ in dice.below(10) == 0 }) { packet in
        [Fault.flipped, .truncated, .doubled, .late, .prolonged][dice.below(5)].verdict(packet, &dice)
      }
      conditions.filter = striker.judge
      hall.air.conditions = conditions
      try Trial.run("storm", hall) { trial in
        try trial.send(1 + dice.below(6000))
        trial.check(hall.time.run(until: { trial.isOver }, limit: .seconds(120)), "it takes over 120 s")
        trial.expectHonesty()
        trial.expectWaiting(within: .seconds(1))
        trial.expectComplaints()
        try trial.expectOrdinaryVisit()
      }
    }
  }
}
