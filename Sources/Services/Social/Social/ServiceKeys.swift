import ASN
import Bytes
import Crypto
import Store

/// The keys of the service, all derived from one key of 32 octets. That key is the credential `earshot-social` of the
/// unit, or the file `social.key` in the state directory, which is created if neither exists.
///
/// The nonce follows the rule of the original servers: the first 24 octets of the service's signature of its public
/// encryption key. Facts: asn.md section 2
public struct ServiceKeys: Sendable {
  static let name = StoreKey.Name("social")

  public let encryption: X25519.PrivateKey
  public let authentication: Ed25519.PrivateKey
  public let nonce: [UInt8]
  public let origin: StoreKey.Origin

  public var user: UserKey { UserKey(encryption.publicKey) }
  /// The nonce as 48 lower-case hexadecimal digits.
  public var nonceText: String { Hex.encode(nonce) }

  public init(in state: StateDirectory) throws(Store.StoreError) {
    let key = try StoreKey.load(Self.name, from: state)
    origin = key.origin
    let encryption = try key.key(for: "asn service encryption", count: 32)
    let authentication = try key.key(for: "asn service authentication", count: 32)
    do {
      self.encryption = try X25519.PrivateKey(encryption)
      self.authentication = try Ed25519.PrivateKey(seed: authentication)
    } catch {
      throw Store.StoreError(.failed, "No service key can be derived: \(error).")
    }
    nonce = Array(self.authentication.sign(self.encryption.publicKey.bytes).prefix(24))
  }
}
