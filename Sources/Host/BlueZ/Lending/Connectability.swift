import HCI
import Journal
import Loop

/// Makes the adapter in use connectable while a service accepts streams, and restores the former setting afterwards.
/// The adapter does not become discoverable.
///
/// The setting belongs to the adapter, for all programs. The kernel then sends every advertisement as connectable and
/// from the adapter's own address (docs/bluez.md, "Streams").
@LoopActor
final class Connectability {
  private let door: KernelChannel<ManagementSocket>
  private let scheduler: any Scheduler
  private let onChange: @LoopActor () -> Void
  private var lender: Lender<AdapterConnectability, ReadControllerInformation, SetConnectable>?
  private var events: Registration?
  private(set) var isWanted = false
  private var resting: (@LoopActor () -> Void)?
  private var restLimit: Registration?

  /// - Parameter onChange: called when `problem` may have changed.
  init(_ door: KernelChannel<ManagementSocket>, scheduler: any Scheduler, onChange: @escaping @LoopActor () -> Void) {
    self.door = door
    self.scheduler = scheduler
    self.onChange = onChange
    guard let socket = door.way else { return }
    lender = Lender(
      AdapterConnectability.self, socket, scheduler: scheduler, read: ReadControllerInformation(),
      write: { value, _ in SetConnectable(value.current.contains(.connectable)) },
      onChange: { [weak self] in self?.changed() })
    events = socket.onEvent { [weak self] event, index in
      if case .indexRemoved = event { self?.lender?.handle(.removed(index)) }
    }
  }

  func want(_ isWanted: Bool) {
    guard isWanted != self.isWanted else { return }
    self.isWanted = isWanted
    lender?.handle(.wish(isWanted ? .connectable : nil))
    onChange()
  }

  /// Sets the adapter in use, which may have changed or returned; nil for none.
  func aim(at index: UInt16?) { lender?.handle(.controller(index)) }

  /// The reason why the adapter is not connectable although a service requests it, with what to do; nil if there is
  /// none.
  var problem: String? {
    guard isWanted else { return nil }
    switch door {
    case .open:
      return lender?.problem.map {
        "No peer can connect, because the kernel refuses to make the adapter connectable (\($0)): btmgmt connectable on."
      }
    case .shut(let why):
      return "No peer can connect unless another program makes the adapter connectable (\(why)). "
        + "\(KernelChannels.remedy("CAP_NET_ADMIN"))."
    case .off: return "No peer can connect unless another program makes the adapter connectable."
    }
  }

  private func changed() {
    if let resting, lender?.isSettled ?? true {
      (self.resting, restLimit) = (nil, nil)
      resting()
    }
    onChange()
  }

  /// Restores the setting, and calls `then` once: when that is done, at the latest after `limit`.
  func rest(within limit: Duration, then: @escaping @LoopActor () -> Void) {
    want(false)
    guard let lender, !lender.isSettled else { return then() }
    resting = then
    restLimit = scheduler.schedule(after: limit) { [weak self] in
      guard let self, let resting else { return }
      (self.resting, restLimit) = (nil, nil)
      resting()
    }
  }
}

/// The setting `connectable` of a controller.
enum AdapterConnectability: LentSetting {
  typealias Value = ReadControllerInformation.Reply

  /// Possible requests: only a connectable adapter.
  enum Wish: Hashable, Sendable { case connectable }

  static let unknown = "it has no such setting"

  static func wished(_ wish: Wish, from value: Value) -> Value? {
    var value = value
    value.current.insert(.connectable)
    return value
  }

  static func withoutUs(_ value: Value, written: Value, original: Value) -> Value {
    var value = value
    if !original.current.contains(.connectable) { value.current.remove(.connectable) }
    return value
  }
}
