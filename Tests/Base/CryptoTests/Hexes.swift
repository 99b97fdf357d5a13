import Bytes
import Crypto

/// The hexadecimal digits of a secret from a test vector.
func hex(_ secret: SecretBytes) -> String {
  secret.withUnsafeBytes { Hex.encode($0) }
}

/// A secret from the digits of a test vector.
func secret(_ digits: String) throws -> SecretBytes {
  SecretBytes(copying: try Hex.decode(digits))
}
