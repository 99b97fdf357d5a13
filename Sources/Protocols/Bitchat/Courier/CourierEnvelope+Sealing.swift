import Bytes
import Crypto
import Noise

extension CourierEnvelope {
  private static let prologue = Array("bitchat-courier-v1".utf8)

  /// Reason why an envelope for this node cannot be read.
  enum OpeningError: Error, Hashable, Sendable {
    /// The envelope is sealed for a prekey, which this node does not support.
    case prekey
    /// The envelope is not sealed for this node, or was changed.
    case notOpened
    /// The payload is not a valid Noise payload.
    case unreadable(NoisePayloadError)
  }

  /// Seals a payload for the owner of a Noise key, with the tag of the day of `time`.
  ///
  /// - Parameters:
  ///   - time: milliseconds since 1970.
  ///   - expiry: milliseconds since 1970; limited to one day after `time`.
  /// - Throws: `badValue` for an invalid recipient key, and `tooLong`.
  init(
    sealing payload: NoisePayload, for recipient: X25519.PublicKey, from key: X25519.PrivateKey, at time: UInt64,
    expiry: UInt64, randomFrom random: inout some RandomSource
  ) throws(WireError) {
    let sealed: [UInt8]
    do throws(NoiseError) {
      sealed = try OneWayMessage.seal(
        payload.bytes, to: recipient, from: key, prologue: Self.prologue, randomFrom: &random)
    } catch {
      throw .badValue("recipient")
    }
    try self.init(
      tag: CourierTag(for: recipient, day: CourierTag.day(of: time)), expiry: min(expiry, time &+ Self.lifetime),
      ciphertext: sealed)
  }

  /// Opens the envelope. Returns the payload and the Noise key of the sender.
  func open(with key: X25519.PrivateKey) throws(OpeningError) -> (payload: NoisePayload, sender: X25519.PublicKey) {
    guard prekey == nil else { throw .prekey }
    let opened: (text: [UInt8], sender: X25519.PublicKey)
    do throws(NoiseError) {
      opened = try OneWayMessage.open(ciphertext, with: key, prologue: Self.prologue)
    } catch {
      throw .notOpened
    }
    do throws(NoisePayloadError) {
      return (try NoisePayload(reading: opened.text), opened.sender)
    } catch {
      throw .unreadable(error)
    }
  }
}
