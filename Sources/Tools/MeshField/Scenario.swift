import Bitchat
import Config

/// Scenario of a simulation: a field of nodes, the radio between them, and the behaviour of people.
///
/// Scenarios are files of sections and keys, like the service's configuration: `Scenario.configuration` has the table.
public struct Scenario: Sendable {
  public var field = FieldSettings()
  public var air = AirSettings()
  public var people = PeopleSettings()
  public var talk = TalkSettings()
  public var flood = FloodSettings()
  public var aim = AimSettings()

  public init() {}

  /// All keys at their defaults.
  public static let configuration = Configuration(
    of: "a simulated field",
    [
      FieldSettings.self, AirSettings.self, PeopleSettings.self, TalkSettings.self, FloodSettings.self,
      AimSettings.self,
    ])

  /// Text of a file with all keys, their meanings and defaults.
  public static var keysText: String {
    // Omits the header, which describes the service's files.
    let lines = configuration.defaultFile.split(separator: "\n", omittingEmptySubsequences: false)
    return lines.drop { !$0.hasPrefix("[") }.joined(separator: "\n")
  }

  public init(_ configuration: Configuration) {
    field = configuration[FieldSettings.self]
    air = configuration[AirSettings.self]
    people = configuration[PeopleSettings.self]
    talk = configuration[TalkSettings.self]
    flood = configuration[FloodSettings.self]
    aim = configuration[AimSettings.self]
  }

  /// An invalid scenario, with a sentence for each error.
  public struct Mistake: Error, Hashable, Sendable {
    /// One sentence per mistake, with file and line if known.
    public let sentences: [String]
  }

  /// Reads a scenario. Every complaint is an error, so that no other scenario than the written one is simulated.
  public init(file: String) throws(Mistake) {
    let loaded = Self.configuration.load(from: ConfigurationFiles(only: file))
    guard loaded.complaints.isEmpty else { throw Mistake(sentences: loaded.complaints.map(\.description)) }
    self.init(loaded.configuration)
    try check(file)
  }

  /// Checks conditions that involve several keys, and throws a sentence for each violation.
  public func check(_ file: String = "The scenario") throws(Mistake) {
    var sentences: [String] = []
    if people.apps + people.silent > 100 {
      sentences.append(
        "\(file): Apps and Silent together are \(people.apps + people.silent) percent of the nodes; the limit is 100.")
    }
    if talk.from >= field.duration {
      sentences.append("\(file): Talk.From must be less than Field.Duration.")
    }
    if flood.share > 0, flood.from >= field.duration {
      sentences.append("\(file): Flood.From must be less than Field.Duration.")
    }
    if field.fewestLinks > field.links {
      sentences.append("\(file): FewestLinks must not exceed Links.")
    }
    if !sentences.isEmpty { throw Mistake(sentences: sentences) }
  }

  /// Returns the scenario with another percentage of `mains` nodes; the others behave like the apps.
  public func with(mains percent: Int) -> Scenario {
    var other = self
    other.people.silent = 0
    other.people.apps = 100 - percent
    if percent < 100 { other.aim = aim.ofAnyPolicy }
    return other
  }

  /// Returns the scenario without couriers.
  public var withoutCouriers: Scenario {
    var other = self
    other.talk.couriers = false
    return other
  }

  /// Returns the scenario without flooding.
  public var withoutFlood: Scenario {
    var other = self
    other.flood.floods = false
    return other
  }
}
