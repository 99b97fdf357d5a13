import Bytes

/// One chunk of a frame: the value of Submit response. Facts: tuvali.md section 5.
///
///     offset  size
///     0       2     sequence, big endian
///     2       2     CRC-16/KERMIT of the payload, big endian
///     4       1...  payload; only the last chunk of a frame may have a short one
public struct Chunk: WireValue, Sendable {
  /// Length of the header, in bytes.
  public static let headerBytes = 4

  /// Number of the chunk in its frame.
  public let sequence: UInt16
  /// Checksum that was sent with the payload.
  public let crc: UInt16
  /// The chunk's part of the frame; never empty after decoding.
  public let payload: ArraySlice<UInt8>

  /// Makes a chunk with the right checksum.
  public init(sequence: UInt16, payload: ArraySlice<UInt8>) {
    self.sequence = sequence
    self.payload = payload
    crc = CRC16.kermit(payload)
  }

  /// Decodes a chunk, to the end of the value. Does not verify the checksum; see `isIntact`.
  ///
  /// Throws `truncated` for a value without payload.
  public init(reading reader: inout ByteReader) throws(WireError) {
    sequence = try reader.u16be()
    crc = try reader.u16be()
    guard !reader.isAtEnd else { throw .truncated(needed: 1, available: 0) }
    payload = reader.rest()
  }

  /// Whether the checksum matches the payload.
  public var isIntact: Bool { CRC16.kermit(payload) == crc }

  public func write(to writer: inout ByteWriter) {
    writer.u16be(sequence)
    writer.u16be(crc)
    writer.append(payload)
  }
}

/// Chunk sizes at a given MTU. Facts: tuvali.md sections 5 and 6.
public struct ChunkLayout: Hashable, Sendable {
  /// Usable bytes of one write: ATT_MTU - 3, at most 509.
  public let maxData: Int

  public init(mtu: Int) {
    maxData = min(max(mtu, Self.writeHeaderBytes) - Self.writeHeaderBytes, Limits.writeBytes)
  }

  /// Makes the layout of a sender whose full chunks have `payload` bytes.
  init(payload: Int) {
    self.init(mtu: payload + Chunk.headerBytes + Self.writeHeaderBytes)
  }

  /// Length of opcode and handle, which precede the value of an ATT write.
  private static let writeHeaderBytes = 3

  /// Whether the MTU allows a transfer, which needs 64 usable bytes.
  public var isUsable: Bool { maxData >= Limits.minimumMTU - Self.writeHeaderBytes }

  /// Bytes of the frame per chunk.
  public var payload: Int { max(1, maxData - Chunk.headerBytes) }

  /// Sequence numbers per page of a report.
  public var reportPage: Int { max(0, maxData - TransferReport.headerBytes) / 2 }

  /// Number of chunks of a frame of `bytes` bytes.
  public func count(forFrame bytes: Int) -> Int {
    (bytes + payload - 1) / payload
  }
}

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

  /// Sequence numbers of all chunks of the frame, in ascending order.
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
