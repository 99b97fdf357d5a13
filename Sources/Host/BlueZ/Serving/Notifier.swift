import Common
import DBus
import Loop
import Radio

/// The path of values from one characteristic to its clients, and the state of their subscriptions. There are two:
/// `SocketNotifier` for bluetoothd from 5.76 on, and `SignalNotifier` for older versions.
@LoopActor
protocol Notifier: AnyObject {
  init(_ characteristic: ServedCharacteristic, _ context: ServingContext)

  /// Whether a client is subscribed, as far as is known.
  var hasSubscribers: Bool { get }
  /// Whether a client is subscribed through a socket.
  var hasSockets: Bool { get }

  /// Sends a value to the recipients that can be reached, and returns which cannot.
  func send(_ value: [UInt8], to recipients: Recipients) -> Delivery

  /// Handles bluetoothd's call of `StartNotify`: the first client has subscribed.
  func start() throws(DBusError)
  /// Handles bluetoothd's call of `StopNotify`: the last client has unsubscribed.
  func stop()
  /// Handles bluetoothd's call of `AcquireNotify`: a client has subscribed.
  ///
  /// - Returns: bluetoothd's end of the client's socket.
  func acquire(for link: PeerLink) throws(DBusError) -> FileDescriptor

  /// Handles a client that wrote 0 to its CCCD.
  func hasWrittenNothing(_ link: PeerLink)
  /// Applies a changed limit of the link's waiting bytes.
  func limit(_ link: PeerLink)
  /// Handles the end of a link, with which its subscription ends.
  func forget(_ link: LinkID)
  /// Handles that bluetoothd has dropped the characteristic.
  ///
  /// - Returns: the links whose subscriptions ended.
  func reset() -> [LinkID]
  /// Ends all subscriptions without reporting them.
  func close()
}

extension Recipients {
  /// The links of the recipients; nil for all subscribers.
  var links: [LinkID]? {
    switch self {
    case .link(let link): [link]
    case .links(let links): links
    case .subscribers: nil
    }
  }
}

extension Delivery {
  /// The result of sending a value to one link.
  enum Fate { case accepted, full, unreachable }

  mutating func add(_ link: LinkID, _ fate: Fate) {
    switch fate {
    case .accepted: accepted.append(link)
    case .full: full.append(link)
    case .unreachable: unreachable.append(link)
    }
  }

  func fate(of link: LinkID) -> Fate {
    accepted.contains(link) ? .accepted : full.contains(link) ? .full : .unreachable
  }
}
