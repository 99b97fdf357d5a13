import Common
import DBus
import Loop
import Radio

/// Sends values as signals of the property `Value` to bluetoothd, which sends each to all subscribers. At most
/// `SignalWindow.limit` signals wait for bluetoothd.
@LoopActor
final class SignalSender {
  /// Called when a link whose value was refused for lack of capacity may be sent values again.
  var onRoom: @LoopActor (LinkID) -> Void = { _ in }

  private let bus: BusConnection
  private let links: PeerLinks
  private var window = SignalWindow()
  /// Functions to call when bluetoothd has handled all signals that were sent so far.
  private var checks: [@LoopActor () -> Void] = []
  private var isQuestionDue = false

  init(_ bus: BusConnection, links: PeerLinks) {
    self.bus = bus
    self.links = links
  }

  /// Lets bluetoothd send a value to all subscribers of a characteristic.
  ///
  /// - Parameter meant: the links that must receive the value.
  func send(_ value: [UInt8], of characteristic: ServedCharacteristic, to meant: [LinkID]) -> Delivery {
    guard let owner = links.place?.owner else { return Delivery(unreachable: meant) }
    let reached = meant.filter { links[$0] != nil }
    var delivery = Delivery(unreachable: meant.filter { links[$0] == nil })
    guard !reached.isEmpty else { return delivery }
    guard window.hasRoom else {
      window.refuse(reached)
      delivery.full = reached
      return delivery
    }
    // Each value has its own signal: changes of the property within one loop iteration would be merged.
    bus.emit(
      characteristic.path, BlueZName.properties, "PropertiesChanged",
      [.string(BlueZName.gattCharacteristic), .options(["Value": .bytes(value)]), .strings([])], to: owner)
    window.send()
    askAboutSignals()
    delivery.accepted = reached
    delivery.overheard = links.all.map(\.id).filter { !meant.contains($0) }
    return delivery
  }

  /// Calls `check` once when bluetoothd has handled all signals so far; never if bluetoothd ends before.
  func whenHandled(_ check: @escaping @LoopActor () -> Void) { checks.append(check) }

  /// Handles the start of another bluetoothd, for which no signal waits.
  func reset() { (window, checks) = (SignalWindow(), []) }

  /// Removes a link that has ended.
  func forget(_ link: LinkID) { window.forget(link) }

  /// Asks bluetoothd whether it has handled the signals, once for all signals of this loop iteration.
  private func askAboutSignals() {
    guard !isQuestionDue else { return }
    isQuestionDue = true
    EventLoop.shared.soon { [weak self] in
      guard let self else { return }
      isQuestionDue = false
      guard let owner = links.place?.owner, window.ask() else { return }
      let due = checks
      checks = []
      bus.call(owner, .root, BlueZName.peer, "Ping") { [weak self] result in
        guard let self, links.place?.owner == owner else { return }
        if case .failure(let error) = result, error.is(.timeout) {
          window.unanswered()
        } else {
          for link in window.answered() where links[link] != nil { onRoom(link) }
          for check in due { check() }
        }
        askAboutSignals()
      }
    }
  }
}

/// The limit of signals that may wait for bluetoothd, and the links that wait for capacity. A value type.
///
/// Signals have no answers. bluetoothd handles its messages in order, so the answer to a call after the signals
/// (`org.freedesktop.DBus.Peer.Ping`) shows that it has handled them.
struct SignalWindow: Hashable, Sendable {
  /// Maximum signals that bluetoothd may not have handled.
  static let limit = 16

  /// Number of signals that are not confirmed as handled.
  private(set) var unhandled = 0
  /// Number of signals that the pending call confirms; nil while no call is pending.
  private var asked: Int?
  /// Links whose values were refused for lack of capacity, in order.
  private var waiting: [LinkID] = []

  init() {}

  /// Whether a signal may be sent now.
  var hasRoom: Bool { unhandled < Self.limit }

  /// Counts a signal that is sent now as not confirmed.
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

  /// Handles a failed call. The signals that it would have confirmed may still wait.
  mutating func unanswered() { asked = nil }

  /// Removes a link that has ended.
  mutating func forget(_ link: LinkID) { waiting.removeAll { $0 == link } }
}
