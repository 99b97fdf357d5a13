/// What a service asks of the plan of advertisements, where there are fewer places on the air than advertisements.
public struct AdvertisingTerms: Hashable, Sendable {
  /// Of two advertisements the one of higher priority goes on the air.
  public var priority: AdvertisingPriority
  /// Once it is on the air it stays at least this long without interruption, unless its owner takes it off.
  public var leastTime: Duration
  /// It goes on the air after this time at the latest, whatever the priorities are; and the least times of those that
  /// are there and of those that wait longer are added to it. What is to be said in a set is refused then.
  public var longestWait: Duration

  public init(
    _ priority: AdvertisingPriority = .presence, leastTime: Duration = .seconds(1), longestWait: Duration = .seconds(10)
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
