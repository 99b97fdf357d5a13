import Bytes

/// Cuts a frame into chunks, one per request.
public struct Chunker: Sendable {
  /// Number of chunks of the frame.
  public let count: Int
  private let frame: [UInt8]
  private let layout: ChunkLayout
  private let firstSequence: Int

  /// - Throws: TVW_UNK_003 if the frame needs more chunks than there are sequence numbers.
  public init(frame: [UInt8], layout: ChunkLayout, firstSequence: Int) throws(TuvaliError) {
    count = layout.count(forFrame: frame.count)
    guard count <= Limits.chunks else {
      throw TuvaliError(
        .walletTransfer, .limitExceeded,
        "The credential needs \(count) chunks at this MTU; the protocol allows \(Limits.chunks).")
    }
    self.frame = frame
    self.layout = layout
    self.firstSequence = firstSequence
  }

  /// Sequence numbers, in order.
  public var sequences: Range<Int> { firstSequence..<firstSequence + count }

  /// Returns the encoded chunk with this sequence number; nil for a number outside of the frame.
  public func chunk(_ sequence: Int) -> [UInt8]? {
    guard sequences.contains(sequence) else { return nil }
    let start = (sequence - firstSequence) * layout.payload
    let payload = frame[start..<min(start + layout.payload, frame.count)]
    var writer = ByteWriter(capacity: Chunk.headerBytes + payload.count)
    Chunk(sequence: UInt16(truncatingIfNeeded: sequence), payload: payload).write(to: &writer)
    return writer.bytes
  }
}
