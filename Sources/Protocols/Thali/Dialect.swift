import Bytes
import Common
import Crypto

/// The two forms of the protocol. The first octet of an announcement identifies its form.
///
/// | | `spec` | `node` |
/// |---|---|---|
/// | public keys | SubjectPublicKeyInfo, 88 bytes | point, 65 bytes |
/// | flag of a beacon | AES-128-GCM | AES-128-CBC with a key from MD5 |
/// | HKDF | secret as key material, data as salt | the two swapped |
/// | unknown sender in a beacon | ends the reading | the next beacon is read |
/// | TLS identity | base64, 192 characters | base64url of SHA-256, 43 characters |
/// | TLS key | 16 bytes | 32 bytes |
///
/// Facts: thali.md sections 1 and 3.
public enum Dialect: String, CaseIterable, Hashable, Sendable {
  /// The documents of October 2015.
  case spec
  /// The form of released phones: npm "thali" 2.1.0.
  case node

  /// The dialect of an announcement that begins with the octet; nil for any other octet.
  public init?(firstOctet: UInt8) {
    switch firstOctet {
    case Secp256k1.PublicKey.infoPrefix[0]: self = .spec
    case Secp256k1.PublicKey.pointMark: self = .node
    default: return nil
    }
  }

  /// The size of an encoded public key, in bytes.
  public var keySize: Int {
    switch self {
    case .spec: Secp256k1.PublicKey.infoSize
    case .node: Secp256k1.PublicKey.pointSize
    }
  }

  /// The size of a preamble in bytes: an encoded public key, and 8 bytes of expiration.
  public var preambleSize: Int { keySize + 8 }

  /// Encodes a public key as in announcements.
  public func encode(_ key: Secp256k1.PublicKey) -> [UInt8] {
    switch self {
    case .spec: key.info
    case .node: key.point
    }
  }

  /// Reads a public key. Throws `badLength` and `invalidKey` like `Secp256k1.PublicKey`.
  public func decode(_ bytes: ArraySlice<UInt8>) throws(CryptoError) -> Secp256k1.PublicKey {
    switch self {
    case .spec: try Secp256k1.PublicKey(info: bytes)
    case .node: try Secp256k1.PublicKey(point: bytes)
    }
  }

  /// The identifier of a key: the first 16 bytes of the SHA-256 of its encoding.
  public func keyID(of key: Secp256k1.PublicKey) -> KeyID {
    KeyID(SHA256.hash(encode(key)))
  }
}

/// The identifier of a sender's long-term key, 16 bytes. It differs between dialects.
public struct KeyID: Hashable, Sendable {
  public static let size = 16

  public let bytes: [UInt8]

  /// Creates the identifier from the first 16 bytes. Fewer bytes make an identifier that matches no key.
  init(_ bytes: some Collection<UInt8>) { self.bytes = Array(bytes.prefix(Self.size)) }
}

extension KeyID: CustomStringConvertible {
  /// Constant text, because the identifier identifies a person's key and must not appear in logs.
  public var description: String { "key identifier" }
}

/// A time of the wall clock: milliseconds since 1970-01-01 00:00 UTC. Announcements carry their expiration in this
/// form, as eight bytes, most significant first.
public struct WallTime: Hashable, Comparable, Sendable {
  public let milliseconds: UInt64

  public init(milliseconds: UInt64) { self.milliseconds = milliseconds }

  /// The moment `duration` later, limited to the range of the type.
  public func advanced(by duration: Duration) -> WallTime {
    let change = duration.wholeMilliseconds
    let (sum, overflow) =
      change < 0
      ? milliseconds.subtractingReportingOverflow(change.magnitude)
      : milliseconds.addingReportingOverflow(change.magnitude)
    return WallTime(milliseconds: overflow ? (change < 0 ? .min : .max) : sum)
  }

  /// The time from this moment to `other`, limited to the range of signed milliseconds; negative if `other` is earlier.
  public func duration(to other: WallTime) -> Duration {
    other < self
      ? .milliseconds(-Int64(clamping: milliseconds - other.milliseconds))
      : .milliseconds(Int64(clamping: other.milliseconds - milliseconds))
  }

  /// The eight bytes, most significant first.
  public var bytes: [UInt8] { withUnsafeBytes(of: milliseconds.bigEndian, Array.init) }

  public static func < (first: WallTime, second: WallTime) -> Bool { first.milliseconds < second.milliseconds }
}
