import Common

/// Splits the stream of a peer's notifications into packets: a notification may end within a packet, or contain
/// several. Facts: bitchat.md section 1.1.
///
/// Between packets it skips all bytes other than versions: padding, whose bytes are never 1 or 2, and malformed data.
/// It buffers at most one incomplete packet, for 250 ms.
public struct NotificationCutter: Sendable {
  /// Result of a notification.
  public struct Cut: Hashable, Sendable {
    /// Complete packets, without padding.
    public var packets: [[UInt8]] = []
    /// Number of bytes skipped between packets.
    public var skipped = 0
    /// Number of bytes dropped: an incomplete packet that timed out, or data after an invalid header.
    public var lost = 0
  }

  static let patience = Duration.milliseconds(250)

  /// Incomplete packet.
  private var begun: [UInt8] = []
  private var begunAt = Instant.zero

  public init() {}

  /// Number of buffered bytes.
  public var pending: Int { begun.count }

  /// Processes the value of a notification.
  public mutating func append(_ value: [UInt8], at now: Instant) -> Cut {
    var cut = Cut()
    if !begun.isEmpty, begunAt.advanced(by: Self.patience) <= now {
      cut.lost = begun.count
      begun = []
    }
    if begun.isEmpty { begunAt = now }
    let bytes = begun + value
    var start = 0
    scan: while start < bytes.count {
      if PacketVersion(rawValue: bytes[start]) == nil {
        start += 1
        cut.skipped += 1
        continue
      }
      switch bytes.withUnsafeBytes({ PacketHeader.read(UnsafeRawBufferPointer(rebasing: $0[start...])) }) {
      case .needs: break scan
      case .refused:
        cut.lost += bytes.count - start
        start = bytes.count
      case .header(let header):
        guard start + header.end <= bytes.count else { break scan }
        cut.packets.append(Array(bytes[start..<start + header.end]))
        start += header.end
        begunAt = now
      }
    }
    begun = Array(bytes[start...])
    return cut
  }
}
