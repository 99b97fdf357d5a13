/// How a frame is cut at a given MTU.
public struct ChunkLayout: Hashable, Sendable {
  /// Sequence and CRC.
  public static let headerBytes = 4

  /// Usable bytes of one write: min(ATT_MTU, 512) - 3.
  public let maxData: Int

  public init(mtu: Int) {
    maxData = max(0, min(mtu, 512) - 3)
  }

  /// Whether a transfer is possible at all: 64 usable bytes.
  public var isUsable: Bool { maxData >= Limits.minimumMTU - 3 }

  /// Bytes of the frame in one chunk.
  public var payload: Int { max(1, maxData - Self.headerBytes) }

  /// Sequence numbers in one page of a report.
  public var reportPage: Int { max(0, maxData - TransferReport.headerBytes) / 2 }

  public func count(forFrame bytes: Int) -> Int {
    (bytes + payload - 1) / payload
  }
}
