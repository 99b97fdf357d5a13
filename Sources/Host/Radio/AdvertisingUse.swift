/// The services that use the advertising slots, and those that wait for one.
public struct AdvertisingUse: Hashable, Sendable {
  /// Number of used slots, including the advertisements of other programs.
  public var used: Int
  /// Number of all slots of the adapter.
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
