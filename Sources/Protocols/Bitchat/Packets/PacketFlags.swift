/// The flags of a packet. Unknown bits have no meaning. Facts: bitchat.md section 2.
public struct PacketFlags: OptionSet, Hashable, Sendable {
  public let rawValue: UInt8

  public init(rawValue: UInt8) {
    self.rawValue = rawValue
  }

  /// A recipient follows the sender.
  public static let recipient = PacketFlags(rawValue: 0x01)
  /// A signature follows the payload section.
  public static let signature = PacketFlags(rawValue: 0x02)
  /// The payload section is the original size and a deflate stream.
  public static let compressed = PacketFlags(rawValue: 0x04)
  /// A route follows the IDs. It has no meaning in version 1.
  public static let route = PacketFlags(rawValue: 0x08)
  /// The packet answers a sync request. The sender of the answer sets it; the signature does not cover it.
  public static let syncAnswer = PacketFlags(rawValue: 0x10)
}
