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
  /// Milliseconds since 1970: of a public file by the sender's clock, of a private one by this node's.
  public let time: UInt64
  /// The packet of a public file, so that it is listed once; nil for a private one.
  public let packet: PacketID?
  /// What a private file is called in the receipt; nil if it is public. `Event.fileKept` with it has the sender know.
  public let receipt: MessageID?

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
