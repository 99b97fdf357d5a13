/// What a service asks of the plan of advertisements, where there are fewer places on the air than advertisements.
public struct AdvertisingTerms: Hashable, Sendable {
  /// Of two advertisements the one of higher priority goes on the air.
  public var priority: AdvertisingPriority
  /// Once it is on the air it stays this long without interruption, unless its owner takes it off; 4 s at most.
  public var leastTime: Duration
  /// What a set says is refused if it is not on the air after this time. An advertisement waits for as long as it is wanted.
  public var longestWait: Duration

  public init(
    _ priority: AdvertisingPriority = .presence, leastTime: Duration = .zero, longestWait: Duration = .seconds(30)
  ) {
    self.priority = priority
    self.leastTime = leastTime
    self.longestWait = longestWait
  }
}

/// Who goes before whom where places on the air lack, the first one before all.
public enum AdvertisingPriority: Int, CaseIterable, Hashable, Sendable, Comparable {
  /// A person stands before the machine and waits.
  case person = 1
  /// A node by which others find a network.
  case network = 2
  /// That somebody is here.
  case presence = 3
  /// A message to all who are near.
  case broadcast = 4
  /// A call that may come late.
  case notify = 5

  /// Lower is less.
  public static func < (left: AdvertisingPriority, right: AdvertisingPriority) -> Bool {
    left.rawValue > right.rawValue
  }
}
