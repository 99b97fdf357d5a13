import DBus
import Loop
import Radio

/// A way to have advertisements on the air: by the kernel's management socket (`ManagedAdvertising`) or by bluetoothd
/// (`RegisteredAdvertising`). What is shown stays on the air for as long as there is a place.
@LoopActor
protocol AdvertisingWay: AnyObject {
  /// How many advertisements can be on the air at one time, at least 1.
  var slots: Int { get }
  /// How many advertisements of other programs are on the air besides.
  var foreign: Int { get }
  /// Why an advertisement is not on the air, and what to do; nil when all are, or are about to be.
  var problem: String? { get }
  /// What of an advertisement is not on the air though the advertisement is, and what to do; nil when all are whole.
  var shortfall: String? { get }

  /// Puts an advertisement on the air in a slot, in place of what was there; nil empties the slot.
  func show(_ advertisement: Advertisement?, in slot: Int)
  /// Advertises at `place` from now on; nil when there is none.
  func aim(at place: Place?)
  /// Puts everything by which peers connect on the air once more: the controller does not tell what it ended.
  func renew()
  /// What bluetoothd says of the adapter in use.
  func adapterChanged(_ adapter: Adapter)
  /// Whether an object on the bus is one of its own.
  func owns(_ path: ObjectPath) -> Bool
}
