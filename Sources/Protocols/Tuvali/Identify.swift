import Bytes
import Crypto

/// The value of Identify: who the wallet is, for this connection.
///
///     offset  size
///     0       12    AES-GCM nonce
///     12      32    X25519 public key of the wallet
public struct Identify: Hashable, Sendable {
  public static let size = 44

  public let nonce: [UInt8]
  public let walletKey: X25519.PublicKey

  public init(nonce: [UInt8], walletKey: X25519.PublicKey) {
    self.nonce = nonce
    self.walletKey = walletKey
  }

  /// Bytes beyond the 44 are ignored, as the originals do.
  public init(reading value: [UInt8]) throws(WireError) {
    var reader = ByteReader(value)
    nonce = Array(try reader.bytes(12))
    let key = try reader.bytes(32)
    do throws(CryptoError) {
      walletKey = try X25519.PublicKey(key)
    } catch {
      throw .badValue("walletKey")
    }
  }

  public var bytes: [UInt8] { nonce + walletKey.bytes }
}
