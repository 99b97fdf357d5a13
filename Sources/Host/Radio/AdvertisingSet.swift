import Common
import Loop

/// A non-connectable advertiser. It broadcasts data for a given time; between two such times it broadcasts meaningless
/// data, or nothing.
///
/// It has one random address while it is active. If slots are scarce, its slot between two times is given to another
/// request; the next data is then sent from another address, as after any interruption. Releasing the set and the
/// registration of its data is equivalent to `close`.
@LoopActor
public protocol AdvertisingSet: AnyObject {
  /// Broadcasts `data` for `time`, from the moment at which a slot is available. Only one airing is active at a time: a
  /// new one ends the former.
  ///
  /// - Parameter handler: called with `began` and one of the ends, or only with `refused`. It is not called after the
  ///   registration has ended, which stops the broadcast. The registration retains the set.
  /// - Throws: `RadioError.advertisementTooLong`; `RadioError.notReady` without an adapter.
  func air(
    _ data: AdvertisingData, for time: Duration, _ handler: @escaping @LoopActor (AiringEvent) -> Void
  ) throws(RadioError) -> Registration

  /// Stops the broadcasts of this set permanently; later calls of `air` throw.
  func close()
}

/// An event of data that is broadcast for a given time.
public enum AiringEvent: Equatable, Sendable {
  /// The broadcast began at this moment.
  case began(Instant)
  /// The broadcast ended after its full time.
  case ended(Instant)
  /// The broadcast ended early, after this time: the adapter is gone, an advertisement of higher priority took the
  /// slot, or the set has other data.
  case cutShort(after: Duration)
  /// The data was not broadcast: its longest wait has passed, or the set has other data.
  case refused(RadioError)
}
