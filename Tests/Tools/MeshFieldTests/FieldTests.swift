import BitchatWire
import CommandLine
import Testing

@testable import MeshField

@Suite("Simulations of many nodes in virtual time")
struct FieldTests {
  /// Thirty nodes at the density of a large field.
  private func scenario(_ adjust: (inout Scenario) -> Void = { _ in }) -> Scenario {
    var scenario = Scenario()
    (scenario.field.nodes, scenario.field.width, scenario.field.height) = (30, 180, 180)
    scenario.field.duration = .seconds(45)
    (scenario.talk.from, scenario.talk.until, scenario.talk.every) = (.seconds(20), .seconds(40), .seconds(2))
    adjust(&scenario)
    return scenario
  }

  private func results(
    _ scenario: Scenario, seed: UInt64 = 1, parts: Int = 1, links: [(Int32, Int32)]? = nil,
    signatures: any SignatureChecking = SharedSignatures()
  ) async -> FieldResults {
    var run = FieldRun(scenario, seed: seed, parts: parts, signatures: signatures, links: links)
    return await run.run()
  }

  private func bytes(_ results: FieldResults) -> String {
    JSONWriter.write(results.json, .pretty) + results.text + results.drawings.map(\.svg).joined()
  }

  @Test("Simulations with equal seeds give equal results, in one part or in three; a different seed gives others")
  func isDeterministic() async {
    let busy = scenario {
      ($0.people.walkers, $0.people.churn, $0.people.apps, $0.people.away) = (30, 100, 30, .seconds(5))
      $0.talk.privateEvery = .seconds(3)
      $0.flood.share = 100
    }
    let once = bytes(await results(busy))
    let inParts = bytes(await results(busy, parts: 3))
    #expect(once == inParts)
    let other = bytes(await results(busy, seed: 2))
    #expect(once != other)
  }

  @Test("Without packet loss every simulated node receives every message at once, at no more than 4 frames per node")
  func losesNothing() async {
    let results = await results(scenario { $0.air.loss = 0 })
    #expect(results.messages == 10 && results.unsaid == 0 && results.lost == 0)
    #expect(results.links.fewest >= 1 && results.links.most <= 8)
    #expect(results.prompt(within: 7).of == 10 * 29)
    #expect(results.prompt(within: 7).value == 1)
    #expect(results.cost.reachedByFlood + results.cost.reachedByAnswer == 10 * 29)
    // A sync answer may arrive before the relayed message.
    #expect(results.cost.reachedByAnswer <= 10)
    #expect(results.cost.perNodeReached <= 4)
  }

  @Test("In a simulation without traffic, fewer than one in five wake-ups of a node are caused by a timer")
  func wakeUps() async {
    let columns: Int32 = 7
    let links = (0..<columns * columns).flatMap { node -> [(Int32, Int32)] in
      let (column, row) = (node % columns, node / columns)
      let others: [(Int32, Int32)] = [(1, 0), (0, 1), (1, 1), (-1, 1)]
      return others.compactMap { right, down in
        guard (0..<columns).contains(column + right), row + down < columns else { return nil }
        return (node, node + right + down * columns)
      }
    }
    let quiet = scenario {
      $0.field.nodes = Int(columns * columns)
      $0.talk.every = .zero
    }
    let results = await results(quiet, links: links)
    let wakeUps = results.wakeUps
    #expect(wakeUps.all > 1 && wakeUps.timed < wakeUps.all / 5, "\(wakeUps)")
  }

  @Test("A simulation reports a missed target with its value, and does not report one that was reached")
  func aims() async {
    var aims = AimSettings()
    let results = await results(scenario { $0.air.loss = 0 })
    (aims.withinFive, aims.withinSeven, aims.framesPerNode) = (1000, 1000, 400)
    #expect(aims.missed(results) == [])
    (aims.framesPerNode, aims.afterFiveMinutes) = (1, 990)
    let missed = aims.missed(results)
    #expect(missed.count == 2)
    #expect(missed.first == "AfterFiveMinutes: no result, and the aim is at least 0.9900.")
    #expect(missed.last?.hasPrefix("FramesPerNode: ") == true && missed.last?.contains("at most 0.01") == true)
    let deaf = await self.results(scenario { $0.people.silent = 100 }, links: [(0, 1), (1, 2)])
    (aims.framesPerNode, aims.afterFiveMinutes) = (0, 0)
    #expect(aims.missed(deaf).map { $0.prefix { $0 != ":" } } == ["WithinFive", "WithinSeven"])
  }

  @Test("Targets of a scenario with a flood or couriers are compared with the same scenario without them")
  func comparedAims() async {
    var aims = AimSettings()
    (aims.besideFlood, aims.withCouriers) = (900, 200)
    var field = scenario {
      $0.flood.share = 70
      $0.talk.privateEvery = .seconds(2)
    }
    let calm = await results(field.withoutFlood)
    #expect(aims.missed(calm, other: calm) == [], "neither of the two is there to be compared")
    field.people.silent = 100
    let (silent, alone) = (await results(field), await results(field.withoutCouriers.withoutFlood))
    let missed = aims.missed(silent, other: calm)
    #expect(missed.count == 1 && missed.first?.hasPrefix("BesideFlood: 0.") == true, "\(missed)")
    #expect(aims.missed(silent) == [], "there is nothing to compare with")
    let letters = aims.missed(silent, other: alone).filter { $0.hasPrefix("WithCouriers") }
    #expect(letters.count == 1 && letters.first?.contains("at least 2.00") == true, "\(letters)")
    aims.withCouriers = 1
    #expect(aims.missed(silent, other: alone).allSatisfy { !$0.hasPrefix("WithCouriers") })
  }

  @Test("The scenario target `WithinFive` is checked only if all nodes relay like a node on mains power")
  func aimsOfShares() {
    let scenario = scenario { ($0.aim.withinFive, $0.aim.afterFiveMinutes) = (980, 990) }
    #expect(scenario.with(mains: 100).aim.withinFive == 980)
    #expect(scenario.with(mains: 50).aim.withinFive == 0)
    #expect(scenario.with(mains: 50).aim.afterFiveMinutes == 990)
  }

  @Test("In a simulation with silent nodes, or without links, no message arrives")
  func losesMost() async {
    let results = await results(scenario { $0.people.silent = 100 }, links: [(0, 1), (1, 2)])
    #expect(results.everByHops.dropFirst(1).allSatisfy { $0.had <= results.cost.reachedByAnswer })
    let island = await self.results(
      scenario {
        ($0.field.nodes, $0.field.placement, $0.field.islands, $0.field.islandRadius) = (20, .islands, 2, 20)
        ($0.field.width, $0.field.height) = (2000, 2000)
      })
    #expect(island.cost.reachedByFlood <= 10 * 9)
    #expect(island.everByHops.reduce(0) { $0 + $1.of } <= 10 * 9)
  }

  @Test("Sharing the results of signature checks between simulated nodes does not change the simulation")
  func sharesSignatures() async {
    let shared = SharedSignatures()
    let small = scenario { ($0.field.nodes, $0.field.width, $0.field.height) = (12, 110, 110) }
    let one = bytes(await results(small, signatures: shared))
    let other = bytes(await results(small, signatures: ComputedSignatures()))
    #expect(one == other)
    #expect(shared.counts.computed < shared.counts.asked)
  }

  @Test("In a simulated chain of nodes without sync a message travels as many hops as its TTL allows")
  func line() async {
    let line = scenario { ($0.field.nodes, $0.air.loss, $0.talk.every) = (10, 0, .seconds(1)) }
    let results = await results(line, links: (0..<9).map { ($0, $0 + 1) })
    #expect(results.links.most == 2)
    #expect(results.prompt(within: 7).value == 1)
    #expect(results.promptByHops.count == 9 && results.promptByHops[7].value < 1)
  }

  @Test("A simulated node that was absent receives the missed messages after its return")
  func comesBack() async {
    let churned = scenario {
      ($0.people.churn, $0.people.away, $0.field.duration) = (100, .seconds(10), .seconds(90))
    }
    let results = await results(churned)
    #expect(results.everByHops.first?.of ?? 0 > 0)
    #expect(results.cost.reachedByAnswer > 0)
    #expect((results.share(after: 30) ?? 0) > 0.97)
  }

  @Test("Simulated private messages arrive and are acknowledged")
  func letters() async {
    let results = await results(
      scenario { ($0.talk.privateEvery, $0.field.duration, $0.air.loss) = (.seconds(4), .seconds(60), 0) })
    #expect(results.letters.written >= 4)
    #expect(results.letters.arrived == results.letters.written)
    #expect(results.letters.acknowledged == results.letters.written)
  }

  @Test("With couriers, simulated private messages reach a separate group of nodes, and each hand-over is counted")
  func couriers() async {
    let islands = scenario {
      ($0.field.nodes, $0.field.width, $0.field.height) = (24, 400, 400)
      ($0.field.placement, $0.field.islands, $0.field.islandRadius, $0.field.range) = (.islands, 2, 20, 40)
      ($0.people.walkers, $0.people.speed, $0.air.loss) = (25, 100, 0)
      ($0.talk.every, $0.talk.privateEvery, $0.talk.until) = (.zero, .seconds(10), .seconds(200))
      $0.field.duration = .seconds(600)
    }
    let carried = await results(islands)
    let alone = await results(islands.withoutCouriers)
    #expect(carried.letters.written == alone.letters.written && alone.letters.arrived < alone.letters.written)
    #expect(carried.letters.arrived > alone.letters.arrived)
    #expect(carried.handOvers.reduce(0, +) > 0 && carried.text.contains("hand-overs each"))
    #expect(carried.drawings.map(\.name) == ["hops", "time", "airtime", "carrying"])
    for line in carried.text.split(separator: "\n") { #expect(line.count <= 80, "\(line)") }
  }

  @Test("During a simulated flood no node exceeds its limits, and other messages still arrive")
  func floods() async {
    let flooded = scenario { ($0.flood.share, $0.flood.from) = (70, .seconds(20)) }
    let results = await results(flooded)
    let calm = await self.results(flooded.withoutFlood)
    let most = results.most
    #expect(most.peers <= 1024 && most.pins <= 4096 && most.announces <= 1024 && most.fragments <= 3000)
    #expect(most.assemblies <= 128 && most.assemblyBytes <= 8 << 20 && most.waitingChat <= 64)
    #expect(most.pendingRelays <= 1024 && most.pendingBytes <= 2 << 20 && most.recentPackets <= 20_000)
    #expect(results.frames.contains { $0.kind == "fragment" } && !calm.frames.contains { $0.kind == "fragment" })
    #expect(results.prompt(within: 7).value >= 0.9 * calm.prompt(within: 7).value)
  }

  @Test("Nodes that relay like the iOS app send less than nodes that relay like a node on mains power")
  func appsAreQuieter() async {
    let mains = await results(scenario())
    let apps = await results(scenario().with(mains: 0))
    #expect(apps.cost.flooded < mains.cost.flooded)
    #expect(apps.cost.perNodeReached < mains.cost.perNodeReached)
  }

  @Test("The printed result of a simulation fits 80 columns and has three charts")
  func shows() async {
    let small = scenario { ($0.field.nodes, $0.field.duration) = (6, .seconds(30)) }
    let results = await results(small)
    for line in results.text.split(separator: "\n") { #expect(line.count <= 80, "\(line)") }
    #expect(results.text.contains("checked at most once for all nodes"))
    #expect(results.drawings.map(\.name) == ["hops", "time", "airtime"])
    for drawing in results.drawings { #expect(drawing.svg.hasPrefix("<?xml") && drawing.svg.hasSuffix("</svg>\n")) }
  }

  @Test(
    "A histogram of up to 212 courier hand-overs has at most 24 bars and counts each envelope once",
    arguments: [1, 24, 25, 212, 20_000])
  func handOvers(most: Int) {
    let counts = Array(1...most)
    let bars = FieldResults.histogram(counts)
    #expect(bars.count <= 24 && bars.reduce(0) { $0 + $1.value } == Double(counts.reduce(0, +)))
    #expect(most != 24 || bars.map(\.name) == counts.map { "\($0)" })
    #expect(most != 212 || bars.prefix(2).map(\.name) == ["1 to 10", "11 to 20"] && bars[0].value == 55)
  }
}
