/// The bounds of a radio's links.
public struct LinkLimits: Hashable, Sendable {
  /// Links of the adapter at one time, whoever made them.
  public var links = 8
  /// How long a peer that connected may use no application before its link is cut.
  public var unusedTime = Duration.seconds(10)
  /// After this time a link that was not the radio's to cut is looked at again: the program that it may have been for may be gone.
  public var sparedTime = Duration.seconds(60)
  /// A link that was cut and has not ended in so long is cut again. bluetoothd takes two seconds.
  public var cutTime = Duration.seconds(10)
  /// Links that no service uses: of one more, the oldest is cut at once if it is older than `arrivalTime`, else the new one.
  public var unusedLinks = 4
  /// How long an unused link passes for the one that a service keeps a place for.
  public var arrivalTime = Duration.seconds(4)
  /// From the beginning of one outgoing attempt to that of the next.
  public var attemptPause = Duration.milliseconds(500)
  /// How long an attempt waits for its turn and for a place.
  public var queueTime = Duration.seconds(30)
  /// Attempts that wait, of all services.
  public var queueLength = 64

  public init() {}
}
