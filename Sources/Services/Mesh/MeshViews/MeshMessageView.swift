import DBus

/// Message as returned by `ListMessages`: `(utssssss)`.
public struct MeshMessageView: Sendable, Equatable {
  /// Delivery state of an own message, or read state of a received one.
  public enum State: String, Sendable {
    case waiting, sent, delivered, read, failed
    case unread, seen
    /// State that this version of the program does not know.
    case unknown
  }

  public let number: UInt32
  /// Time of the message, in milliseconds since 1970.
  public let time: UInt64
  /// Peer ID of the other peer; empty for a public message.
  public let conversation: String
  /// Peer ID of the sender, also for own messages.
  public let sender: String
  /// Nickname of the sender at that time, not sanitised.
  public let nickname: String
  /// Text of the message, not sanitised.
  public let text: String
  public var state: State
  /// Whether the message was sent or received over the uplink.
  public var isByUplink: Bool

  public init(
    number: UInt32, time: UInt64, conversation: String, sender: String, nickname: String, text: String, state: State,
    isByUplink: Bool = false
  ) {
    self.number = number
    self.time = time
    self.conversation = conversation
    self.sender = sender
    self.nickname = nickname
    self.text = text
    self.state = state
    self.isByUplink = isByUplink
  }

  /// Reads a message; nil for a value of another type.
  public init?(_ value: DBusValue) {
    guard let members = value.asArray, members.count == 8, let number = members[0].asUInt32,
      case .uint64(let time) = members[1].unwrapped
    else { return nil }
    let texts = members[2...].compactMap(\.asString)
    guard texts.count == 6 else { return nil }
    self.init(
      number: number, time: time, conversation: texts[0], sender: texts[1], nickname: texts[2], text: texts[3],
      state: State(rawValue: texts[4]) ?? .unknown, isByUplink: texts[5] == "uplink")
  }

  public var isPrivate: Bool { !conversation.isEmpty }
}
