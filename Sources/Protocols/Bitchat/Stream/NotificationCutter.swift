import Common

/// Cuts what a peer notifies, as a stream, into packets: one notification may end within a packet, and have several. Facts:
/// bitchat.md section 1.1.
///
/// Between packets everything is skipped up to a byte that is a version: padding, whose bytes are never 1 or 2, and whatever
/// else is no packet. No more is kept than one packet that is not whole, and that for 250 ms.
public struct NotificationCutter: Sendable {
  /// What a notification gave.
  public struct Cut: Hashable, Sendable {
    /// The packets, without padding.
    public var packets: [[UInt8]] = []
    /// Bytes between packets.
    public var skipped = 0
    /// Bytes that were thrown away: a packet whose end did not come in time, or what followed a header that cannot be.
    public var lost = 0
  }

  static let patience = Duration.milliseconds(250)

  /// The beginning of a packet, whose end has not come.
  private var begun: [UInt8] = []
  private var begunAt = Instant.zero

  public init() {}

  /// Bytes that wait for the end of their packet.
  public var pending: Int { begun.count }

  /// Takes the value of a notification.
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
