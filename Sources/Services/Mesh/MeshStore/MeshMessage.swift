import BitchatWire

/// Message of this node or of a peer.
public struct MeshMessage: Hashable, Sendable {
  /// Delivery state of an own message, or read state of a received one.
  public enum State: UInt8, CaseIterable, Sendable {
    case waiting = 1
    case sent, delivered, read, failed
    case unread, seen

    /// Whether the state is that of an own message.
    var isOwn: Bool {
      switch self {
      case .waiting, .sent, .delivered, .read, .failed: true
      case .unread, .seen: false
      }
    }
  }

  /// How a message travels between this node and the peer.
  public enum Way: String, Hashable, Sendable {
    case mesh
    /// Outside of the mesh, because the peer had no path in it. A message of this node may also have been sent in the
    /// mesh since.
    case uplink
  }

  /// Unique number, never reused until a wipe.
  public var number: UInt32
  /// Time of the message, in milliseconds since 1970.
  public var time: UInt64
  /// The other peer; nil for a public message.
  public var conversation: PeerID?
  public var sender: PeerID
  /// Nickname of the sender at that time, up to 255 bytes of UTF-8.
  public var nickname: String
  public var text: String
  /// Protocol IDs of a private message, for receipts; empty for a public one.
  public var messageIDs: [MessageID]
  /// Packet of a public message, so that it is listed once.
  public var packet: PacketID?
  public var state: State
  /// Mark of the device that delivered a public message; nil if unknown.
  public var via: UInt32?
  /// Whether the message was read, and its sender may not have the receipt yet.
  public var isReceiptOwed = false
  public var way = Way.mesh

  /// Sender; nil for a message of this node's user.
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
