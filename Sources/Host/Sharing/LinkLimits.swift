/// The limits of a radio's links.
public struct LinkLimits: Hashable, Sendable {
  /// Maximum links of the adapter, in either role.
  public var links = 8
  /// Maximum time in which a connected peer uses no application before its link is ended.
  public var unusedTime = Duration.seconds(10)
  /// Time after which a spared link is checked again: the other program that it may have belonged to may be gone.
  public var sparedTime = Duration.seconds(60)
  /// Time after which an unsuccessful request to end a link is repeated. bluetoothd takes two seconds.
  public var cutTime = Duration.seconds(10)
  /// Maximum links without users. Beyond it the oldest is ended immediately if it is older than `arrivalTime`,
  /// otherwise the new one.
  public var unusedLinks = 4
  /// Time in which a new unused link counts as one that a service expects.
  public var arrivalTime = Duration.seconds(4)
  /// Minimum time between the starts of two outgoing attempts.
  public var attemptPause = Duration.milliseconds(500)
  /// Maximum waiting time of an attempt.
  public var queueTime = Duration.seconds(30)
  /// Maximum waiting attempts of all services.
  public var queueLength = 64

  public init() {}
}
