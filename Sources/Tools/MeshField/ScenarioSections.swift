import Config

/// Section `[Field]`: positions of the nodes, and duration.
public struct FieldSettings: SettingsSection {
  /// Placement of the nodes.
  public enum Placement: String, Sendable, CaseIterable {
    /// Each node is in its own cell of a grid.
    case even
    /// Anywhere in the field.
    case random
    /// On islands beyond each other's radio range.
    case islands
  }

  public var nodes = 1000
  /// Metres.
  public var width = 1000
  public var height = 1000
  public var placement = Placement.even
  public var islands = 10
  /// Metres.
  public var islandRadius = 60
  /// Radio range in metres.
  public var range = 65
  /// Maximum links of a node, and number that it seeks.
  public var links = 8
  public var fewestLinks = 6
  public var duration = Duration.seconds(600)

  public init() {}

  public static let section = "Field"
  public static let keys: [Setting<FieldSettings>] = [
    Setting("Nodes", \.nodes, .number(2...20_000), .onReload, "How many nodes there are."),
    Setting("Width", \.width, .number(1...1_000_000), .onReload, "How wide the field is, in metres."),
    Setting("Height", \.height, .number(1...1_000_000), .onReload, "How high the field is, in metres."),
    Setting(
      "Placement", \.placement, .choice, .onReload,
      "even puts each node somewhere in a cell of its own of a grid, random puts it anywhere, islands puts it on one of some "
        + "islands."),
    Setting("Islands", \.islands, .number(1...1000), .onReload, "How many islands there are."),
    Setting("IslandRadius", \.islandRadius, .number(1...10_000), .onReload, "How large an island is, in metres."),
    Setting("Range", \.range, .number(1...10_000), .onReload, "How far a radio reaches, in metres."),
    Setting("Links", \.links, .number(1...16), .onReload, "The most links that a node has."),
    Setting(
      "FewestLinks", \.fewestLinks, .number(1...16), .onReload,
      "A node that has fewer links looks for more among all that are in range; one that has as many takes only what others ask "
        + "for."),
    Setting(
      "Duration", \.duration, .duration(.seconds(10)...(.seconds(24 * 3600))), .onReload, "How long it is simulated."),
  ]
}

/// Section `[Air]`: properties of the simulated radio.
public struct AirSettings: SettingsSection {
  /// Percentage of lost frames.
  public var loss = 5
  public var latency = Duration.microseconds(7500)...Duration.milliseconds(30)
  /// Minimum time between frames in one direction of a link.
  public var frameTime = Duration.microseconds(7500)
  /// Maximum length of a write or a notification, in bytes.
  public var frameBytes = 509

  public init() {}

  public static let section = "Air"
  public static let keys: [Setting<AirSettings>] = [
    Setting("Loss", \.loss, .number(0...90), .onReload, "How many of a hundred frames are lost."),
    Setting(
      "Latency", \.latency, .steps(.milliseconds(1)...(.seconds(1)), step: .microseconds(1)), .onReload,
      "How long a frame is on its way: any time between the two."),
    Setting(
      "FrameTime", \.frameTime,
      ValueKind<ClosedRange<Duration>>.steps(.milliseconds(1)...(.seconds(1)), step: .microseconds(1))
        .converted(into: { $0.lowerBound }, back: { $0...$0 }), .onReload,
      "A direction of a link carries one frame in this time; what comes faster waits in the queue of the link."),
    Setting(
      "FrameBytes", \.frameBytes, .number(100...512), .onReload, "The most bytes of a write or a notification."),
  ]
}

/// Section `[People]`: relay policies and movement of the nodes.
public struct PeopleSettings: SettingsSection {
  /// Percentage of nodes that relay like the iOS app, and that relay nothing. The others use `mains`.
  public var apps = 0
  public var silent = 0
  /// Percentage of nodes that walk.
  public var walkers = 0
  /// Decimetres per second.
  public var speed = 14
  /// Percentage of nodes that leave and return within ten minutes.
  public var churn = 0
  public var away = Duration.seconds(60)

  public init() {}

  public static let section = "People"
  public static let keys: [Setting<PeopleSettings>] = [
    Setting("Apps", \.apps, .number(0...100), .onReload, "Percent of the nodes that pass on as the iOS app does."),
    Setting(
      "Silent", \.silent, .number(0...100), .onReload,
      "Percent of the nodes that pass nothing on. The others pass on as a node on mains power."),
    Setting("Walkers", \.walkers, .number(0...100), .onReload, "Percent of the nodes that walk."),
    Setting(
      "Speed", \.speed, .number(1...500), .onReload, "How fast they walk, in tenths of a metre a second."),
    Setting(
      "Churn", \.churn, .number(0...100), .onReload,
      "Percent of the nodes that go away without a word, and come back, in every ten minutes."),
    Setting(
      "Away", \.away, .duration(.seconds(1)...(.seconds(3600))), .onReload, "How long they are away."),
  ]
}

/// Section `[Talk]`: messages.
public struct TalkSettings: SettingsSection {
  public var every = Duration.seconds(1)
  public var from = Duration.seconds(60)
  public var until = Duration.seconds(24 * 3600)
  public var bytes = 60
  /// Time between private messages; zero for none.
  public var privateEvery = Duration.zero
  /// Whether nodes carry envelopes of others.
  public var couriers = true

  public init() {}

  public static let section = "Talk"
  public static let keys: [Setting<TalkSettings>] = [
    Setting(
      "Every", \.every, .duration(.zero...(.seconds(3600))), .onReload,
      "From one public message to the next, of the whole field; 0 without any. Who says it is drawn by lot."),
    Setting(
      "From", \.from, .duration(.zero...(.seconds(24 * 3600))), .onReload,
      "When talk begins: until then the nodes get to know each other."),
    Setting("Until", \.until, .duration(.zero...(.seconds(24 * 3600))), .onReload, "When talk ends."),
    Setting("Bytes", \.bytes, .number(8...1000), .onReload, "How long a message is, in bytes."),
    Setting(
      "PrivateEvery", \.privateEvery, .duration(.zero...(.seconds(3600))), .onReload,
      "From one private message to the next, of the whole field; 0 without any. Who writes to whom is drawn by lot."),
    Setting(
      "Couriers", \.couriers, .bool, .onReload,
      "Whether nodes carry letters to those who are not there. Each node has the keys of all it is to write to."),
  ]
}

/// Section `[Flood]`: attackers. The rates apply to each link of each attacker.
public struct FloodSettings: SettingsSection {
  /// In thousandths of the nodes.
  public var share = 0
  public var from = Duration.seconds(120)
  /// Per second and link.
  public var identities = 10
  public var replays = 20
  public var requests = 5
  public var fragments = 20
  /// Whether they flood; otherwise they behave like other nodes. Not a key of the file.
  public var floods = true

  public init() {}

  public static let section = "Flood"
  public static let keys: [Setting<FloodSettings>] = [
    Setting(
      "Share", \.share, .number(0...500), .onReload, "How many of a thousand nodes flood, and pass nothing on."),
    Setting("From", \.from, .duration(.zero...(.seconds(24 * 3600))), .onReload, "When they begin."),
    Setting(
      "Identities", \.identities, .number(0...1000), .onReload,
      "Announces of identities that nobody has heard of, a second on each link."),
    Setting(
      "Replays", \.replays, .number(0...1000), .onReload,
      "Announces of others, said again with time to live 7, a second on each link."),
    Setting("Requests", \.requests, .number(0...1000), .onReload, "Requests for sync, a second on each link."),
    Setting(
      "Fragments", \.fragments, .number(0...1000), .onReload,
      "Fragments of packets that are never whole, a second on each link."),
  ]
}
