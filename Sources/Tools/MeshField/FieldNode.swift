import Bitchat
import Common

/// A simulated node: its engine, its ends of links, and the messages that it received.
struct FieldNode: Sendable {
  /// This node's end of a link.
  struct Port: Sendable {
    let link: LinkNumber
    let other: Int32
    /// Frames waiting for the link.
    var queue: LinkQueue?
    /// When the link accepts the next frame.
    var freeAt: Int64 = 0
    /// Whether an event is scheduled for `freeAt`.
    var isWaiting = false
    /// Arrival of the last frame; frames do not overtake each other.
    var lastArrival: Int64 = 0
  }

  let number: Int32
  var engine: MeshEngine
  var air: FieldRandom
  var ports: [Port] = []
  var isUp = false
  /// Time of the engine's timer.
  var timerAt = Int64.max
  /// Time of the last wake-up.
  var wokeAt = Int64.min / 2
  /// Number of events that this node has caused, which orders events of equal time.
  var caused: UInt32 = 0
  /// Arrival time of each public message: milliseconds since the start, plus one; 0 if it did not arrive. The most
  /// significant bit marks an arrival by gossip sync.
  var heard: [UInt32]
  /// Arrival times of private messages for this node in milliseconds, by message number.
  var told: [Int: UInt32] = [:]
  var flooder: Flooder?

  static let lateBit: UInt32 = 1 << 31

  /// Sets the timer to the engine's deadline.
  ///
  /// - Returns: time of a new timer event; nil if it is scheduled for that time or earlier.
  mutating func setTimer(at now: Int64) -> Int64? {
    guard let due = engine.deadline else { return nil }
    let at = max(due.nanoseconds, now)
    guard at < timerAt else { return nil }
    timerAt = at
    return at
  }

  /// Handles a timer event.
  ///
  /// - Returns: whether the engine's deadline has come.
  mutating func isDue(at now: Int64) -> Bool {
    guard timerAt == now else { return false }
    timerAt = .max
    return engine.deadline.map { $0.nanoseconds <= now } ?? false
  }

  func port(_ link: LinkNumber) -> Int? { ports.firstIndex { $0.link == link } }

  mutating func nextOrder() -> UInt64 {
    caused &+= 1
    return FieldEvent.nodeOrder(number, caused)
  }
}

/// Encodes the numbers of messages in their texts.
enum FieldText {
  static func text(_ mark: Character, _ number: Int, bytes: Int) -> String {
    let head = "\(mark)\(number) "
    return head + String(repeating: "la ", count: bytes / 3 + 1).prefix(max(0, bytes - head.utf8.count))
  }

  static func number(of text: String, _ mark: Character) -> Int? {
    guard text.first == mark else { return nil }
    return Int(text.dropFirst().prefix { $0.isNumber })
  }
}
