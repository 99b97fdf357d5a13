import DBus
import Loop

/// An advertisement that is on the air for as long as it is wanted: by bluetoothd (`AdvertisedObject`) or by the kernel's
/// management socket (`ManagedAdvertisement`).
@LoopActor
protocol KeptAdvertisement: AnyObject {
  /// Its object on the bus, if it has one.
  var path: ObjectPath? { get }
  /// Why it is not on the air, and what to do; nil when it is, or is about to be.
  var problem: String? { get }
  /// What of it is not on the air though the rest is, and what to do; nil when it is whole.
  var shortfall: String? { get }

  /// Puts it on the air at `place` from now on; nil when there is none.
  func aim(at place: Place?)
  /// Puts it on the air once more: what ended it is not told.
  func renew()
  /// Takes it off the air for good.
  func close()
}
