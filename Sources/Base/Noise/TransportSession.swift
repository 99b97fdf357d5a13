import Crypto

/// The messages after a handshake: each is sealed with the sender's key and says its nonce.
///
///     nonce         4, most significant byte first
///     ciphertext    as long as the plaintext
///     tag           16
///
/// The cipher's nonce is four zero bytes and the nonce as eight bytes, least significant first; there is no additional data.
/// A sender counts from 0 and stops before 2^32 - 1. A receiver takes messages in any order, each once, as long as they are
/// no more than 1,023 behind the newest one (`ReplayWindow`).
///
/// A message may be longer than the 65,535 bytes of Noise (revision 34, section 3): limits are the caller's.
public struct TransportSession: Sendable {
  /// How many bytes a message has more than its plaintext.
  public static let overhead = 20

  private static let nonceSize = 4

  /// Both keys: they go together, and are overwritten when the last copy of the session goes.
  let keys: SecretBytes
  private let sending: ChaChaPoly.Key
  private let receiving: ChaChaPoly.Key
  /// The nonce of the next message that is sealed, which is how many there were.
  public private(set) var sealed: UInt32
  private var window = ReplayWindow()

  /// - Parameters:
  ///   - keys: the initiator's, 32 bytes, then the responder's.
  ///   - sealed: how many messages were sealed before.
  init(keys: SecretBytes, isInitiator: Bool, sealed: UInt32 = 0) throws(NoiseError) {
    do throws(CryptoError) {
      let (first, second) = (try ChaChaPoly.Key(keys), try ChaChaPoly.Key(keys, at: ChaChaPoly.keySize))
      (sending, receiving) = isInitiator ? (first, second) : (second, first)
    } catch {
      throw NoiseError(error)
    }
    (self.keys, self.sealed) = (keys, sealed)
  }

  /// The message that carries `plaintext`. Throws `exhausted` if every nonce was used.
  public mutating func seal(_ plaintext: [UInt8]) throws(NoiseError) -> [UInt8] {
    guard sealed < .max else { throw .exhausted }
    let nonce = sealed
    sealed += 1
    var message = sending.seal(plaintext, number: UInt64(nonce), behind: Self.nonceSize)
    message[0] = UInt8(truncatingIfNeeded: nonce >> 24)
    message[1] = UInt8(truncatingIfNeeded: nonce >> 16)
    message[2] = UInt8(truncatingIfNeeded: nonce >> 8)
    message[3] = UInt8(truncatingIfNeeded: nonce)
    return message
  }

  /// The plaintext of a message of the peer's.
  ///
  /// Throws `badLength` if it is too short, `authenticationFailed` if the peer did not seal it so; of what the peer did seal,
  /// `replayed`, `tooOld` and `nonceJump`. In each case nothing has changed.
  public mutating func open(_ message: [UInt8]) throws(NoiseError) -> [UInt8] {
    guard message.count >= Self.overhead else { throw .badLength }
    let nonce = message.prefix(Self.nonceSize).reduce(0) { $0 << 8 | UInt32($1) }
    let plaintext: [UInt8]
    do throws(CryptoError) {
      plaintext = try receiving.open(message[Self.nonceSize...], number: UInt64(nonce))
    } catch {
      throw NoiseError(error)
    }
    // Only now is the nonce the peer's word.
    switch window.verdict(on: nonce) {
    case .replayed: throw .replayed
    case .tooOld: throw .tooOld
    case .jump: throw .nonceJump
    case .fresh: window.insert(nonce)
    }
    return plaintext
  }
}
