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
