import Bytes
import Crypto

/// Why a message was refused or could not be made.
public enum NoiseError: Error, Hashable, Sendable {
  /// A message does not have the length that its place asks for, or is longer than the limit.
  case badLength
  /// A public key of the peer's is a low-order point: the shared secret would be all zeros.
  case weakKey
  /// The tag is wrong: another key, another nonce, or other bytes than those that were sealed.
  case authenticationFailed
  /// It is the other side's turn, or the handshake is complete, or not yet.
  case outOfTurn
  /// A message with this nonce was opened before.
  case replayed
  /// So many later messages were opened that nobody knows whether this one was.
  case tooOld
  /// The nonce is 2^31 or more ahead of the last one, or is one that no peer may use.
  case nonceJump
  /// Every nonce was used: nothing can be sealed with these keys any more.
  case exhausted
  /// There is no session with the peer.
  case noSession
}

extension NoiseError: CustomStringConvertible {
  public var description: String {
    switch self {
    case .badLength: "the message has a wrong length"
    case .weakKey: "the peer's public key is a low-order point"
    case .authenticationFailed: "the message is not what the holder of the key sealed"
    case .outOfTurn: "it is not this side's turn"
    case .replayed: "the message was here before"
    case .tooOld: "the message is too old to tell whether it was here before"
    case .nonceJump: "the message's nonce is too far ahead"
    case .exhausted: "every nonce of the session was used"
    case .noSession: "there is no session with the peer"
    }
  }
}

extension NoiseError {
  init(_ error: CryptoError) {
    switch error {
    case .weakKey: self = .weakKey
    case .badLength: self = .badLength
    // Curve25519 takes any 32 bytes for a key.
    case .authenticationFailed, .invalidKey, .unavailable: self = .authenticationFailed
    }
  }

  init(_ error: WireError) {
    self = .badLength
  }
}
