import Config

/// Section `[Field]`: positions of the nodes, and duration.
public struct FieldSettings: SettingsSection {
  /// Placement of the nodes.
  public enum Placement: String, Sendable, CaseIterable {
    /// Each node is in its own cell of a grid.
    case even
    /// Each node is at a random position in the field.
    case random
    /// On islands beyond each other's radio range.
    case islands
  }

  public var nodes = 1000
  /// Width of the field, in metres.
  public var width = 1000
  public var height = 1000
  public var placement = Placement.even
  public var islands = 10
  /// Radius of an island, in metres.
  public var islandRadius = 60
  /// Radio range in metres.
  public var range = 65
  /// Maximum number of links of a node, which is also the number that it seeks.
  public var links = 8
  public var fewestLinks = 6
  public var duration = Duration.seconds(600)

  public init() {}

  public static let section = "Field"
  public static let keys: [Setting<FieldSettings>] = [
    Setting("Nodes", \.nodes, .number(2...20_000), .onReload, "Number of nodes."),
    Setting("Width", \.width, .number(1...1_000_000), .onReload, "Width of the field in metres."),
    Setting("Height", \.height, .number(1...1_000_000), .onReload, "Height of the field in metres."),
    Setting(
      "Placement", \.placement, .choice, .onReload,
      "even: each node has a random position in its own cell of a grid. random: anywhere in the field. islands: on one "
        + "of several islands."),
    Setting("Islands", \.islands, .number(1...1000), .onReload, "Number of islands."),
    Setting("IslandRadius", \.islandRadius, .number(1...10_000), .onReload, "Radius of an island in metres."),
    Setting("Range", \.range, .number(1...10_000), .onReload, "Range of a radio in metres."),
    Setting("Links", \.links, .number(1...16), .onReload, "Maximum links of a node."),
    Setting(
      "FewestLinks", \.fewestLinks, .number(1...16), .onReload,
      "A node with fewer links connects to nodes in range. A node with this number only accepts links of others."),
    Setting(
      "Duration", \.duration, .duration(.seconds(10)...(.seconds(24 * 3600))), .onReload,
      "Duration of the simulation."),
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
    Setting("Loss", \.loss, .number(0...90), .onReload, "Percentage of lost frames."),
    Setting(
      "Latency", \.latency, .steps(.milliseconds(1)...(.seconds(1)), step: .microseconds(1)), .onReload,
      "Minimum and maximum latency of a frame; each frame has a random one between them."),
    Setting(
      "FrameTime", \.frameTime,
      ValueKind<ClosedRange<Duration>>.steps(.milliseconds(1)...(.seconds(1)), step: .microseconds(1))
        .converted(into: { $0.lowerBound }, back: { $0...$0 }), .onReload,
      "Time per frame in one direction of a link. Further frames wait in the queue of the link."),
    Setting(
      "FrameBytes", \.frameBytes, .number(100...512), .onReload, "Maximum bytes of a write or a notification."),
  ]
}

/// Section `[People]`: relay policies and movement of the nodes.
public struct PeopleSettings: SettingsSection {
  /// Percentage of nodes that relay like the iOS app. Nodes that belong neither to these nor to `silent` relay like a
  /// node on mains power.
  public var apps = 0
  /// Percentage of nodes that relay nothing.
  public var silent = 0
  /// Percentage of nodes that walk.
  public var walkers = 0
  /// Speed of walking nodes, in decimetres per second.
  public var speed = 14
  /// Percentage of nodes that leave and return within ten minutes.
  public var churn = 0
  /// Absence of a node that has left.
  public var away = Duration.seconds(60)

  public init() {}

  public static let section = "People"
  public static let keys: [Setting<PeopleSettings>] = [
    Setting("Apps", \.apps, .number(0...100), .onReload, "Percentage of nodes that relay like the iOS app."),
    Setting(
      "Silent", \.silent, .number(0...100), .onReload,
      "Percentage of nodes that relay nothing. The remaining nodes relay like a node on mains power."),
    Setting("Walkers", \.walkers, .number(0...100), .onReload, "Percentage of nodes that walk."),
    Setting(
      "Speed", \.speed, .number(1...500), .onReload, "Speed of walking nodes in tenths of a metre per second."),
    Setting(
      "Churn", \.churn, .number(0...100), .onReload,
      "Percentage of nodes that leave without a leave packet, and return, in every ten minutes."),
    Setting(
      "Away", \.away, .duration(.seconds(1)...(.seconds(3600))), .onReload, "Absence of a node that has left."),
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
      "Interval of public messages of the whole field; 0 for none. The sender is random."),
    Setting(
      "From", \.from, .duration(.zero...(.seconds(24 * 3600))), .onReload,
      "Time of the first message. Until then the nodes exchange announces."),
    Setting("Until", \.until, .duration(.zero...(.seconds(24 * 3600))), .onReload, "Time of the last message."),
    Setting("Bytes", \.bytes, .number(8...1000), .onReload, "Length of a message in bytes."),
    Setting(
      "PrivateEvery", \.privateEvery, .duration(.zero...(.seconds(3600))), .onReload,
      "Interval of private messages of the whole field; 0 for none. Sender and recipient are random."),
    Setting(
      "Couriers", \.couriers, .bool, .onReload,
      "Whether nodes carry courier envelopes for absent nodes. Each node has the keys of its recipients."),
  ]
}

/// Section `[Flood]`: attackers. The rates apply to each link of each attacker.
public struct FloodSettings: SettingsSection {
  /// Share of attackers, in thousandths of the nodes.
  public var share = 0
  public var from = Duration.seconds(120)
  /// New identities per second and link.
  public var identities = 10
  public var replays = 20
  public var requests = 5
  public var fragments = 20
  /// Whether the attackers flood; otherwise they behave like other nodes. Not a key of the file.
  public var floods = true

  public init() {}

  public static let section = "Flood"
  public static let keys: [Setting<FloodSettings>] = [
    Setting(
      "Share", \.share, .number(0...500), .onReload, "Share of nodes, in thousandths, that flood and relay nothing."),
    Setting("From", \.from, .duration(.zero...(.seconds(24 * 3600))), .onReload, "Time at which flooding begins."),
    Setting(
      "Identities", \.identities, .number(0...1000), .onReload,
      "Announces of unknown identities per second on each link."),
    Setting(
      "Replays", \.replays, .number(0...1000), .onReload,
      "Repeated announces of other nodes with TTL 7, per second on each link."),
    Setting("Requests", \.requests, .number(0...1000), .onReload, "Sync requests per second on each link."),
    Setting(
      "Fragments", \.fragments, .number(0...1000), .onReload,
      "Fragments of packets that are never completed, per second on each link."),
  ]
}
