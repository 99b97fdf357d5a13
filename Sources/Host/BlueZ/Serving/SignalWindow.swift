import Common

/// How many of our signals may wait for bluetoothd, and which links wait for room among them. A value.
///
/// A program that sends signals hears nothing of their fate. bluetoothd handles its messages in order, so the answer to a
/// call that follows signals (`org.freedesktop.DBus.Peer.Ping`) says that it has handled them.
struct SignalWindow: Hashable, Sendable {
  /// Signals that bluetoothd may not have handled yet.
  static let limit = 16

  /// Signals that were sent and not answered for.
  private(set) var unhandled = 0
  /// Those of them that the question under way answers for; nil while there is no question.
  private var asked: Int?
  /// Links whose values found no room, in the order in which they did.
  private var waiting: [LinkID] = []

  init() {}

  /// Whether a signal may be sent now.
  var hasRoom: Bool { unhandled < Self.limit }

  /// A signal is sent.
  mutating func send() { unhandled += 1 }

  /// A value for these links found no room.
  mutating func refuse(_ links: [LinkID]) {
    for link in links where !waiting.contains(link) { waiting.append(link) }
  }

  /// Whether a question has to be asked now: signals were sent, and no question is under way. The question is under way
  /// then.
  mutating func ask() -> Bool {
    guard asked == nil, unhandled > 0 else { return false }
    asked = unhandled
    return true
  }

  /// The question is answered.
  ///
  /// - Returns: the links that waited for room.
  mutating func answered() -> [LinkID] {
    unhandled -= asked ?? 0
    asked = nil
    defer { waiting = [] }
    return waiting
  }

  /// The question came back without an answer: what it asked about may still wait.
  mutating func unanswered() { asked = nil }

  /// A link is gone.
  mutating func forget(_ link: LinkID) { waiting.removeAll { $0 == link } }
}
