import Crypto

/// A message to a peer that is not connected: one message by pattern X, which the receiver opens later (Noise Protocol
/// Framework, revision 34, section 7.4).
///
///     ephemeral key          32
///     sender's static key    48, sealed
///     text                   as long as its plaintext, and a tag of 16
///
/// The receiver learns the sender's static key. The message has no protection against replay, and anybody who obtains
/// the receiver's static key can read it.
public enum OneWayMessage {
  /// Number of bytes that a message is longer than its text.
  public static let overhead = 96

  /// Seals `text` for the owner of `peer`. Throws `weakKey` if `peer` is a low-order point, `badLength` if the message
  /// would be longer than 65,535 bytes.
  public static func seal(
    _ text: [UInt8], to peer: X25519.PublicKey, from key: X25519.PrivateKey, prologue: [UInt8],
    randomFrom random: inout some RandomSource
  ) throws(NoiseError) -> [UInt8] {
    var handshake = Handshake(.xSender(to: peer), key: key, prologue: prologue)
    return try handshake.write(text, randomFrom: &random)
  }

  /// Returns the text of a message to the owner of `key`, and the static key of its sender.
  ///
  /// Throws `badLength`, `weakKey` or `authenticationFailed`.
  public static func open(
    _ message: [UInt8], with key: X25519.PrivateKey, prologue: [UInt8]
  ) throws(NoiseError) -> (text: [UInt8], sender: X25519.PublicKey) {
    var handshake = Handshake(.xReceiver, key: key, prologue: prologue)
    let text = try handshake.read(message)
    guard let sender = handshake.peer else { throw .authenticationFailed }
    return (text, sender)
  }
}
