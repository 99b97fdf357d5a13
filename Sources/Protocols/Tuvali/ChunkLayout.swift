/// How a frame is cut at a given MTU. Facts: tuvali.md sections 5 and 6.
public struct ChunkLayout: Hashable, Sendable {
  /// Sequence and CRC.
  public static let headerBytes = 4

  /// Usable bytes of one write: ATT_MTU - 3, and 509 at most.
  public let maxData: Int

  public init(mtu: Int) {
    maxData = min(max(mtu, Self.writeHeaderBytes) - Self.writeHeaderBytes, Limits.writeBytes)
  }

  /// The layout of a sender whose full chunks have `payload` bytes.
  init(payload: Int) {
    self.init(mtu: payload + Self.headerBytes + Self.writeHeaderBytes)
  }

  /// What ATT puts before the value of a write: opcode and handle.
  private static let writeHeaderBytes = 3

  /// Whether a transfer is possible at all: 64 usable bytes.
  public var isUsable: Bool { maxData >= Limits.minimumMTU - Self.writeHeaderBytes }

  /// Bytes of the frame in one chunk.
  public var payload: Int { max(1, maxData - Self.headerBytes) }

  /// Sequence numbers in one page of a report.
  public var reportPage: Int { max(0, maxData - TransferReport.headerBytes) / 2 }

  /// How many chunks a frame of so many bytes has.
  public func count(forFrame bytes: Int) -> Int {
    (bytes + payload - 1) / payload
  }
}
