import Bitchat
import Config

/// What is simulated: a field of nodes, the air between them, and what people do in it.
///
/// It is written as a file of sections and keys, like the service's configuration: `Scenario.configuration` has the table.
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

  /// All keys with their meaning and their defaults, as a file.
  public static var keysText: String {
    // The house's own head speaks of the service's files.
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

  /// What is wrong with a scenario.
  public struct Mistake: Error, Hashable, Sendable {
    /// Whole sentences, one for each mistake, with file and line where one is to blame.
    public let sentences: [String]
  }

  /// Reads a scenario. A simulation of something else than what was written would be worth nothing, so every complaint is a
  /// mistake.
  public init(file: String) throws(Mistake) {
    let loaded = Self.configuration.load(from: ConfigurationFiles(only: file))
    guard loaded.complaints.isEmpty else { throw Mistake(sentences: loaded.complaints.map(\.description)) }
    self.init(loaded.configuration)
    try check(file)
  }

  /// Refuses what no single key can be blamed for.
  public func check(_ file: String = "The scenario") throws(Mistake) {
    var sentences: [String] = []
    if people.apps + people.silent > 100 {
      sentences.append("\(file): Apps and Silent are \(people.apps + people.silent) percent of the people together.")
    }
    if talk.from >= field.duration {
      sentences.append("\(file): Talk.From is not before the end, which is Field.Duration.")
    }
    if flood.share > 0, flood.from >= field.duration {
      sentences.append("\(file): Flood.From is not before the end, which is Field.Duration.")
    }
    if field.fewestLinks > field.links {
      sentences.append("\(file): FewestLinks is above Links.")
    }
    if !sentences.isEmpty { throw Mistake(sentences: sentences) }
  }

  /// The same with another share of nodes that pass on as mains do; the others do as the apps do.
  public func with(mains percent: Int) -> Scenario {
    var other = self
    other.people.silent = 0
    other.people.apps = 100 - percent
    if percent < 100 { other.aim = aim.ofAnyPolicy }
    return other
  }

  /// The same with nobody who carries letters of others.
  public var withoutCouriers: Scenario {
    var other = self
    other.talk.couriers = false
    return other
  }

  /// The same without those who flood.
  public var withoutFlood: Scenario {
    var other = self
    other.flood.floods = false
    return other
  }
}
