import Bytes
import Crypto

/// The reason why a message was refused or could not be created.
public enum NoiseError: Error, Hashable, Sendable {
  /// A message does not have the length that the handshake requires at this point, or is longer than the limit.
  case badLength
  /// A public key of the peer is a low-order point: the shared secret would be all zeros.
  case weakKey
  /// The tag is wrong: the key, the nonce or the bytes differ from those that were sealed.
  case authenticationFailed
  /// The other side sends the next message, or the handshake is already complete, or is not complete yet.
  case outOfTurn
  /// A message with this nonce was opened before.
  case replayed
  /// The nonce is so far below the newest one that the message may have been opened before.
  case tooOld
  /// The nonce is 2^31 or more above the newest one, or is the reserved value 2^32 - 1.
  case nonceJump
  /// All nonces were used: these keys cannot seal another message.
  case exhausted
  /// There is no session with the peer.
  case noSession
}

extension NoiseError: CustomStringConvertible {
  public var description: String {
    switch self {
    case .badLength: "the message has a wrong length"
    case .weakKey: "the peer's public key is a low-order point"
    case .authenticationFailed: "authentication of the message failed"
    case .outOfTurn: "the handshake does not permit this step now"
    case .replayed: "the message was already received"
    case .tooOld: "the message is older than the replay window"
    case .nonceJump: "the message's nonce is too far ahead of the last one"
    case .exhausted: "all nonces of the session are used"
    case .noSession: "there is no session with the peer"
    }
  }
}

extension NoiseError {
  init(_ error: CryptoError) {
    switch error {
    case .weakKey: self = .weakKey
    case .badLength: self = .badLength
    // Curve25519 accepts any 32 bytes as a key.
    case .authenticationFailed, .invalidKey, .unavailable: self = .authenticationFailed
    }
  }

  init(_ error: WireError) {
    self = .badLength
  }
}
