import Bitchat

/// A line of a conversation, of this node or of another one.
public struct MeshMessage: Hashable, Sendable {
  /// How far a message has come: an own one on its way, or another's before the user's eyes.
  public enum State: UInt8, CaseIterable, Sendable {
    case waiting = 1
    case sent, delivered, read, failed
    case unread, seen

    /// Whether it is the state of an own message.
    var isOwn: Bool {
      switch self {
      case .waiting, .sent, .delivered, .read, .failed: true
      case .unread, .seen: false
      }
    }
  }

  /// What the service calls it; never given twice, over all runs until a wipe.
  public var number: UInt32
  /// Milliseconds since 1970.
  public var time: UInt64
  /// The other peer; nil for a public line.
  public var conversation: PeerID?
  public var sender: PeerID
  /// What the sender called itself then: up to 255 bytes of UTF-8.
  public var nickname: String
  public var text: String
  /// The IDs of a private message on the air, for receipts; empty for a public one.
  public var messageIDs: [MessageID]
  /// A public line's packet, so that the line is listed once.
  public var packet: PacketID?
  public var state: State
  /// The mark of the device that delivered a public message; nil if unknown.
  public var via: UInt32?
  /// Whether the message was seen, and its sender may not know it yet.
  public var isReceiptOwed = false

  /// The peer that it came from; nil for what this node's user has said.
  public var origin: PeerID? { state.isOwn ? nil : sender }

  public init(
    number: UInt32, time: UInt64, conversation: PeerID?, sender: PeerID, nickname: String, text: String,
    messageIDs: [MessageID] = [], packet: PacketID? = nil, state: State, via: UInt32? = nil
  ) {
    self.number = number
    self.time = time
    self.conversation = conversation
    self.sender = sender
    self.nickname = nickname
    self.text = text
    self.messageIDs = messageIDs
    self.packet = packet
    self.state = state
    self.via = via
  }
}

extension MeshMessage: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
  public var description: String { "<message \(number)>" }
  public var debugDescription: String { description }
  public var customMirror: Mirror { Mirror(self, children: []) }
}
