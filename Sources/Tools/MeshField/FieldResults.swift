import Bitchat
import Common

/// Results of a simulation, which depend on the scenario and the seed only.
public struct FieldResults: Sendable {
  /// A public message that was sent: time, sender, and the number of hops to each node at that time.
  struct Said: Sendable {
    /// Time of sending, in nanoseconds since the start.
    let at: Int64
    let by: Int32
    let hops: [Int16]
  }

  /// A private message that was sent: time, sender and recipient.
  struct Written: Sendable {
    /// Time of sending, in nanoseconds since the start.
    let at: Int64
    let from: Int32
    let to: Int32
  }

  /// Number of nodes that had a message, and number of all nodes.
  public struct Share: Sendable, Hashable {
    public var had = 0
    public var of = 0

    public init() {}

    /// Fraction from 0 to 1; 0 if `of` is 0.
    public var value: Double { of > 0 ? Double(had) / Double(of) : 0 }
  }

  /// Frames sent of one kind.
  public struct Frames: Sendable, Hashable {
    public let kind: String
    public let frames: UInt64
    public let bytes: UInt64
    /// Airtime in milliseconds.
    public let airtime: Double
  }

  /// Total cost of the public messages.
  public struct Cost: Sendable, Hashable {
    /// Frames with a message, by flooding and by sync.
    public var flooded: UInt64 = 0
    public var answered: UInt64 = 0
    /// Frames with a message that the receiver already had.
    public var duplicates: UInt64 = 0
    /// Nodes reached by flooding and by sync.
    public var reachedByFlood = 0
    public var reachedByAnswer = 0

    public init() {}

    /// Flooded frames per node reached by flooding.
    public var perNodeReached: Double { reachedByFlood > 0 ? Double(flooded) / Double(reachedByFlood) : 0 }
    public var duplicatesPerNodeReached: Double {
      let reached = reachedByFlood + reachedByAnswer
      return reached > 0 ? Double(duplicates) / Double(reached) : 0
    }
  }

  /// Maximum latency of a prompt delivery, in milliseconds.
  public static let prompt: UInt32 = 3000
  /// Times after the sending of a message at which delivery is counted, in seconds.
  public static let moments = [1, 2, 3, 5, 10, 15, 20, 30, 45, 60, 90, 120, 180, 240, 300, 450]

  public let scenario: Scenario
  public let seed: UInt64
  /// Links per node at the beginning of the messages.
  public let links: (fewest: Int, mean: Double, most: Int)
  public private(set) var messages = 0
  public private(set) var unsaid = 0
  /// Delivery within 3 s, and at any time, by number of hops from 1.
  public private(set) var promptByHops: [Share] = []
  public private(set) var everByHops: [Share] = []
  /// Share of the connected field that had a message after these times. A message counts only if it was sent at least
  /// as long before the end.
  public private(set) var byTime: [(seconds: Int, share: Share)] = []
  /// Latency in milliseconds: median, 99th percentile and maximum.
  public private(set) var latency: (p50: UInt32, p99: UInt32, most: UInt32) = (0, 0, 0)
  /// Latency of arrivals by flooding.
  public private(set) var floodLatency: (p50: UInt32, p99: UInt32, most: UInt32) = (0, 0, 0)
  public private(set) var cost = Cost()
  /// Seconds until 50, 90 and 99 % of the connected field had a message, as medians over messages; nil if most messages
  /// never got there.
  public private(set) var convergence: (half: Double?, ninety: Double?, whole: Double?) = (nil, nil, nil)
  public private(set) var frames: [Frames] = []
  public let lost: UInt64
  public let dropped: UInt64
  public let cuts: UInt64
  /// Wake-ups of a node per second: all, and those for a timer.
  public let wakeUps: (all: Double, timed: Double)
  /// Private messages: sent, arrived and acknowledged; latency in milliseconds.
  public private(set) var letters: (written: Int, arrived: Int, acknowledged: Int) = (0, 0, 0)
  public private(set) var letterLatency: (p50: UInt32, p99: UInt32, most: UInt32) = (0, 0, 0)
  /// Number of envelopes, with messages and receipts, by number of hand-overs from 1.
  public private(set) var handOvers: [Int] = []
  /// Maximum holdings of a node.
  public let most: MeshEngine.Holdings
  /// Sum of the counters of all nodes, by name.
  public private(set) var counters: [Tally] = []

  /// Number of public messages of a scenario.
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
    let seconds = Double(scenario.field.duration.wholeNanoseconds) / 1e9 * Double(scenario.field.nodes)
    wakeUps = (Double(tally.wakeUps) / seconds, Double(tally.timedWakeUps) / seconds)
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
    // Received messages of each node, without its engine, which would make iteration slow.
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
      // A message sent less than 300 s before the end is not used for convergence.
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

  /// Frames per public message.
  func perMessage(_ frames: UInt64) -> Double { messages > 0 ? Double(frames) / Double(messages) : 0 }

  /// Share of prompt deliveries within this number of hops.
  public func prompt(within hops: Int) -> Share {
    promptByHops.prefix(hops).reduce(into: Share()) { sum, share in
      sum.had += share.had
      sum.of += share.of
    }
  }

  /// Share of the connected field that had a message after this time; nil if no message was sent early enough.
  public func share(after seconds: Int) -> Double? { byTime.first { $0.seconds == seconds }?.share.value }

  private static func percentiles(_ values: inout [UInt32]) -> (p50: UInt32, p99: UInt32, most: UInt32) {
    guard !values.isEmpty else { return (0, 0, 0) }
    values.sort()
    func at(_ percent: Int) -> UInt32 { values[max(0, (values.count * percent + 99) / 100 - 1)] }
    return (at(50), at(99), values[values.count - 1])
  }

  /// Median, with missing values as infinite; nil if the median is infinite or there are no values.
  private static func median(_ values: [Double?]) -> Double? {
    guard !values.isEmpty else { return nil }
    let sorted = values.map { $0 ?? .infinity }.sorted()
    let middle = sorted[sorted.count / 2]
    return middle.isFinite ? middle : nil
  }
}
