/// A service's requirements for its advertisements, for the case that slots are scarce.
public struct AdvertisingTerms: Hashable, Sendable {
  /// If slots are scarce, advertisements of higher priority are sent.
  public var priority: AdvertisingPriority
  /// Minimum uninterrupted time of an active advertisement, unless its owner removes it; at most 4 s.
  public var leastTime: Duration
  /// Maximum wait of a set's data, after which it is refused. An advertisement waits as long as it is requested.
  public var longestWait: Duration

  public init(
    _ priority: AdvertisingPriority = .presence, leastTime: Duration = .zero, longestWait: Duration = .seconds(30)
  ) {
    self.priority = priority
    self.leastTime = leastTime
    self.longestWait = longestWait
  }
}

/// Priority of an advertisement when advertising slots are scarce, the highest first.
public enum AdvertisingPriority: Int, CaseIterable, Hashable, Sendable, Comparable {
  /// An advertisement for a person who waits at this machine, for example that of a kiosk.
  case person = 1
  /// The advertisement by which peers find a node of a network.
  case network = 2
  /// The advertisement of this machine's presence.
  case presence = 3
  /// A broadcast: a message in a non-connectable advertisement.
  case broadcast = 4
  /// A notification that may be delayed.
  case notify = 5

  /// Whether the priority on the left is lower.
  public static func < (left: AdvertisingPriority, right: AdvertisingPriority) -> Bool {
    left.rawValue > right.rawValue
  }
}
