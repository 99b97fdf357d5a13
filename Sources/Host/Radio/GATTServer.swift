import Common
import Loop

/// A GATT application that is being served; releasing the server closes it.
@LoopActor
public protocol GATTServer: AnyObject {
  /// Sends `value` to the clients of `recipients`, as an indication if a client subscribed to indications, otherwise as
  /// a notification. It never calls the delegate from within this call.
  ///
  /// - Returns: the result for each intended link.
  @discardableResult
  func notify(_ value: [UInt8], of characteristic: CharacteristicID, to recipients: Recipients) -> Delivery

  /// Announces that a client writes its first values one at a time, each after the answer to the last, and many values
  /// later. Its writes to characteristics that accept all writes may then use a faster path. Values that the client
  /// writes while that path is being set up are lost.
  func expectStream(from link: LinkID)

  /// Releases the link, which the service no longer uses. The link is ended if no other service uses it; `linkClosed`
  /// follows in any case, never from within this call.
  func disconnect(_ link: LinkID)

  /// Stops serving. The delegate is not called afterwards, and the service no longer uses the links.
  func close()
}

/// The recipients of a value.
public enum Recipients: Hashable, Sendable {
  case link(LinkID)
  case links([LinkID])
  /// All clients that subscribed to the characteristic.
  case subscribers

  /// The recipients' links, without duplicates.
  ///
  /// - Parameter subscribers: returns the links of all clients that subscribed to the characteristic.
  public func distinctLinks(subscribers: () -> [LinkID]) -> [LinkID] {
    switch self {
    case .link(let link): return [link]
    case .links(let links):
      var seen: Set<LinkID> = []
      return links.filter { seen.insert($0).inserted }
    case .subscribers: return subscribers()
    }
  }
}

/// The result of sending a value, by links. Each intended link is in exactly one of the first three lists.
public struct Delivery: Hashable, Sendable {
  /// Links whose value the radio has accepted.
  public var accepted: [LinkID]
  /// Links without capacity. The value is not stored for them; `hasRoom` reports when there is capacity.
  public var full: [LinkID]
  /// Links that have ended, or whose clients are not subscribed and cannot be reached.
  public var unreachable: [LinkID]
  /// Unintended links that also receive the value if they are subscribed. This happens on a radio that cannot
  /// distinguish clients, for characteristics whose reach permits it.
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

/// The service of a GATT application. It is notified of the links whose peers use the application, and of no others.
@LoopActor
public protocol GATTServerDelegate: AnyObject {
  /// Called when a peer uses the application for the first time: it has written, read or subscribed.
  ///
  /// - Parameter since: when the link came up; it may be long ago.
  func linkOpened(_ link: LinkID, address: BluetoothAddress, since: Instant)

  /// Called when the ATT MTU of a link is known or has changed.
  func linkChanged(_ link: LinkID, mtu: Int)

  /// Called when a client has subscribed to a characteristic, or unsubscribed. A radio that cannot distinguish clients
  /// does not report it.
  func subscribed(_ link: LinkID, to characteristic: CharacteristicID, _ isSubscribed: Bool)

  /// Called when a client has written. `linkOpened` was called before, and `linkChanged` if the radio knows the MTU.
  ///
  /// - Throws: the error for the answer to a write request; a write command has no answer.
  func written(_ value: [UInt8], to characteristic: CharacteristicID, on link: LinkID) throws(ATTError)

  /// Called when a link that `notify` reported as full has capacity again.
  func hasRoom(_ link: LinkID)

  /// Called when the link has ended, or the service has released it. If its peer uses the application again,
  /// `linkOpened` is called again.
  func linkClosed(_ link: LinkID)
}

extension GATTServerDelegate {
  public func subscribed(_ link: LinkID, to characteristic: CharacteristicID, _ isSubscribed: Bool) {}
  public func hasRoom(_ link: LinkID) {}
}
