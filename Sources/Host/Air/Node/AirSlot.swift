import Common
import Radio

/// An advertising slot of a node's controller, and its content.
struct AirSlot {
  /// Nil if the advertisement could not be encoded.
  var content: EncodedAdvertisement?
  /// The advertisement before encoding; nil if another program sent it through the hub.
  var advertisement: Advertisement?
  /// The error of the encoding.
  var error: RadioError?
  /// The advertisement's number in the simulated radio, while it is broadcast.
  var onAir: UInt64?
  /// The link whose creation ended the advertisement.
  var silencedBy: LinkID?
}
