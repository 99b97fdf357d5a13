/// The use of the advertising slots.
public struct AdvertisingUse: Hashable, Sendable {
  /// Slots that are used, those of other programs' advertisements included.
  public var used: Int
  /// All slots that there are.
  public var places: Int
  /// The service of each slot that is on the air: one that uses several slots is named several times.
  public var onAir: [String]
  /// The services that wait for a slot, each once, the one that has waited longest first.
  public var waiting: [String]

  public init(used: Int, places: Int, onAir: [String], waiting: [String]) {
    self.used = used
    self.places = places
    self.onAir = onAir
    self.waiting = waiting
  }
}
