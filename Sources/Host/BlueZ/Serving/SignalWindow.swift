import Common

/// The limit of signals that may wait for bluetoothd, and the links that wait for capacity. A value type.
///
/// Signals have no answers. bluetoothd handles its messages in order, so the answer to a call after the signals
/// (`org.freedesktop.DBus.Peer.Ping`) shows that it has handled them.
struct SignalWindow: Hashable, Sendable {
  /// Maximum signals that bluetoothd may not have handled.
  static let limit = 16

  /// Number of signals that are not confirmed as handled.
  private(set) var unhandled = 0
  /// Number of signals that the pending call confirms; nil if there is no pending call.
  private var asked: Int?
  /// Links whose values were refused for lack of capacity, in order.
  private var waiting: [LinkID] = []

  init() {}

  /// Whether a signal may be sent now.
  var hasRoom: Bool { unhandled < Self.limit }

  /// Counts a sent signal.
  mutating func send() { unhandled += 1 }

  /// Records links whose value was refused for lack of capacity.
  mutating func refuse(_ links: [LinkID]) {
    for link in links where !waiting.contains(link) { waiting.append(link) }
  }

  /// Whether to send a call now: signals were sent, and no call is pending. The call then counts as pending.
  mutating func ask() -> Bool {
    guard asked == nil, unhandled > 0 else { return false }
    asked = unhandled
    return true
  }

  /// Handles the answer to the call.
  ///
  /// - Returns: the links that waited for capacity.
  mutating func answered() -> [LinkID] {
    unhandled -= asked ?? 0
    asked = nil
    defer { waiting = [] }
    return waiting
  }

  /// The call failed: its signals may still wait.
  mutating func unanswered() { asked = nil }

  /// Removes a link that has ended.
  mutating func forget(_ link: LinkID) { waiting.removeAll { $0 == link } }
}
