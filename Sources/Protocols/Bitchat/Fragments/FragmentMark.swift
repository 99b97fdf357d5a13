/// What the confirmation of a fragment names: its ID and its index, in one number.
struct FragmentMark: Hashable, Sendable {
  let rawValue: UInt64

  init(_ id: FragmentID, index: Int) { rawValue = id.rawValue &+ UInt64(index) }

  /// That of a fragment of a file, or of something sealed, which may be one, on its way from its sender; nil for any other packet.
  init?(_ view: PacketView) {
    guard view.type == .fragment, view.timeToLive > 0, !view.flags.contains(.compressed) else { return nil }
    guard let head = try? Fragment(reading: Array(view.section.prefix(Fragment.headerBytes))),
      head.type == .fileTransfer || head.type == .noiseEncrypted
    else { return nil }
    self.init(head.id, index: Int(head.index))
  }
}
