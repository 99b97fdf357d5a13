import Bitchat

/// Received file that the user has deleted. Neighbours still send it for a while, and its sender may not have the
/// receipt: it is not accepted again.
public struct DeletedFile: Hashable, Sendable {
  /// Time in which the file may arrive again, in milliseconds: 15 min, and the tolerance for clocks.
  public static let lifetime: UInt64 = 17 * 60 * 1000
  /// Maximum number of entries.
  public static let limit = 2000

  /// Time of deletion, in milliseconds since 1970.
  public let time: UInt64
  // Properties of the file.
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
