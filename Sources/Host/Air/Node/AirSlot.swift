import Common
import Radio

/// A place for an advertisement in a node's controller, and what is in it.
struct AirSlot {
  /// Nil when the driver could not encode what it was given.
  var content: EncodedAdvertisement?
  /// The same as the driver was given it; nil where the hub has it from another program.
  var advertisement: Advertisement?
  /// What is wrong with it.
  var error: RadioError?
  /// Its number in the air, while it is on it.
  var onAir: UInt64?
  /// The link by whose coming up it fell silent.
  var silencedBy: LinkID?
}
