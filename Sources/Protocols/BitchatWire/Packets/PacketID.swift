import Bytes
import Crypto

/// Identifies a packet for deduplication and sync: the first 16 bytes of a SHA-256 over type, sender, timestamp and
/// payload. Facts: bitchat.md section 9.
///
/// Copies have the same ID, regardless of compression, signature, recipient and TTL.
public struct PacketID: WireValue, Hashable, Sendable {
  public static let size = 16

  package let high: UInt64
  package let low: UInt64

  /// Computes the ID of a packet.
  public init(_ packet: Packet) {
    self.init(packet.type, packet.sender, packet.timestamp, packet.payload[...])
  }

  /// Computes the ID of a packet with an uncompressed payload.
  package init(plain view: PacketView) { self.init(view.type, view.sender, view.timestamp, view.section) }

  private init(_ type: MessageType, _ sender: PeerID, _ timestamp: UInt64, _ payload: ArraySlice<UInt8>) {
    let hash = withUnsafeTemporaryAllocation(byteCount: Self.headBytes + payload.count, alignment: 1) { buffer in
      buffer.storeBytes(of: type.rawValue, as: UInt8.self)
      buffer.storeBytes(of: sender.rawValue.bigEndian, toByteOffset: 1, as: UInt64.self)
      buffer.storeBytes(of: timestamp.bigEndian, toByteOffset: 9, as: UInt64.self)
      UnsafeMutableRawBufferPointer(rebasing: buffer[Self.headBytes...]).copyBytes(from: payload)
      return SHA256.words(UnsafeRawBufferPointer(buffer))
    }
    (high, low) = (hash.first, hash.second)
  }

  /// Number of bytes before the payload: type, sender and timestamp.
  private static let headBytes = 17

  public init(reading reader: inout ByteReader) throws(WireError) {
    guard reader.remaining >= Self.size else { throw .truncated(needed: Self.size, available: reader.remaining) }
    high = try reader.u64be()
    low = try reader.u64be()
  }

  public func write(to writer: inout ByteWriter) {
    writer.u64be(high)
    writer.u64be(low)
  }
}

extension PacketID: CustomStringConvertible {
  public var description: String { Hex.encode(bytes) }
}
