/// The form of a packet's header. Version 2 has a payload length of four bytes and may have a route. Facts: bitchat.md
/// section 2.
public enum PacketVersion: UInt8, CaseIterable, Hashable, Sendable {
  case v1 = 1
  case v2 = 2

  /// Bytes before the sender.
  public var headerBytes: Int { self == .v1 ? 14 : 16 }
  /// Bytes of the payload length, and of the original size in a compressed payload section.
  var lengthBytes: Int { self == .v1 ? 2 : 4 }
  /// The longest payload section that the header can express and a reader takes.
  var sectionLimit: Int { self == .v1 ? Int(UInt16.max) : Limits.payloadBytes }
}
