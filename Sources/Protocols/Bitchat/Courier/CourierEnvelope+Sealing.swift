import Bytes
import Crypto
import Noise

extension CourierEnvelope {
  private static let prologue = Array("bitchat-courier-v1".utf8)

  /// Why an envelope for this node says nothing.
  enum OpeningError: Error, Hashable, Sendable {
    /// It is sealed for a prekey, and this node has given out none.
    case prekey
    /// It is not sealed for this node, or was changed.
    case notOpened
    /// What is in it is nothing that can be read.
    case unreadable(NoisePayloadError)
  }

  /// Seals something for the owner of a Noise key, with the tag of today.
  ///
  /// - Parameters:
  ///   - time: milliseconds since 1970.
  ///   - expiry: when it is to be thrown away; a day after `time` at most.
  /// - Throws: `badValue` for a key that seals nothing, and `tooLong`.
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

  /// What is in the envelope, and the Noise key of whoever sealed it.
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
