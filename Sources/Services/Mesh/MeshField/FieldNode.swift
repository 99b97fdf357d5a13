import Bitchat
import Common

/// A node of the field: its engine, its ends of links, and what it has heard.
struct FieldNode: Sendable {
  /// This node's end of a link.
  struct Port: Sendable {
    let link: LinkNumber
    let other: Int32
    /// Frames that the link has had no time for.
    var queue: LinkQueue?
    /// When the link takes the next frame.
    var freeAt: Int64 = 0
    /// Whether an event says when that is.
    var isWaiting = false
    /// When the last frame arrives: none overtakes another.
    var lastArrival: Int64 = 0
  }

  let number: Int32
  var engine: MeshEngine
  var air: FieldRandom
  var ports: [Port] = []
  var isUp = false
  /// When the timer of the engine is set for.
  var timerAt = Int64.max
  /// Events that this node has caused.
  var caused: UInt32 = 0
  /// When each public message came, in milliseconds, one more; 0 for those that did not. The topmost bit says that it came in answer to
  /// a request.
  var heard: [UInt32]
  /// The same of the private messages for this node.
  var told: [Int: UInt32] = [:]
  var flooder: Flooder?

  static let lateBit: UInt32 = 1 << 31

  /// Sets the timer for what the engine waits for.
  ///
  /// - Returns: when it has to go off anew; nil if it is set for that moment, or an earlier one.
  mutating func setTimer(at now: Int64) -> Int64? {
    guard let due = engine.deadline else { return nil }
    let at = max(due.nanoseconds, now)
    guard at < timerAt else { return nil }
    timerAt = at
    return at
  }

  /// The timer has gone off.
  ///
  /// - Returns: whether something is due.
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

/// The numbers of messages in their texts.
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
