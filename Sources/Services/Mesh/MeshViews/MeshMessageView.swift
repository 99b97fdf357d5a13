import DBus

/// A message as `ListMessages` shows it: `(utsssss)`.
public struct MeshMessageView: Sendable, Equatable {
  /// How far an own message has come, or whether another's was looked at.
  public enum State: String, Sendable {
    case waiting, sent, delivered, read, failed
    case unread, seen
    /// A word that this program does not know.
    case unknown
  }

  public let number: UInt32
  /// Milliseconds since 1970.
  public let time: UInt64
  /// The other's peer ID; empty for what is said to everybody.
  public let conversation: String
  /// A peer ID; the own one of own messages.
  public let sender: String
  /// What the sender called itself then, as it came.
  public let nickname: String
  /// As it came.
  public let text: String
  public var state: State

  public init(
    number: UInt32, time: UInt64, conversation: String, sender: String, nickname: String, text: String, state: State
  ) {
    self.number = number
    self.time = time
    self.conversation = conversation
    self.sender = sender
    self.nickname = nickname
    self.text = text
    self.state = state
  }

  /// Nil for a value of another type.
  public init?(_ value: DBusValue) {
    guard let members = value.asArray, members.count == 7, let number = members[0].asUInt32,
      case .uint64(let time) = members[1].unwrapped
    else { return nil }
    let texts = members[2...].compactMap(\.asString)
    guard texts.count == 5 else { return nil }
    self.init(
      number: number, time: time, conversation: texts[0], sender: texts[1], nickname: texts[2], text: texts[3],
      state: State(rawValue: texts[4]) ?? .unknown)
  }

  public var isPrivate: Bool { !conversation.isEmpty }
}
