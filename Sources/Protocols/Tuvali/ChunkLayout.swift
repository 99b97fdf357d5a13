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
