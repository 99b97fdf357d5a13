import Crypto

/// The messages after a handshake: each is sealed with the sender's key and carries its nonce.
///
///     nonce         4, most significant byte first
///     ciphertext    as long as the plaintext
///     tag           16
///
/// The nonce of the cipher has 12 bytes: four zeros, then the message's nonce as eight bytes, least significant first.
/// There is no additional data. A sender counts from 0 and stops before 2^32 - 1. A receiver accepts messages in any
/// order, each once, if they are at most 1,023 behind the newest (`ReplayWindow`).
///
/// A message may be longer than the 65,535 bytes of Noise (revision 34, section 3): the caller sets limits.
public struct TransportSession: Sendable {
  /// Number of bytes by which a message is longer than its plaintext.
  public static let overhead = 20

  private static let nonceSize = 4

  /// Both keys, in one secret that is overwritten when the last copy of the session is dropped.
  let keys: SecretBytes
  private let sending: ChaChaPoly.Key
  private let receiving: ChaChaPoly.Key
  /// The nonce of the next message, which is the number of sealed messages.
  public private(set) var sealed: UInt32
  private var window = ReplayWindow()

  /// - Parameters:
  ///   - keys: the initiator's key, 32 bytes, followed by the responder's.
  ///   - sealed: number of messages that were sealed before.
  init(keys: SecretBytes, isInitiator: Bool, sealed: UInt32 = 0) throws(NoiseError) {
    do throws(CryptoError) {
      let (first, second) = (try ChaChaPoly.Key(keys), try ChaChaPoly.Key(keys, at: ChaChaPoly.keySize))
      (sending, receiving) = isInitiator ? (first, second) : (second, first)
    } catch {
      throw NoiseError(error)
    }
    (self.keys, self.sealed) = (keys, sealed)
  }

  /// Seals `plaintext`. Throws `exhausted` if every nonce was used.
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

  /// Opens a message from the peer.
  ///
  /// Throws `badLength` if it is too short, and `authenticationFailed` if the peer did not seal it. For an authentic
  /// message it may throw `replayed`, `tooOld` or `nonceJump`. In each case nothing has changed.
  public mutating func open(_ message: [UInt8]) throws(NoiseError) -> [UInt8] {
    guard message.count >= Self.overhead else { throw .badLength }
    let nonce = message.prefix(Self.nonceSize).reduce(0) { $0 << 8 | UInt32($1) }
    let plaintext: [UInt8]
    do throws(CryptoError) {
      plaintext = try receiving.open(message[Self.nonceSize...], number: UInt64(nonce))
    } catch {
      throw NoiseError(error)
    }
    // The nonce is authenticated only from here on.
    switch window.verdict(on: nonce) {
    case .replayed: throw .replayed
    case .tooOld: throw .tooOld
    case .jump: throw .nonceJump
    case .fresh: window.insert(nonce)
    }
    return plaintext
  }
}

/// The record of received nonces, for the 1,024 newest.
///
/// A nonce that is 1,024 or more below the highest counts as received.
struct ReplayWindow: Hashable, Sendable {
  /// Number of nonces that are remembered, including the highest.
  static let size: UInt32 = 1024
  /// Smallest distance above the highest nonce that is refused as a jump.
  static let jumpLimit: UInt32 = 1 << 31

  /// One bit for each nonce, in words of 64. There is one more word than 1,024 bits need, because the highest nonce can
  /// have any position in its word.
  private var words = [UInt64](repeating: 0, count: wordCount)
  private var highest: UInt32?

  private static let wordCount = Int(size / 64) + 1

  enum Verdict: Hashable, Sendable {
    case fresh, replayed, tooOld, jump
  }

  /// Returns whether a message with this nonce may be opened, without recording the nonce.
  func verdict(on nonce: UInt32) -> Verdict {
    // The last nonce is reserved.
    guard nonce != .max else { return .jump }
    guard let highest else { return nonce < Self.jumpLimit ? .fresh : .jump }
    if nonce > highest { return nonce - highest < Self.jumpLimit ? .fresh : .jump }
    if highest - nonce >= Self.size { return .tooOld }
    let (word, bit) = Self.place(of: nonce)
    return words[word] & bit == 0 ? .fresh : .replayed
  }

  /// Records the nonce of an opened message, so that its copies are refused.
  mutating func insert(_ nonce: UInt32) {
    if let highest, nonce > highest {
      // The words in between belonged to nonces that are now too old. A jump over all of them clears each word once.
      let (from, to) = (Int(highest / 64), Int(nonce / 64))
      for word in from..<min(to, from + Self.wordCount) { words[(word + 1) % Self.wordCount] = 0 }
    }
    highest = max(nonce, highest ?? nonce)
    let (word, bit) = Self.place(of: nonce)
    words[word] |= bit
  }

  private static func place(of nonce: UInt32) -> (word: Int, bit: UInt64) {
    (Int(nonce / 64) % wordCount, 1 << UInt64(nonce % 64))
  }
}
