import Common
import Loop

/// A GATT application that is being served; dropping the server closes it.
@LoopActor
public protocol GATTServer: AnyObject {
  /// Sends `value` to the clients of `recipients`: to a client that subscribed to indications by indication, else by
  /// notification. It never calls the delegate from within.
  ///
  /// - Returns: what became of the value, for each link that it was meant for.
  @discardableResult
  func notify(_ value: [UInt8], of characteristic: CharacteristicID, to recipients: Recipients) -> Delivery

  /// A client writes its first values one at a time, each answered before the next goes, and many later: what it writes to
  /// characteristics that take all writes may come in a way that is faster, and loses what a client writes as that way begins.
  func expectStream(from link: LinkID)

  /// The service is done with the link. The link is cut when no other service uses it; `linkClosed` comes in any case,
  /// never from within this call.
  func disconnect(_ link: LinkID)

  /// Stops serving. No delegate call comes after it, and the service is done with all its links.
  func close()
}

/// The clients that a value is meant for.
public enum Recipients: Hashable, Sendable {
  case link(LinkID)
  case links([LinkID])
  /// All clients that subscribed to the characteristic.
  case subscribers
}

/// What became of a value, by links. A link that was meant stands in exactly one of the first three lists.
public struct Delivery: Hashable, Sendable {
  /// The radio has taken the value for these links.
  public var accepted: [LinkID]
  /// These links have no room; `hasRoom` tells when they have. The value is not kept for them.
  public var full: [LinkID]
  /// These links are gone, or their clients cannot be reached: they did not subscribe.
  public var unreachable: [LinkID]
  /// The value was not meant for these links, and goes to them as well if they have subscribed: on a radio that does not keep its
  /// clients apart, for values that others may hear.
  public var overheard: [LinkID]

  public init(
    accepted: [LinkID] = [], full: [LinkID] = [], unreachable: [LinkID] = [], overheard: [LinkID] = []
  ) {
    self.accepted = accepted
    self.full = full
    self.unreachable = unreachable
    self.overheard = overheard
  }
}

/// The service that answers for a GATT application. It is told of the links whose peers use the application, and of no
/// others.
@LoopActor
public protocol GATTServerDelegate: AnyObject {
  /// A peer uses the application for the first time: it has written, read or subscribed.
  ///
  /// - Parameter since: when the link came up; it may be long ago.
  func linkOpened(_ link: LinkID, address: BluetoothAddress, since: Instant)

  /// The ATT MTU of a link is known or has changed.
  func linkChanged(_ link: LinkID, mtu: Int)

  /// A client has subscribed to a characteristic, or no longer is subscribed. A radio that cannot tell one client from
  /// another does not say so.
  func subscribed(_ link: LinkID, to characteristic: CharacteristicID, _ isSubscribed: Bool)

  /// A client has written. `linkOpened` and, where the radio knows it, `linkChanged` came before.
  ///
  /// - Throws: what a write request is answered with; a write command is never answered.
  func written(_ value: [UInt8], to characteristic: CharacteristicID, on link: LinkID) throws(ATTError)

  /// A link that `notify` found full has room again.
  func hasRoom(_ link: LinkID)

  /// The link is gone, or the service is done with it. If its peer uses the application again, it is opened anew.
  func linkClosed(_ link: LinkID)
}

extension GATTServerDelegate {
  public func subscribed(_ link: LinkID, to characteristic: CharacteristicID, _ isSubscribed: Bool) {}
  public func hasRoom(_ link: LinkID) {}
}
