import Common
import Loop

/// An advertiser by which no peer can connect: what it says is on the air for a stated time, and between two such times it
/// says something that means nothing, or is silent.
///
/// It has one random address for as long as it is on the air. Where places lack, its place between two times goes to whoever
/// wants it; what it says next then comes from another address, as it does after it was silent. Dropping the set, with
/// the registration of what it says, is the same as `close`.
@LoopActor
public protocol AdvertisingSet: AnyObject {
  /// Has `data` on the air for `time` from the moment at which it is there, as soon as it is its turn. There is one airing at a
  /// time: another one takes its place, and is the end of it.
  ///
  /// - Parameter handler: called with `began` and one of the ends, or with `refused` alone; not after the registration has gone,
  ///   which takes the data off the air. The registration keeps the set.
  /// - Throws: `RadioError.advertisementTooLong`; `RadioError.notReady` without an adapter.
  func air(
    _ data: AdvertisingData, for time: Duration, _ handler: @escaping @LoopActor (AiringEvent) -> Void
  ) throws(RadioError) -> Registration

  /// Takes all off the air, for good.
  func close()
}

/// What becomes of data that is to be on the air for a stated time.
public enum AiringEvent: Equatable, Sendable {
  /// It is on the air, from this moment on.
  case began(Instant)
  /// It was on the air for its whole time, and is no longer.
  case ended(Instant)
  /// It left the air after so much of its time: the adapter went, an advertisement of higher priority took the place, or the
  /// set says something else.
  case cutShort(after: Duration)
  /// It was not on the air at all: its longest wait has passed, or the set says something else.
  case refused(RadioError)
}
