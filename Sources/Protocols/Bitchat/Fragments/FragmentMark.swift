import Bytes

/// What the confirmation of a fragment names: its ID and its index, in one number.
struct FragmentMark: Hashable, Sendable {
  let rawValue: UInt64

  init(_ id: FragmentID, index: Int) { rawValue = id.rawValue &+ UInt64(index) }

  /// That of a fragment of a file, public or private, on its way from its sender; nil for any other packet.
  init?(_ view: PacketView) {
    guard view.type == .fragment, view.timeToLive > 0, !view.flags.contains(.compressed) else { return nil }
    var reader = ByteReader(view.section.prefix(Fragment.headerBytes))
    guard let id = try? FragmentID(reading: &reader), let index = try? reader.u16be(), (try? reader.u16be()) != nil,
      let type = try? MessageType(rawValue: reader.u8()), type == .fileTransfer || type == .noiseEncrypted
    else { return nil }
    self.init(id, index: Int(index))
  }
}
