/// Version of the packet header. Version 2 has a payload length of four bytes and may have a route. Facts: bitchat.md
/// section 2.
public enum PacketVersion: UInt8, CaseIterable, Hashable, Sendable {
  case v1 = 1
  case v2 = 2

  /// Length of the header before the sender, in bytes.
  public var headerBytes: Int { self == .v1 ? 14 : 16 }
  /// Length of the payload length, and of the original size in a compressed payload section, in bytes.
  var lengthBytes: Int { self == .v1 ? 2 : 4 }
  /// Maximum payload section, in bytes.
  var sectionLimit: Int { self == .v1 ? Int(UInt16.max) : Limits.payloadBytes }
}
