/// What a service asks of the plan of advertisements, where there are fewer places on the air than advertisements.
public struct AdvertisingTerms: Hashable, Sendable {
  /// Of two advertisements the one of higher priority goes on the air.
  public var priority: Int
  /// Once it is on the air it stays at least this long without interruption, unless its owner takes it off.
  public var leastTime: Duration
  /// It goes on the air after this time at the latest, whatever the priorities are; and the least times of those that
  /// are there and of those that wait longer are added to it.
  public var longestWait: Duration

  public init(
    priority: Int = 0, leastTime: Duration = .seconds(1), longestWait: Duration = .seconds(10)
  ) {
    self.priority = priority
    self.leastTime = leastTime
    self.longestWait = longestWait
  }
}
