import Air
import BitchatWire
import Common
import Loop
import MeshField
import Radio
import TestSupport
import Testing

@testable import Mesh

/// The simulation `MeshField` has no GATT, no advertising and no services. Thirty complete services on the simulated
/// radio have all of them: both must give equal figures over the same links.
@Suite("Agreement of the mesh simulator with the mesh service")
struct AgreementTests {
  init() { EventLoop.shared.runInBackground() }

  private static let houses = 30
  private static let lines = 20

  /// Delivery of some public messages.
  private struct Figures {
    /// Share of reachable nodes that got a message within 3 s, and in the end.
    var prompt = 0.0
    var ever = 0.0
    /// Frames that carry a message during flooding, for each node that flooding reached.
    var frames = 0.0
  }

  @Test(
    "Over equal links simulator and mesh service differ by at most 3% in deliveries and 20% in frames",
    arguments: [0, 5])
  @LoopActor
  func agree(loss: Int) async throws {
    var links: [(Int32, Int32)] = []
    let whole = try services(loss: loss, &links)
    #expect(links.count >= Self.houses)
    let simulated = await field(loss: loss, links)
    // Prompt delivery differs by at most three in a hundred, final delivery by one in a hundred, frames by a fifth.
    #expect(abs(whole.prompt - simulated.prompt) <= 0.03, "\(whole) \(simulated)")
    #expect(abs(whole.ever - simulated.ever) <= 0.01, "\(whole) \(simulated)")
    #expect(abs(whole.frames - simulated.frames) <= 0.2 * simulated.frames, "\(whole) \(simulated)")
    // A node that received three copies does not relay: where all neighbours of a node did, flooding omits it.
    if loss == 0 { #expect(whole.prompt >= 0.99 && simulated.prompt >= 0.99) }
  }

  @LoopActor
  private func services(loss: Int, _ links: inout [(Int32, Int32)]) throws -> Figures {
    var conditions = AirConditions(
      commandLoss: Double(loss) / 100, notificationLoss: Double(loss) / 100)
    let count = Count()
    conditions.filter = { packet in
      count.see(packet.value)
      return .deliver
    }
    let village = Village(seed: 7, conditions: conditions)
    var dice = Dice(11)
    for house in 0..<Self.houses {
      // A cell of 4 m for each node, and a range of 10 m.
      let x = 4 * (Double(house % 6) + Double(dice.below(1000)) / 1000)
      let y = 4 * (Double(house / 6) + Double(dice.below(1000)) / 1000)
      village.add("house \(house)", at: x, off: y) { $0.links = 6 }
    }
    // Not after each event, because the check of all pairs is slow.
    for _ in 0..<180 where !village.isAcquainted { village.time.advance(by: .seconds(1)) }
    #expect(village.isAcquainted)
    village.time.advance(by: .seconds(30))
    for (one, house) in village.houses.enumerated() {
      let near = house.mesh.node.engine?.neighbours ?? []
      for (other, neighbour) in village.houses.enumerated() where one < other && near.contains(neighbour.id) {
        links.append((Int32(one), Int32(other)))
      }
    }
    var prompt = 0
    for line in 0..<Self.lines {
      let text = "line \(line)"
      _ = try village.houses[(7 * line) % Self.houses].mesh.messages.say(text)
      village.time.advance(by: .seconds(3))
      prompt += village.houses.count { $0.texts.contains(text) }
    }
    village.time.advance(by: .seconds(60))
    let ever = village.houses.reduce(0) { sum, house in
      sum + (0..<Self.lines).count { house.texts.contains("line \($0)") }
    }
    let all = Double(Self.lines * (Self.houses - 1))
    return Figures(
      prompt: Double(prompt) / all, ever: Double(ever) / all, frames: Double(count.lines) / Double(max(1, prompt)))
  }

  private func field(loss: Int, _ links: [(Int32, Int32)]) async -> Figures {
    var scenario = Scenario()
    scenario.field.nodes = Self.houses
    scenario.field.duration = .seconds(180)
    scenario.air.loss = loss
    scenario.air.latency = .microseconds(7500)...(.microseconds(7500))
    (scenario.talk.from, scenario.talk.until, scenario.talk.every) = (.seconds(60), .seconds(120), .seconds(3))
    var run = FieldRun(scenario, seed: 5, parts: 1, links: links)
    let results = await run.run()
    let had = results.everByHops.reduce((0, 0)) { ($0.0 + $1.had, $0.1 + $1.of) }
    return Figures(
      prompt: results.prompt(within: 30).value, ever: Double(had.0) / Double(max(1, had.1)),
      frames: results.cost.perNodeReached)
  }

  @LoopActor
  private final class Count {
    var lines = 0

    func see(_ value: [UInt8]) {
      guard let view = try? PacketView(value), view.type == .message, view.timeToLive > 0 else { return }
      lines += 1
    }
  }
}
