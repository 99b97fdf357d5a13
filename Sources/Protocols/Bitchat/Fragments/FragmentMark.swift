/// Identifies a fragment in confirmations: ID plus index, in one number.
struct FragmentMark: Hashable, Sendable {
  let rawValue: UInt64

  init(_ id: FragmentID, index: Int) { rawValue = id.rawValue &+ UInt64(index) }

  /// Mark of a fragment with a TTL above 0 of a file or of a Noise message, which may be a file; nil for any other
  /// packet.
  init?(_ view: PacketView) {
    guard view.type == .fragment, view.timeToLive > 0, !view.flags.contains(.compressed) else { return nil }
    guard let head = try? Fragment(reading: Array(view.section.prefix(Fragment.headerBytes))),
      head.type == .fileTransfer || head.type == .noiseEncrypted
    else { return nil }
    self.init(head.id, index: Int(head.index))
  }
}
