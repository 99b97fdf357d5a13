import Bitchat

/// A file that came and that the user has deleted. For a while neighbours still give it, and its sender may not have heard that it
/// came: it is not taken once more.
public struct DeletedFile: Hashable, Sendable {
  /// So long it may come again, in milliseconds: a quarter of an hour, and what clocks may be off.
  public static let lifetime: UInt64 = 17 * 60 * 1000
  /// The most that are remembered.
  public static let limit = 2000

  /// When it was deleted, in milliseconds since 1970.
  public let time: UInt64
  // As the file had them.
  public let number: UInt32
  public let sender: PeerID
  public let packet: PacketID?
  public let receipt: MessageID?

  public init(_ file: MeshFile, at time: UInt64) {
    self.init(number: file.number, time: time, sender: file.sender, packet: file.packet, receipt: file.receipt)
  }

  init(number: UInt32, time: UInt64, sender: PeerID, packet: PacketID?, receipt: MessageID?) {
    (self.number, self.time, self.sender) = (number, time, sender)
    (self.packet, self.receipt) = (packet, receipt)
  }

  public var keys: [MeshFile.Key] { MeshFile.Key.all(packet: packet, receipt: receipt, from: sender) }
}
