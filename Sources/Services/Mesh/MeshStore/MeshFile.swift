import BitchatWire
import Bytes

/// Metadata of a received file. Its content is in a sealed file of its own.
public struct MeshFile: Hashable, Sendable {
  /// Identifies a file when it arrives again.
  public enum Key: Hashable, Sendable {
    /// A public file, by the ID of the packet that contains it.
    case packet(PacketID)
    /// Sender and receipt ID of a file for this node alone.
    case receipt(PeerID, MessageID)

    public var packet: PacketID? { if case .packet(let packet) = self { packet } else { nil } }

    public static func all(packet: PacketID?, receipt: MessageID?, from sender: PeerID) -> [Key] {
      (packet.map { [.packet($0)] } ?? []) + (receipt.map { [.receipt(sender, $0)] } ?? [])
    }
  }

  public var number: UInt32
  /// Time of reception, in milliseconds since 1970.
  public var time: UInt64
  public var sender: PeerID
  /// Nickname of the sender at arrival.
  public var nickname: String
  /// Name of the file without a path or control characters.
  public var name: String
  public var mime: String
  /// Length of the content, in bytes.
  public var size: Int
  /// Packet of a file that arrived in clear, so that it is listed once; nil otherwise.
  public var packet: PacketID?
  /// Message ID for the receipt of a private file, so that it is listed once; nil for a public one.
  public var receipt: MessageID?
  /// Random number that names the sealed file of the content.
  public var place: UInt64

  /// Keys of the file; empty for a private one without a receipt.
  public var keys: [Key] { Key.all(packet: packet, receipt: receipt, from: sender) }

  public init(
    number: UInt32, time: UInt64, sender: PeerID, nickname: String, name: String, mime: String, size: Int,
    packet: PacketID?, receipt: MessageID? = nil, place: UInt64
  ) {
    self.number = number
    self.time = time
    self.sender = sender
    self.nickname = nickname
    self.name = name
    self.mime = mime
    self.size = size
    self.packet = packet
    self.receipt = receipt
    self.place = place
  }
}

/// Sealed files of received contents, `file-` and 16 digits, beside the database.
enum SealedFile {
  private static let prefix = "file-"
  private static let suffix = ".sealed"
  /// Maximum length of a sealed file: the longest content, and the overhead of the seal.
  static let limit = Limits.fileBytes + 64

  static func name(_ place: UInt64) -> String {
    prefix + Hex.encode(withUnsafeBytes(of: place.bigEndian) { Array($0) }) + suffix
  }

  /// Location in a file name; nil for other files.
  static func place(_ name: String) -> UInt64? {
    guard name.hasPrefix(prefix), name.hasSuffix(suffix) else { return nil }
    let place = UInt64(name.dropFirst(prefix.count).dropLast(suffix.count), radix: 16)
    return place.flatMap { self.name($0) == name ? $0 : nil }
  }
}

/// Received file that the user has deleted. Neighbours still send it for a while, and its sender may not have the
/// receipt. It is not accepted again.
public struct DeletedFile: Hashable, Sendable {
  /// Time in which the file may arrive again, in milliseconds: 15 min, and the tolerance for clocks.
  public static let lifetime: UInt64 = 17 * 60 * 1000
  /// Maximum number of deleted files that are remembered.
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
