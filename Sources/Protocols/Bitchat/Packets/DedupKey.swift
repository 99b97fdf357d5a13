import Bytes
import Crypto

/// Key by which the iOS app detects copies: sender, timestamp, type, and four bytes of the payload's SHA-256. The text
/// has the app's format. Facts: bitchat.md section 8.1.
///
/// An attacker can find collisions of four bytes and so suppress packets; `PacketID` does not have this weakness.
public struct DedupKey: Hashable, Sendable {
  public let sender: PeerID
  public let timestamp: UInt64
  public let type: MessageType
  /// First four bytes of the payload's SHA-256, big endian.
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
