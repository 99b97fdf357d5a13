import BitchatWire
import Common

/// Received file of a kind that the apps accept.
public struct ReceivedFile: Hashable, Sendable {
  public let sender: PeerID
  /// Nickname of the sender when the file arrived.
  public let nickname: String
  /// Name of the file, reduced to a plain one by `FileName.plain`.
  public let name: String
  public let kind: FileKind
  /// Content of the file, 1 byte to 1 MiB.
  public let content: [UInt8]
  /// Time of the file, in milliseconds since 1970: by the sender's clock for a public file, by this node's clock for a
  /// private one.
  public let time: UInt64
  /// ID of the packet of a public file, so that it is listed once. Nil for a file received in a session.
  public let packet: PacketID?
  /// Message ID for the receipt of a private file. Nil if it is public. `Event.fileKept` with this ID sends the
  /// receipt.
  public let receipt: MessageID?
  /// Link over which the last part of a public file arrived.
  public let link: LinkID?
  /// Identifies the fragments of the file. Nil for a file in a single packet.
  public var arrival: FragmentSetID?

  /// Whether the file was encrypted for this node.
  public var isPrivate: Bool { packet == nil }
}

// Descriptions contain neither content nor sender.
extension ReceivedFile: CustomStringConvertible, CustomReflectable {
  public var description: String { "a file of \(content.count) bytes" }
  public var customMirror: Mirror { Mirror(self, children: []) }
}

extension SharedFile: CustomStringConvertible, CustomReflectable {
  public var description: String { "a file of \(content.count) bytes" }
  public var customMirror: Mirror { Mirror(self, children: []) }
}

/// An incoming file of which some fragments have arrived. Its name and size are known when all have arrived.
///
/// Fragments are not signed. Whether the packet is a file, and who sent it, is confirmed only when the file is
/// complete.
public struct ArrivingFile: Hashable, Sendable {
  /// Identifies the fragments of the file.
  public let id: FragmentSetID
  /// The sender that the fragments name; a known peer.
  public let sender: PeerID
  public let nickname: String
  /// Whether the file is for this node alone, inside a session.
  public let isPrivate: Bool
  /// Percentage of its fragments that have arrived, below 100.
  public let percent: Int
}

extension ArrivingFile: CustomStringConvertible, CustomReflectable {
  public var description: String { "\(percent) % of a file" }
  public var customMirror: Mirror { Mirror(self, children: []) }
}
