import Common
import Loop

/// A link on which this machine is the GATT client, whichever end initiated the link.
///
/// Calls return immediately; their results arrive as a `LinkEvent`. Writes are executed in the order of the calls. Two
/// machines may have one physical link for both roles, made by either of them: the peer is then also our client, on a
/// link with the same `id`.
@LoopActor
public protocol Link: AnyObject {
  var id: LinkID { get }

  /// Discovers the services and characteristics of the peer; the result is `discovered`.
  func discover()

  /// Requests an ATT MTU; the result is `mtuChanged`, with the negotiated value.
  func exchangeMTU(_ mtu: Int)

  /// Subscribes to values of `characteristic`; the result is `subscribed`. A peer without a CCCD is not an error.
  func subscribe(to characteristic: CharacteristicID)

  /// Writes `value`; the result is `written`. With `.request` it follows the peer's answer. With `.command` and
  /// `.stream` it follows as soon as the radio has capacity for another value, without confirming the arrival.
  func write(_ value: [UInt8], to characteristic: CharacteristicID, as kind: WriteKind)

  /// Streams `value` if the radio accepts it within this call, without an event: for many consecutive values, each
  /// `written` would cost as much as the value.
  ///
  /// - Returns: whether it was accepted. If not, use `write` with `.stream`, which waits for capacity.
  func streamNow(_ value: [UInt8], to characteristic: CharacteristicID) -> Bool

  /// Maximum bytes of a value that can be written completely, regardless of the MTU. It is known after `discovered`.
  var writeLimit: Int { get }

  /// Releases the link, which the service no longer uses, or cancels the attempt; `disconnected` follows in any case.
  /// The link is ended if no other service uses it.
  func disconnect()
}

public enum WriteKind: Hashable, Sendable {
  /// A Write Request, which the peer answers.
  case request
  /// A Write Command, which the peer does not answer.
  case command
  /// A Write Command on the fastest path, or a Write Request if commands may be lost on this link. On one link, a
  /// characteristic that is written with `.stream` must not be written otherwise.
  case stream
}

extension Link {
  public var writeLimit: Int { ATT.valueLimit }

  /// By default nothing is streamed, so callers use `write`.
  public func streamNow(_ value: [UInt8], to characteristic: CharacteristicID) -> Bool { false }
}

/// An event of a `Link`: a result of a requested operation, a value of the peer, or the end.
public enum LinkEvent: Hashable, Sendable {
  case connected
  case discovered([GATTService])
  case mtuChanged(Int)
  case subscribed(CharacteristicID)
  /// The result of a write, in the order of the writes: nil, or the peer's refusal.
  case written(CharacteristicID, error: ATTError?)
  case notified(CharacteristicID, [UInt8])
  /// The link has ended, or connecting failed. This is the last event.
  case disconnected(reason: String)
}
