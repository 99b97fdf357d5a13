import Config

/// Section `[Aim]`: goals of a simulation. 0 means no goal.
public struct AimSettings: SettingsSection {
  /// Minimum shares of nodes, in thousandths. `keys` describes each goal.
  public var withinFive = 0
  public var withinSeven = 0
  public var afterFiveMinutes = 0
  /// Frames per node and public message, in hundredths.
  public var framesPerNode = 0
  /// Minimum ratio of delivery with flooding nodes to delivery without, in thousandths.
  public var besideFlood = 0
  /// Minimum ratio of delivery with couriers to delivery without, in hundredths.
  public var withCouriers = 0

  public init() {}

  public static let section = "Aim"
  public static let keys: [Setting<AimSettings>] = [
    Setting(
      "WithinFive", \.withinFive, .number(0...1000), .onReload,
      "Minimum share, in thousandths, of the nodes within five hops that have a public message after 3 s. 0: no aim "
        + "(for all keys of this section)."),
    Setting(
      "WithinSeven", \.withinSeven, .number(0...1000), .onReload,
      "Minimum share, in thousandths, of the nodes within seven hops that have a public message after 3 s."),
    Setting(
      "AfterFiveMinutes", \.afterFiveMinutes, .number(0...1000), .onReload,
      "Minimum share, in thousandths, of the connected field that has a public message after 5 min."),
    Setting(
      "FramesPerNode", \.framesPerNode, .number(0...10_000), .onReload,
      "Maximum flooded frames, in hundredths, for each node that flooding reached."),
    Setting(
      "BesideFlood", \.besideFlood, .number(0...1000), .onReload,
      "With --compare-flood: minimum ratio, in thousandths, of the share within seven hops to the share without "
        + "flooding nodes."),
    Setting(
      "WithCouriers", \.withCouriers, .number(0...10_000), .onReload,
      "With --compare-couriers: minimum ratio, in hundredths, of the private messages that arrive to those that arrive "
        + "without couriers."),
  ]
}

extension AimSettings {
  /// A goal of the scenario, with the value that the simulation reached.
  private struct Judged {
    let isReached: Bool
    let sentence: String

    init(_ key: String, _ figure: Double?, atLeast aim: Double, places: Int) {
      self.init(key, figure, figure.map { $0 >= aim }, "at least", aim, places)
    }

    init(_ key: String, _ figure: Double?, atMost aim: Double, places: Int) {
      self.init(key, figure, figure.map { $0 <= aim }, "at most", aim, places)
    }

    private init(
      _ key: String, _ figure: Double?, _ isReached: Bool?, _ bound: String, _ aim: Double, _ places: Int
    ) {
      self.isReached = isReached ?? false
      let words = figure.map { FieldResults.decimal($0, places) } ?? "no result"
      sentence = "\(key): \(words), and the aim is \(bound) \(FieldResults.decimal(aim, places))."
    }
  }

  /// Returns a sentence for each missed goal.
  ///
  /// - Parameter other: results of the same field without flooders, or without couriers, if simulated.
  public func missed(_ results: FieldResults, other: FieldResults? = nil) -> [String] {
    var judged: [Judged] = []
    func share(_ aim: Int) -> Double { Double(aim) / 1000 }
    if withinFive > 0 {
      judged.append(Judged("WithinFive", results.prompt(within: 5).value, atLeast: share(withinFive), places: 4))
    }
    if withinSeven > 0 {
      judged.append(Judged("WithinSeven", results.prompt(within: 7).value, atLeast: share(withinSeven), places: 4))
    }
    if afterFiveMinutes > 0 {
      let figure = results.share(after: 300)
      judged.append(Judged("AfterFiveMinutes", figure, atLeast: share(afterFiveMinutes), places: 4))
    }
    if framesPerNode > 0 {
      // Without reached nodes, the value would be 0, which must not count as success.
      let figure = results.cost.reachedByFlood > 0 ? results.cost.perNodeReached : nil
      judged.append(Judged("FramesPerNode", figure, atMost: Double(framesPerNode) / 100, places: 2))
    }
    if besideFlood > 0, results.scenario.flood.floods, let other, !other.scenario.flood.floods {
      let (with, without) = (results.prompt(within: 7).value, other.prompt(within: 7).value)
      judged.append(
        Judged("BesideFlood", without > 0 ? with / without : nil, atLeast: share(besideFlood), places: 3))
    }
    if withCouriers > 0, results.scenario.talk.couriers, let other, !other.scenario.talk.couriers {
      let (with, without) = (results.letters.arrived, other.letters.arrived)
      judged.append(
        Judged(
          "WithCouriers", without > 0 ? Double(with) / Double(without) : nil, atLeast: Double(withCouriers) / 100,
          places: 2))
    }
    return judged.filter { !$0.isReached }.map(\.sentence)
  }

  /// Goals that hold for any share of `mains`. The reach of flooding is only promised with `mains` everywhere.
  var ofAnyPolicy: AimSettings {
    var aims = AimSettings()
    aims.afterFiveMinutes = afterFiveMinutes
    return aims
  }
}
