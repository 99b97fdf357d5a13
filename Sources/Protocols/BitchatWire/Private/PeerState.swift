import Bytes
import Crypto

/// State of a peer, authenticated by the Noise session: a version, then records of one byte of type and one of length.
/// Facts: bitchat.md section 5.2. Layout:
///
///     version  01
///     01       `Capabilities`
///     02       Ed25519 public key, 32 bytes
public struct PeerState: Hashable, Sendable {
  public let capabilities: Capabilities
  public let signingKey: Ed25519.PublicKey

  public init(capabilities: Capabilities, signingKey: Ed25519.PublicKey) {
    self.capabilities = capabilities
    self.signingKey = signingKey
  }

  /// Decodes a state; unknown records are skipped. Throws `badValue` for another version, an invalid value, or a
  /// missing record.
  package init(reading bytes: ArraySlice<UInt8>) throws(WireError) {
    guard bytes.first == Self.version else { throw .badValue("version") }
    var capabilities: Capabilities?
    var signingKey: Ed25519.PublicKey?
    for record in try ShortTLV.all(in: bytes.dropFirst()) {
      switch record.type {
      case 0x01: capabilities = try Capabilities(record.value)
      case 0x02: signingKey = try Announcement.signingKey(record.value)
      default: continue
      }
    }
    guard let capabilities else { throw .badValue("capabilities") }
    guard let signingKey else { throw .badValue("signingKey") }
    self.init(capabilities: capabilities, signingKey: signingKey)
  }

  package func write(to writer: inout ByteWriter) {
    writer.u8(Self.version)
    ShortTLV.write([(0x01, capabilities.bytes), (0x02, signingKey.bytes)], to: &writer)
  }

  private static let version: UInt8 = 1
}
