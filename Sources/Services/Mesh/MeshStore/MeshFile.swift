import Bitchat
import Bytes

/// A file that somebody sent, without its content: that is in a sealed file of its own.
public struct MeshFile: Hashable, Sendable {
  /// What a file is known by when it comes again.
  public enum Key: Hashable, Sendable {
    /// One that came in clear: its packet.
    case packet(PacketID)
    /// One to this node alone: its sender, and what it is called in the receipt.
    case receipt(PeerID, MessageID)

    public var packet: PacketID? { if case .packet(let packet) = self { packet } else { nil } }

    public static func all(packet: PacketID?, receipt: MessageID?, from sender: PeerID) -> [Key] {
      (packet.map { [.packet($0)] } ?? []) + (receipt.map { [.receipt(sender, $0)] } ?? [])
    }
  }

  public var number: UInt32
  /// Milliseconds since 1970.
  public var time: UInt64
  public var sender: PeerID
  /// Of the sender then.
  public var nickname: String
  /// A plain name.
  public var name: String
  public var mime: String
  /// Bytes of the content.
  public var size: Int
  /// The packet of a file that came in clear, so that it is listed once; nil for a private one.
  public var packet: PacketID?
  /// What a file to this node alone is called in the receipt, so that it is listed once; nil for one to everybody.
  public var receipt: MessageID?
  /// Which sealed file the content is in: a random number.
  public var place: UInt64

  /// None for a private one that has no receipt.
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

/// The sealed files of what was received, `file-` and 16 digits, beside the database.
enum SealedFile {
  private static let prefix = "file-"
  private static let suffix = ".sealed"
  /// A content of the longest file, and what seals it.
  static let limit = Limits.fileBytes + 64

  static func name(_ place: UInt64) -> String {
    prefix + Hex.encode(withUnsafeBytes(of: place.bigEndian) { Array($0) }) + suffix
  }

  /// Nil for a name of another file.
  static func place(_ name: String) -> UInt64? {
    guard name.hasPrefix(prefix), name.hasSuffix(suffix) else { return nil }
    let place = UInt64(name.dropFirst(prefix.count).dropLast(suffix.count), radix: 16)
    return place.flatMap { self.name($0) == name ? $0 : nil }
  }
}
