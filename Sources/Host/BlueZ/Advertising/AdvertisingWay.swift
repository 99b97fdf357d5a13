import DBus
import Loop
import Radio

/// A method of advertising: the kernel's management socket (`ManagedAdvertising`) or bluetoothd
/// (`RegisteredAdvertising`). An advertisement stays active while an adapter is available.
@LoopActor
protocol AdvertisingWay: AnyObject {
  /// Maximum advertisements at one time, at least 1.
  var slots: Int { get }
  /// Number of active advertisements of other programs.
  var foreign: Int { get }
  /// Why an advertisement is not active, and what to do; nil if all are active, or about to be.
  var problem: String? { get }
  /// Which part of an active advertisement is missing, and what to do; nil if all are complete.
  var shortfall: String? { get }

  /// Sets the advertisement of a slot; nil empties the slot.
  func show(_ advertisement: Advertisement?, in slot: Int)
  /// Moves all advertisements to the adapter at `place`; nil stops them, because there is no adapter.
  func aim(at place: Place?)
  /// Restarts all connectable advertisements: the controller does not report which it ended.
  func renew()
  /// Handles new properties of the adapter in use.
  func adapterChanged(_ adapter: Adapter)
  /// Whether this object exported the D-Bus object at `path`.
  func owns(_ path: ObjectPath) -> Bool
}
