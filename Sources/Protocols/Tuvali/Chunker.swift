import Bytes

/// A frame, cut into chunks as they are asked for.
///
///     offset  size
///     0       2     sequence, big endian
///     2       2     CRC-16/KERMIT of the payload, big endian
///     4       1...  payload; only the last one may be short
public struct Chunker: Sendable {
  public let count: Int
  private let frame: [UInt8]
  private let layout: ChunkLayout
  private let firstSequence: Int

  /// - Throws: TVW_UNK_003 where the frame needs more chunks than there are sequence numbers.
  public init(frame: [UInt8], layout: ChunkLayout, firstSequence: Int) throws(TuvaliError) {
    count = layout.count(forFrame: frame.count)
    guard count <= Limits.chunks else {
      throw TuvaliError(
        .walletTransfer, .limitExceeded,
        "The credential needs \(count) chunks at this MTU, and the protocol numbers \(Limits.chunks).")
    }
    self.frame = frame
    self.layout = layout
    self.firstSequence = firstSequence
  }

  /// Sequence numbers, in order.
  public var sequences: Range<Int> { firstSequence..<firstSequence + count }

  /// The chunk with this sequence number; nil for a number that the frame does not have.
  public func chunk(_ sequence: Int) -> [UInt8]? {
    guard sequences.contains(sequence) else { return nil }
    let start = (sequence - firstSequence) * layout.payload
    let payload = frame[start..<min(start + layout.payload, frame.count)]
    var writer = ByteWriter(capacity: ChunkLayout.headerBytes + payload.count)
    writer.u16be(UInt16(truncatingIfNeeded: sequence))
    writer.u16be(CRC16.kermit(payload))
    writer.append(payload)
    return writer.bytes
  }
}
