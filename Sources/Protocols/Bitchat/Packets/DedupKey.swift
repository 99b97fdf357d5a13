import Bytes
import Crypto

/// The key by which the iOS app drops copies: sender, timestamp, type, and four bytes of the payload's SHA-256. The text is the
/// app's. Facts: bitchat.md section 8.1.
///
/// Four bytes are too few against a stranger who wants a packet dropped; `PacketID` has no such weakness.
public struct DedupKey: Hashable, Sendable {
  public let sender: PeerID
  public let timestamp: UInt64
  public let type: MessageType
  /// The first four bytes of the payload's SHA-256, most significant first.
  public let digest: UInt32

  public init(_ packet: Packet) {
    sender = packet.sender
    timestamp = packet.timestamp
    type = packet.type
    digest = UInt32(truncatingIfNeeded: packet.payload.withUnsafeBytes { SHA256.words($0) }.first >> 32)
  }
}

extension DedupKey: CustomStringConvertible {
  public var description: String {
    let hash = Hex.encode(withUnsafeBytes(of: digest.bigEndian) { Array($0) })
    return "\(sender)-\(timestamp)-\(type.rawValue)-\(hash)"
  }
}
