/// The use of the advertising slots.
public struct AdvertisingUse: Hashable, Sendable {
  /// Used slots, including those of other programs' advertisements.
  public var used: Int
  /// Number of all slots.
  public var places: Int
  /// The service of each active slot; a service with several slots is listed several times.
  public var onAir: [String]
  /// The services that wait for a slot, each once, in descending order of waiting time.
  public var waiting: [String]

  public init(used: Int, places: Int, onAir: [String], waiting: [String]) {
    self.used = used
    self.places = places
    self.onAir = onAir
    self.waiting = waiting
  }
}
