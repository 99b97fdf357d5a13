/// The use of the advertising slots.
public struct AdvertisingUse: Hashable, Sendable {
  /// Slots that are used, those of other programs' advertisements included.
  public var used: Int
  /// All slots that there are.
  public var places: Int
  /// The services that are on the air.
  public var onAir: [String]
  /// The services that wait for a slot, the one that has waited longest first.
  public var waiting: [String]

  public init(used: Int, places: Int, onAir: [String], waiting: [String]) {
    self.used = used
    self.places = places
    self.onAir = onAir
    self.waiting = waiting
  }
}
