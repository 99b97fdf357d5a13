import Bitchat
import BitchatWire
import Common
import Crypto

/// Simulation of thousands of unchanged `Bitchat` engines in virtual time.
///
/// Scenario and seed determine the results, byte for byte, whatever the number of parts. Bytes and time of the engines
/// are simulated, and all random numbers derive from the seed; no real clock is read.
public struct FieldRun {
  /// Wall clock at the start of virtual time, in milliseconds since 1970.
  static let epoch: UInt64 = 1_900_000_000_000
  /// Interval of link maintenance, in nanoseconds.
  private static let tick: Int64 = 1_000_000_000
  /// Interval of inspections of the nodes' holdings, in intervals of link maintenance.
  private static let lookEvery: Int64 = 10

  private let scenario: Scenario
  private let seed: UInt64
  private let shards: [FieldShard]
  private let flooders: Set<Int32>
  private var ground: FieldGround
  private var incoming: [[FieldEvent]]
  private var decided = 0
  private var now: Int64 = 0
  private var churn: FieldRandom
  private var talk: FieldRandom
  private var returns: [(at: Int64, node: Int32)] = []
  private var sayAt: Int64
  private var tellAt: Int64
  private var said: [FieldResults.Said] = []
  private var written: [FieldResults.Written] = []
  private var degrees: [Int] = []
  private var hopsFrom: [Int32: [Int16]] = [:]

  /// - Parameters:
  ///   - parts: number of parts that are computed in parallel.
  ///   - signatures: verifies signatures for all nodes.
  ///   - links: pairs of linked nodes; nil to let the field decide. With given links no node moves or leaves.
  public init(
    _ scenario: Scenario, seed: UInt64, parts: Int, signatures: any SignatureChecking = SharedSignatures(),
    links: [(Int32, Int32)]? = nil
  ) {
    (self.scenario, self.seed) = (scenario, seed)
    let count = scenario.field.nodes
    ground = links.map { FieldGround(nodes: count, given: $0) } ?? FieldGround(scenario, seed: seed)
    flooders = Self.flooders(scenario, seed)
    let parts = max(1, min(parts, count))
    incoming = Array(repeating: [], count: parts)
    churn = FieldRandom(seed: seed, .churn)
    talk = FieldRandom(seed: seed, .talk)
    sayAt = scenario.talk.from.wholeNanoseconds
    tellAt = sayAt
    let nodes = Self.nodes(scenario, seed, flooders, signatures)
    let people = nodes.map { FieldPart.Person($0.engine.identity) }
    shards = (0..<parts).map { part in
      FieldShard(
        FieldPart(
          part: part, of: parts, nodes: stride(from: part, to: count, by: parts).map { nodes[$0] }, people: people,
          scenario))
    }
  }

  private static func flooders(_ scenario: Scenario, _ seed: UInt64) -> Set<Int32> {
    let count = (scenario.field.nodes * scenario.flood.share + 500) / 1000
    var random = FieldRandom(seed: seed, .flood)
    var chosen: Set<Int32> = []
    while chosen.count < count { chosen.insert(Int32(random.number(below: scenario.field.nodes))) }
    return chosen
  }

  private static func nodes(
    _ scenario: Scenario, _ seed: UInt64, _ flooders: Set<Int32>, _ signatures: any SignatureChecking
  ) -> [FieldNode] {
    let messages = FieldResults.messages(scenario)
    var identities = FieldRandom(seed: seed, .identities)
    let policies = policies(scenario, seed)
    return (0..<scenario.field.nodes).map { number in
      let identity = MeshEngine.Identity(
        noiseKey: X25519.PrivateKey(ephemeralFrom: &identities),
        signingKey: Ed25519.PrivateKey(inSlotsFrom: &identities))
      var configuration = MeshEngine.Configuration(nickname: "node \(number)")
      configuration.relayPolicy = policies[number]
      if !scenario.talk.couriers { configuration.carries = 0 }
      let floods = scenario.flood.floods && flooders.contains(Int32(number))
      if floods { configuration.relayPolicy = .off }
      let engine = MeshEngine(
        identity: identity, configuration: configuration, random: FieldRandom(seed: seed, .engines, number),
        signatures: signatures)
      var node = FieldNode(
        number: Int32(number), engine: engine, air: FieldRandom(seed: seed, .air, number),
        heard: Array(repeating: 0, count: messages))
      if floods { node.flooder = Flooder(scenario.flood, FieldRandom(seed: seed, .flood, number + 1)) }
      return node
    }
  }

  /// Assigns the relay policies in the proportions of the scenario, in random order.
  private static func policies(_ scenario: Scenario, _ seed: UInt64) -> [RelayPolicy] {
    let count = scenario.field.nodes
    let apps = (count * scenario.people.apps + 50) / 100
    let silent = min(count - apps, (count * scenario.people.silent + 50) / 100)
    var policies = Array(repeating: RelayPolicy.apps, count: apps) + Array(repeating: .off, count: silent)
    policies += Array(repeating: .mains, count: count - policies.count)
    var random = FieldRandom(seed: seed, .roles, 1)
    policies.shuffle(using: &random)
    return policies
  }

  /// Runs the simulation.
  ///
  /// - Parameter progress: called with the simulated seconds.
  public mutating func run(progress: @Sendable (Int) -> Void = { _ in }) async -> FieldResults {
    let end = scenario.field.duration.wholeNanoseconds
    let lookahead = scenario.air.latency.lowerBound.wholeNanoseconds
    begin()
    var nextTick = Self.tick
    var next: Int64 = 0
    while true {
      let first = min(next, incoming.lazy.joined().map(\.time).min() ?? .max)
      if first >= nextTick {
        guard nextTick < end else { break }
        now = nextTick
        nextTick += Self.tick
        pass()
        progress(Int(now / Self.tick))
        if (now / Self.tick).isMultiple(of: Self.lookEvery) { for shard in shards { await shard.look() } }
        continue
      }
      next = await step(until: min(nextTick, first + lookahead))
    }
    return await results()
  }

  /// - Returns: time of the next event that was not sent by a part.
  private mutating func step(until end: Int64) async -> Int64 {
    let (shards, incoming) = (shards, incoming)
    let steps = await withTaskGroup(of: (Int, FieldPart.Step).self) { group in
      for (part, shard) in shards.enumerated().dropFirst() {
        let events = incoming[part]
        group.addTask { (part, await shard.run(events, until: end)) }
      }
      var steps = [(0, await shards[0].run(incoming[0], until: end))]
      for await step in group { steps.append(step) }
      return steps.sorted { $0.0 < $1.0 }.map(\.1)
    }
    for part in incoming.indices { self.incoming[part] = steps.flatMap { $0.outgoing[part] } }
    let cut = steps.flatMap(\.cut).sorted()
    for number in cut { ground.cut(number) }
    if !cut.isEmpty { hopsFrom = [:] }
    return steps.compactMap(\.next).min() ?? .max
  }

  // MARK: Actions of the field

  private mutating func send(_ what: FieldEvent.What, to node: Int32, at time: Int64? = nil) {
    decided += 1
    let event = FieldEvent(time: time ?? now, node: node, order: FieldEvent.fieldOrder(decided), what: what)
    incoming[Int(node) % shards.count].append(event)
  }

  private mutating func begin() {
    for node in 0..<Int32(scenario.field.nodes) {
      ground.arrive(node)
      send(.arrive, to: node)
      if scenario.flood.floods, flooders.contains(node) {
        send(.flood, to: node, at: scenario.flood.from.wholeNanoseconds)
      }
    }
    for link in Set(ground.links.joined()).sorted(by: { $0.number < $1.number }) { open(link) }
    mend()
    prepareTalk()
  }

  private mutating func pass() {
    if scenario.people.walkers > 0 { ground.walk(seconds: 1) }
    comeAndGo()
    mend()
    prepareTalk()
    if now == scenario.talk.from.wholeNanoseconds || degrees.isEmpty { degrees = ground.links.map(\.count) }
  }

  private mutating func open(_ link: FieldGround.Link) {
    send(.open(link.number, to: link.ends.1, isOurs: true), to: link.ends.0)
    send(.open(link.number, to: link.ends.0, isOurs: false), to: link.ends.1)
  }

  private mutating func mend() {
    let changes = ground.mend()
    if !changes.isEmpty { hopsFrom = [:] }
    for change in changes {
      switch change {
      case .opened(let link): open(link)
      case .closed(let link):
        send(.close(link.number), to: link.ends.0)
        send(.close(link.number), to: link.ends.1)
      }
    }
  }

  /// Makes nodes leave without notice, and return later.
  private mutating func comeAndGo() {
    guard scenario.people.churn > 0 else { return }
    for entry in returns where entry.at <= now {
      ground.arrive(entry.node)
      send(.arrive, to: entry.node)
    }
    returns.removeAll { $0.at <= now }
    // `churn` is the percentage of nodes that leave in ten minutes.
    let rate = Double(scenario.field.nodes * scenario.people.churn) / 100 / 600
    var count = Int(rate)
    if churn.part() < rate - Double(count) { count += 1 }
    for _ in 0..<count {
      let node = Int32(churn.number(below: scenario.field.nodes))
      guard ground.isUp[Int(node)] else { continue }
      for link in ground.leave(node) { send(.close(link.number), to: link.other(than: node)) }
      send(.leave, to: node)
      returns.append((now + scenario.people.away.wholeNanoseconds, node))
      hopsFrom = [:]
    }
  }

  /// Schedules the messages until the next link maintenance.
  private mutating func prepareTalk() {
    let until = min(now + Self.tick, min(scenario.talk.until, scenario.field.duration).wholeNanoseconds)
    while scenario.talk.every > .zero, sayAt < until {
      let node = speaker()
      let hops = hops(from: node)
      send(.say(said.count), to: node, at: sayAt)
      said.append(FieldResults.Said(at: sayAt, by: node, hops: hops))
      sayAt += scenario.talk.every.wholeNanoseconds
    }
    while scenario.talk.privateEvery > .zero, tellAt < until {
      let (node, other) = (speaker(), speaker())
      if node != other {
        send(.tell(written.count, to: other), to: node, at: tellAt)
        written.append(FieldResults.Written(at: tellAt, from: node, to: other))
      }
      tellAt += scenario.talk.privateEvery.wholeNanoseconds
    }
  }

  private mutating func hops(from node: Int32) -> [Int16] {
    if let known = hopsFrom[node] { return known }
    let hops = ground.hops(from: node)
    hopsFrom[node] = hops
    return hops
  }

  /// Selects a node that is present and does not flood.
  private mutating func speaker() -> Int32 {
    for _ in 0..<10_000 {
      let node = Int32(talk.number(below: scenario.field.nodes))
      if ground.isUp[Int(node)], !flooders.contains(node) { return node }
    }
    return 0
  }

  private func results() async -> FieldResults {
    var nodes: [FieldNode] = []
    var tally = FieldTally()
    var most = MeshEngine.Holdings()
    for shard in shards {
      let part = await shard.finish()
      nodes += part.nodes
      tally.add(part.tally)
      most.raise(to: part.most)
    }
    nodes.sort { $0.number < $1.number }
    return FieldResults(
      scenario: scenario, seed: seed, said: said, written: written, nodes: nodes, flooders: flooders, tally: tally,
      most: most, degrees: degrees)
  }
}

/// Actor that runs one `FieldPart`. Parts run in parallel: no effect of a node reaches another one sooner than the
/// minimum latency of a frame, so parts are independent for that time.
actor FieldShard {
  private var part: FieldPart

  init(_ part: FieldPart) { self.part = part }

  /// Handles the events before `end`, in nanoseconds since the start.
  func run(_ incoming: [FieldEvent], until end: Int64) -> FieldPart.Step { part.run(incoming, until: end) }

  /// Returns the final state and the results.
  func finish() -> (nodes: [FieldNode], tally: FieldTally, most: MeshEngine.Holdings) { part.finish() }

  /// Updates the maximum holdings.
  func look() { part.look() }
}
