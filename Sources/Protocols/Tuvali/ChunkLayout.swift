/// How a frame is cut at a given MTU. Facts: tuvali.md sections 5 and 6.
public struct ChunkLayout: Hashable, Sendable {
  /// The usable bytes of one write: ATT_MTU - 3, and 509 at most.
  public let maxData: Int

  public init(mtu: Int) {
    maxData = min(max(mtu, Self.writeHeaderBytes) - Self.writeHeaderBytes, Limits.writeBytes)
  }

  /// The layout of a sender whose full chunks have `payload` bytes.
  init(payload: Int) {
    self.init(mtu: payload + Chunk.headerBytes + Self.writeHeaderBytes)
  }

  /// The opcode and the handle, which ATT puts in front of the value of a write.
  private static let writeHeaderBytes = 3

  /// Whether a transfer is possible at all: it needs 64 usable bytes.
  public var isUsable: Bool { maxData >= Limits.minimumMTU - Self.writeHeaderBytes }

  /// How many bytes of the frame one chunk carries.
  public var payload: Int { max(1, maxData - Chunk.headerBytes) }

  /// How many sequence numbers one page of a report has.
  public var reportPage: Int { max(0, maxData - TransferReport.headerBytes) / 2 }

  /// How many chunks a frame of `bytes` bytes has.
  public func count(forFrame bytes: Int) -> Int {
    (bytes + payload - 1) / payload
  }
}
