/// The reason why a cipher, a signature or a key was refused. An error never reveals anything about a secret.
public enum CryptoError: Error, Hashable, Sendable {
  /// A key, nonce, signature or message has the wrong number of bytes; the string names it.
  case badLength(String, expected: Int, got: Int)
  /// The peer's public key is a low-order point: the shared secret would be all zeros.
  case weakKey
  /// The bytes are not a key: a point that is not on the curve, a number out of range, or another encoding. The
  /// associated value names the kind of key.
  case invalidKey(String)
  /// The message or its additional data is not what the owner of the key sealed.
  case authenticationFailed
  /// The library cannot perform the operation that the associated value names, because of this machine.
  case unavailable(String)
}

extension CryptoError: CustomStringConvertible {
  public var description: String {
    switch self {
    case .badLength(let name, let expected, let got): "\(name) has \(got) bytes, expected \(expected)"
    case .weakKey: "the public key is a low-order point"
    case .invalidKey(let name): "the bytes are not a valid \(name)"
    case .authenticationFailed: "authentication failed"
    case .unavailable(let name): "\(name) is not available from the crypto library"
    }
  }
}

/// Throws `badLength` unless `got` is `expected`.
func checkLength(_ got: Int, is expected: Int, of name: @autoclosure () -> String) throws(CryptoError) {
  guard got == expected else { throw .badLength(name(), expected: expected, got: got) }
}
