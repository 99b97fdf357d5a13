import Common

/// A file that came, of a kind that the apps take.
public struct ReceivedFile: Hashable, Sendable {
  public let sender: PeerID
  /// As the sender called itself when the file came.
  public let nickname: String
  /// A plain name, as `FileName` makes them.
  public let name: String
  public let kind: FileKind
  /// 1 byte to 1 MiB.
  public let content: [UInt8]
  /// Milliseconds since 1970: of a file to everybody by the sender's clock, of one to this node alone by
  /// this node's.
  public let time: UInt64
  /// The packet of a file that came in clear, so that it is listed once; nil for one that came in a session.
  public let packet: PacketID?
  /// What a file to this node alone is called in the receipt; nil if it is public. `Event.fileKept` with it has the sender know.
  public let receipt: MessageID?
  /// The link over which the last of a file in clear came.
  public let link: LinkID?
  /// Identifies the fragments in which the file arrived; nil for a file in a single packet.
  public var arrival: FragmentSetID?

  /// Whether nobody but this node could read it on its way.
  public var isPrivate: Bool { packet == nil }
}

// What is printed shows nothing of what was sent, and by whom.
extension ReceivedFile: CustomStringConvertible, CustomReflectable {
  public var description: String { "a file of \(content.count) bytes" }
  public var customMirror: Mirror { Mirror(self, children: []) }
}

extension SharedFile: CustomStringConvertible, CustomReflectable {
  public var description: String { "a file of \(content.count) bytes" }
  public var customMirror: Mirror { Mirror(self, children: []) }
}
