import Bytes
import Crypto

/// Value of Identify: nonce and key of the wallet for this connection. Facts: tuvali.md section 3.
///
///     offset  size
///     0       12    AES-GCM nonce
///     12      32    X25519 public key of the wallet
///
/// Bytes after the first 44 are ignored, as in the originals.
public struct Identify: WireValue, Hashable, Sendable {
  /// Length of the value, in bytes.
  public static let size = nonceBytes + keyBytes

  static let nonceBytes = 12
  private static let keyBytes = 32

  /// Nonce of every AES-GCM message of this connection.
  public let nonce: [UInt8]
  /// Public key of the wallet, fresh for this connection.
  public let walletKey: X25519.PublicKey

  public init(nonce: [UInt8], walletKey: X25519.PublicKey) {
    self.nonce = nonce
    self.walletKey = walletKey
  }

  public init(reading reader: inout ByteReader) throws(WireError) {
    nonce = Array(try reader.bytes(Self.nonceBytes))
    let key = try reader.bytes(Self.keyBytes)
    do throws(CryptoError) {
      walletKey = try X25519.PublicKey(key)
    } catch {
      throw .badValue("walletKey")
    }
  }

  public func write(to writer: inout ByteWriter) {
    writer.append(nonce)
    writer.append(walletKey.bytes)
  }
}
