import Common
import Loop

/// A link on which we are the GATT client.
///
/// Calls return at once; their outcome comes as a `LinkEvent`. Writes are carried out in the order of the calls. Between two
/// machines there may be one physical link for both directions, whichever of them made it: then the peer is a client of
/// ours on a link of the same `id`.
@LoopActor
public protocol Link: AnyObject {
  var id: LinkID { get }

  /// Finds the services and characteristics of the peer: `discovered`.
  func discover()

  /// Asks for an ATT MTU: `mtuChanged`, with what was agreed on.
  func exchangeMTU(_ mtu: Int)

  /// Has values of `characteristic` delivered: `subscribed`. A peer without a CCCD is no error.
  func subscribe(to characteristic: CharacteristicID)

  /// Writes `value`: `written`. With `.request` after the peer's answer; with `.command` and `.stream` as soon as the radio
  /// has room for another, which is no word on whether it arrived.
  func write(_ value: [UInt8], to characteristic: CharacteristicID, as kind: WriteKind)

  /// Streams `value` if the radio takes it within this call, and tells nothing more of it: of many values in a row, each
  /// `written` would cost as much as its value.
  ///
  /// - Returns: whether it was taken. Where not, `write` as `.stream` waits until the radio can take it.
  func streamNow(_ value: [UInt8], to characteristic: CharacteristicID) -> Bool

  /// Bytes of the longest value that is written whole, however large the MTU. It is known when the services are discovered.
  var writeLimit: Int { get }

  /// The service is done with the link, or gives up connecting: `disconnected` comes in any case. The link is cut when no
  /// other service uses it.
  func disconnect()
}

public enum WriteKind: Hashable, Sendable {
  /// With response.
  case request
  /// Without response.
  case command
  /// Without response, in the fastest way there is; with response where the radio knows that values without one may be lost on
  /// their way. A characteristic that is written so is written in no other way on that link.
  case stream
}

extension Link {
  public var writeLimit: Int { ATT.valueLimit }

  /// Of a radio that tells of every write.
  public func streamNow(_ value: [UInt8], to characteristic: CharacteristicID) -> Bool { false }
}

/// What happens on a `Link`.
public enum LinkEvent: Hashable, Sendable {
  case connected
  case discovered([GATTService])
  case mtuChanged(Int)
  case subscribed(CharacteristicID)
  /// In the order of the writes. `error` is the peer's refusal, or nil.
  case written(CharacteristicID, error: ATTError?)
  case notified(CharacteristicID, [UInt8])
  /// Last of all events; also when connecting failed.
  case disconnected(reason: String)
}
