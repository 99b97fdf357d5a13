import Bitchat
import Common

/// What a simulation has come to: figures that depend on the scenario and the seed alone.
public struct FieldResults: Sendable {
  /// A public message: when, by whom, and how far from there everybody was at that moment.
  struct Said: Sendable {
    /// Nanoseconds.
    let at: Int64
    let by: Int32
    let hops: [Int16]
  }

  /// A private message.
  struct Written: Sendable {
    /// Nanoseconds.
    let at: Int64
    let from: Int32
    let to: Int32
  }

  /// How many had a message, of how many.
  public struct Share: Sendable, Hashable {
    public var had = 0
    public var of = 0

    public init() {}

    /// 0 to 1; 0 of nobody.
    public var value: Double { of > 0 ? Double(had) / Double(of) : 0 }
  }

  /// What was sent of one kind.
  public struct Frames: Sendable, Hashable {
    public let kind: String
    public let frames: UInt64
    public let bytes: UInt64
    /// Milliseconds on the air.
    public let airtime: Double
  }

  /// What the public messages cost, in all.
  public struct Cost: Sendable, Hashable {
    /// Frames with a message, flooded and in answer to requests.
    public var flooded: UInt64 = 0
    public var answered: UInt64 = 0
    /// Frames that brought a message to a node that had it.
    public var duplicates: UInt64 = 0
    /// Nodes that were reached, by flooding and by an answer.
    public var reachedByFlood = 0
    public var reachedByAnswer = 0

    public init() {}

    /// Frames that were flooded, for each node that flooding reached.
    public var perNodeReached: Double { reachedByFlood > 0 ? Double(flooded) / Double(reachedByFlood) : 0 }
    public var duplicatesPerNodeReached: Double {
      let reached = reachedByFlood + reachedByAnswer
      return reached > 0 ? Double(duplicates) / Double(reached) : 0
    }
  }

  /// Delivery counts as prompt within this time, in milliseconds.
  public static let prompt: UInt32 = 3000
  /// Moments after a message was said, in seconds.
  public static let moments = [1, 2, 3, 5, 10, 15, 20, 30, 45, 60, 90, 120, 180, 240, 300, 450]

  public let scenario: Scenario
  public let seed: UInt64
  /// Links of a node when talk began.
  public let links: (fewest: Int, mean: Double, most: Int)
  public private(set) var messages = 0
  public private(set) var unsaid = 0
  /// Within 3 s, and ever; by hops, from 1 on.
  public private(set) var promptByHops: [Share] = []
  public private(set) var everByHops: [Share] = []
  /// How many of the connected field had a message, so many seconds after it was said. Only messages that were said as long before the
  /// end count.
  public private(set) var byTime: [(seconds: Int, share: Share)] = []
  /// Milliseconds until a message came: half of those that came, 99 of 100, and the last.
  public private(set) var latency: (p50: UInt32, p99: UInt32, most: UInt32) = (0, 0, 0)
  /// The same of those that came by flooding.
  public private(set) var floodLatency: (p50: UInt32, p99: UInt32, most: UInt32) = (0, 0, 0)
  public private(set) var cost = Cost()
  /// Seconds until a message was with 50, 90 and 99 of 100 of the connected field, the median of the messages; nil where most never were.
  public private(set) var convergence: (half: Double?, ninety: Double?, whole: Double?) = (nil, nil, nil)
  public private(set) var frames: [Frames] = []
  public let lost: UInt64
  public let dropped: UInt64
  public let cuts: UInt64
  /// Private messages: written, arrived, and acknowledged; milliseconds until they arrived.
  public private(set) var letters: (written: Int, arrived: Int, acknowledged: Int) = (0, 0, 0)
  public private(set) var letterLatency: (p50: UInt32, p99: UInt32, most: UInt32) = (0, 0, 0)
  /// How many envelopes, with letters and with receipts, were handed on so often; from 1 on.
  public private(set) var handOvers: [Int] = []
  /// The most that a node kept of each kind.
  public let most: MeshEngine.Holdings
  /// The counters of all nodes together, by name.
  public private(set) var counters: [Tally] = []

  /// How many public messages a scenario has.
  static func messages(_ scenario: Scenario) -> Int {
    let every = scenario.talk.every.wholeNanoseconds
    let span =
      min(scenario.talk.until, scenario.field.duration).wholeNanoseconds - scenario.talk.from.wholeNanoseconds
    return every > 0 && span > 0 ? Int((span + every - 1) / every) : 0
  }

  init(
    scenario: Scenario, seed: UInt64, said: [Said], written: [Written], nodes: [FieldNode], flooders: Set<Int32>,
    tally: FieldTally, most: MeshEngine.Holdings, degrees: [Int]
  ) {
    (self.scenario, self.seed, self.most) = (scenario, seed, most)
    links = (
      degrees.min() ?? 0, degrees.isEmpty ? 0 : Double(degrees.reduce(0, +)) / Double(degrees.count),
      degrees.max() ?? 0
    )
    (lost, dropped, cuts) = (tally.lost, tally.dropped, tally.cuts)
    frames = zip(FrameKind.allCases, tally.frames).filter { $0.1.frames > 0 }.map { kind, sum in
      Frames(kind: "\(kind)", frames: sum.frames, bytes: sum.bytes, airtime: Double(sum.airtime) / 1e6)
    }
    let unsaid = Set(tally.unsaid)
    self.unsaid = unsaid.count
    takeMessages(said, unsaid, nodes, flooders, tally)
    takeLetters(written, nodes, tally)
    var sums: [String: UInt64] = [:]
    for node in nodes where !flooders.contains(node.number) {
      for counter in node.engine.counters.tallies { sums[counter.name, default: 0] += counter.count }
    }
    counters = sums.sorted { $0.key < $1.key }.map { Tally($0.key, $0.value) }
  }

  private mutating func takeMessages(
    _ said: [Said], _ unsaid: Set<Int>, _ nodes: [FieldNode], _ flooders: Set<Int32>, _ tally: FieldTally
  ) {
    let end = scenario.field.duration.wholeNanoseconds
    var latencies: [UInt32] = []
    var floodLatencies: [UInt32] = []
    var shares = Self.moments.map { _ in Share() }
    var times: [[Double?]] = [[], [], []]
    // What each node has heard, without its engine: to go through those costs more than all else here.
    let listeners = nodes.filter { !flooders.contains($0.number) }.map { (number: $0.number, heard: $0.heard) }
    for (number, message) in said.enumerated() where !unsaid.contains(number) {
      messages += 1
      let saidAt = UInt32(message.at / 1_000_000)
      var arrivals: [UInt32] = []
      var connected = 0
      for listener in listeners where listener.number != message.by {
        let mark = listener.heard[number]
        let isLate = mark & FieldNode.lateBit != 0
        let delay = mark == 0 ? nil : Optional((mark & ~FieldNode.lateBit) - 1 - saidAt)
        if let delay {
          latencies.append(delay)
          if isLate {
            cost.reachedByAnswer += 1
          } else {
            cost.reachedByFlood += 1
            floodLatencies.append(delay)
          }
        }
        let hops = Int(message.hops[Int(listener.number)])
        guard hops > 0 else { continue }
        connected += 1
        count(hops, delay)
        if let delay { arrivals.append(delay) }
      }
      arrivals.sort()
      for (index, seconds) in Self.moments.enumerated() where message.at + Int64(seconds) * 1_000_000_000 <= end {
        shares[index].of += connected
        shares[index].had += arrivals.prefix { $0 <= UInt32(seconds) * 1000 }.count
      }
      // A message that was said too late tells nothing about how long one takes.
      guard message.at + 300 * 1_000_000_000 <= end, connected > 0 else { continue }
      for (index, percent) in [50, 90, 99].enumerated() {
        let place = (connected * percent + 99) / 100 - 1
        times[index].append(place < arrivals.count ? Double(arrivals[place]) / 1000 : nil)
      }
    }
    byTime = zip(Self.moments, shares).filter { $0.1.of > 0 }.map { ($0.0, $0.1) }
    latency = Self.percentiles(&latencies)
    floodLatency = Self.percentiles(&floodLatencies)
    convergence = (Self.median(times[0]), Self.median(times[1]), Self.median(times[2]))
    takeCost(tally)
  }

  private mutating func count(_ hops: Int, _ delay: UInt32?) {
    while promptByHops.count < hops {
      promptByHops.append(Share())
      everByHops.append(Share())
    }
    promptByHops[hops - 1].of += 1
    everByHops[hops - 1].of += 1
    guard let delay else { return }
    everByHops[hops - 1].had += 1
    if delay <= Self.prompt { promptByHops[hops - 1].had += 1 }
  }

  private mutating func takeCost(_ tally: FieldTally) {
    var arrived: UInt64 = 0
    for key in tally.numbers.keys {
      guard let carried = tally.carried[key] else { continue }
      cost.flooded += carried.flooded
      cost.answered += carried.answered
      arrived += carried.floodedHere + carried.answeredHere
    }
    let reached = UInt64(cost.reachedByFlood + cost.reachedByAnswer)
    cost.duplicates = arrived > reached ? arrived - reached : 0
  }

  private mutating func takeLetters(_ written: [Written], _ nodes: [FieldNode], _ tally: FieldTally) {
    var latencies: [UInt32] = []
    for (number, letter) in written.enumerated() {
      letters.written += 1
      if tally.receipts[number] != nil { letters.acknowledged += 1 }
      guard let at = nodes[Int(letter.to)].told[number] else { continue }
      letters.arrived += 1
      let begin = UInt32(letter.at / 1_000_000)
      latencies.append(at - 1 > begin ? at - 1 - begin : 0)
    }
    letterLatency = Self.percentiles(&latencies)
    for times in tally.handOvers.values {
      while handOvers.count < times { handOvers.append(0) }
      handOvers[times - 1] += 1
    }
  }

  /// Of a number of frames, how many there were for each public message.
  func perMessage(_ frames: UInt64) -> Double { messages > 0 ? Double(frames) / Double(messages) : 0 }

  /// Within so many hops, promptly.
  public func prompt(within hops: Int) -> Share {
    promptByHops.prefix(hops).reduce(into: Share()) { sum, share in
      sum.had += share.had
      sum.of += share.of
    }
  }

  /// The share of the connected field that had a message after so many seconds; nil where no message was said that early.
  public func share(after seconds: Int) -> Double? { byTime.first { $0.seconds == seconds }?.share.value }

  private static func percentiles(_ values: inout [UInt32]) -> (p50: UInt32, p99: UInt32, most: UInt32) {
    guard !values.isEmpty else { return (0, 0, 0) }
    values.sort()
    func at(_ percent: Int) -> UInt32 { values[max(0, (values.count * percent + 99) / 100 - 1)] }
    return (at(50), at(99), values[values.count - 1])
  }

  /// What has no value counts as more than all that have.
  private static func median(_ values: [Double?]) -> Double? {
    guard !values.isEmpty else { return nil }
    let sorted = values.map { $0 ?? .infinity }.sorted()
    let middle = sorted[sorted.count / 2]
    return middle.isFinite ? middle : nil
  }
}
