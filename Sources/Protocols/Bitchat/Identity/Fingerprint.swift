import Bytes
import Crypto

/// The SHA-256 of a Noise static key, which people compare. Facts: bitchat.md section 4.
public struct Fingerprint: Hashable, Sendable {
  /// 32 bytes.
  public let bytes: [UInt8]

  public init(noiseKey: X25519.PublicKey) {
    bytes = SHA256.hash(noiseKey.bytes)
  }

  /// Reads 64 hexadecimal digits of either case; throws `badValue("fingerprint")` for anything else.
  public init(text: some StringProtocol) throws(WireError) {
    guard let bytes = try? Hex.decode(text), bytes.count == SHA256.size else { throw .badValue("fingerprint") }
    self.bytes = bytes
  }

  /// Peer ID of the owner: the first eight bytes.
  public var peerID: PeerID {
    PeerID(rawValue: bytes.prefix(PeerID.size).reduce(0) { $0 << 8 | UInt64($1) })
  }
}

extension Fingerprint: CustomStringConvertible {
  public var description: String { Hex.encode(bytes) }
}
