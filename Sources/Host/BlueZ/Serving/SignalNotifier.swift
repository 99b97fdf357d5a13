import Common
import DBus
import HCI
import Journal
import Loop
import Radio

/// The notification path of bluetoothd before 5.76: it sends each signalled value to all subscribers, and does not name
/// them.
///
/// | reach of the characteristic | path of a value |
/// | --- | --- |
/// | subscribers | one signal to bluetoothd; raw HCI for one of several clients, if the value fits into one packet of the controller and the kernel supports it |
/// | exact | raw HCI; the signal if the client subscribed and is the only connected client |
///
/// Without raw HCI an exact value is also sent by the signal, if a client has subscribed. The subscriptions of clients
/// are read from their writes to the CCCDs, where raw HCI sees them; otherwise bluetoothd's reports count. Facts:
/// bluez.md section 14.
@LoopActor
final class SignalNotifier: Notifier {
  private let characteristic: ServedCharacteristic
  private let context: ServingContext
  /// Whether bluetoothd reports that a client is subscribed.
  private var isNotifying = false
  /// The only subscribed client; nil if it is not certain which client that is.
  private var subscriber: LinkID?
  /// Number of calls of `StartNotify` and `StopNotify`, by which bluetoothd reports changes of subscriptions.
  private var changes: UInt64 = 0

  /// Maximum number of times that one value is signalled to a client that changes its subscription meanwhile.
  private static let attemptLimit = 4

  init(_ characteristic: ServedCharacteristic, _ context: ServingContext) {
    self.characteristic = characteristic
    self.context = context
  }

  private var links: PeerLinks { context.links }
  private var raw: RawATT { context.raw }

  var hasSubscribers: Bool { isNotifying }

  var hasSockets: Bool { false }

  // MARK: Sending

  func send(_ value: [UInt8], to recipients: Recipients) -> Delivery {
    if characteristic.isExact, let links = recipients.links {
      var delivery = Delivery()
      for link in links { delivery.add(link, sendExactly(value, to: link)) }
      return delivery
    }
    if case .link(let link) = recipients, sendShort(value, to: link) { return Delivery(accepted: [link]) }
    return signal(value, to: recipients.links ?? subscriber.map { [$0] } ?? links.all.map(\.id))
  }

  /// Sends a value for one of several clients over raw HCI, because bluetoothd would send it to all.
  ///
  /// - Returns: false if the value must be sent through bluetoothd.
  private func sendShort(_ value: [UInt8], to id: LinkID) -> Bool {
    guard isNotifying, links.onlyClient == nil, let link = links[id], raw.isShort(value, for: link) else {
      return false
    }
    return raw.send(value, of: characteristic, to: link) == .accepted
  }

  private func signal(_ value: [UInt8], to meant: [LinkID]) -> Delivery {
    guard isNotifying else { return Delivery(unreachable: meant) }
    return context.signals.send(value, of: characteristic, to: meant)
  }

  /// Sends a value that no other client may receive.
  private func sendExactly(_ value: [UInt8], to id: LinkID) -> Delivery.Fate {
    guard let link = links[id] else { return .unreachable }
    let last = raw.configuration(of: characteristic, by: link)
    if isSignalled(to: link, last) { return signalExactly(value, to: link, last) }
    // After a permanent failure raw HCI is tried again only if a signal would not reach the client.
    guard raw.isAvailable, raw.failure == nil || !isNotifying || last?.configuration == .nothing
    else { return signalExactly(value, to: link, last) }
    let fate = raw.send(value, of: characteristic, to: link)
    guard fate == .unreachable, links.onlyClient == link.device || links.count == 1 else { return fate }
    return signalExactly(value, to: link, last)
  }

  /// Whether a signal brings a value to this client, in the form of its subscription, and to no other client.
  ///
  /// - Parameter last: the client's last write to the CCCD.
  private func isSignalled(to link: PeerLink, _ last: LastConfiguration?) -> Bool {
    guard isNotifying else { return false }
    switch last?.configuration {
    case .nothing?: return false
    case .notifications?: return links.onlyClient == link.device
    case .indications?: return context.isOnlySubscriber(link, of: characteristic)
    case nil: return links.onlyClient == link.device && subscriber == link.id
    }
  }

  private func signalExactly(
    _ value: [UInt8], to link: PeerLink, _ last: LastConfiguration?, attempt: Int = 1
  ) -> Delivery.Fate {
    let fate = signal(value, to: [link.id]).fate(of: link.id)
    if fate == .accepted {
      let (changes, number) = (changes, last?.number)
      context.signals.whenHandled { [weak self] in
        self?.check(value, to: link.id, since: changes, number, attempt: attempt)
      }
    }
    return fate
  }

  /// Checks a value whose signal bluetoothd has handled. bluetoothd drops the value of a client that is not subscribed
  /// at that moment. If the client's subscription changed meanwhile, the value is sent again.
  ///
  /// - Parameters:
  ///   - before: the value of `changes` at the time of the signal.
  ///   - number: the number of the client's last CCCD write at the time of the signal.
  ///   - attempt: number of times that the value was signalled.
  private func check(_ value: [UInt8], to id: LinkID, since before: UInt64, _ number: UInt64?, attempt: Int) {
    guard let link = links[id] else { return }
    let last = raw.configuration(of: characteristic, by: link)
    guard before != changes || number != last?.number else { return }
    context.counters.repeatedNotifications += 1
    Log.shared.debug("A value is sent again: the client has changed its subscription meanwhile", .link(id))
    let isIndicated = last?.configuration == .indications && isSignalled(to: link, last)
    if isIndicated || !raw.isAvailable, attempt < Self.attemptLimit {
      _ = signalExactly(value, to: link, last, attempt: attempt + 1)
    } else {
      _ = raw.send(value, of: characteristic, to: link)
    }
  }

  // MARK: Subscribing

  func start() throws(DBusError) {
    changes += 1
    guard !isNotifying else { return }
    var link: PeerLink?
    if let path = links.onlyClient { link = try? links.link(with: path) }
    set(true, for: link?.id)
    guard let link else { return }
    link.isUsed = true
    context.report(.subscribed(characteristic.id), of: characteristic, by: link.id)
  }

  func stop() {
    changes += 1
    guard isNotifying else { return }
    let link = subscriber
    set(false)
    if let link { context.report(.unsubscribed(characteristic.id), of: characteristic, by: link) }
  }

  private func set(_ isNotifying: Bool, for subscriber: LinkID? = nil) {
    self.subscriber = subscriber
    guard isNotifying != self.isNotifying else { return }
    self.isNotifying = isNotifying
    characteristic.notifyingChanged()
  }

  func acquire(for link: PeerLink) throws(DBusError) -> FileDescriptor {
    throw DBusError(name: BlueZName.Failure.notSupported, message: "Values are sent only by PropertiesChanged.")
  }

  func hasWrittenNothing(_ link: PeerLink) {}

  func limit(_ link: PeerLink) {}

  // MARK: Ends

  func forget(_ link: LinkID) { if subscriber == link { subscriber = nil } }

  func reset() -> [LinkID] {
    let ended = subscriber.map { [$0] } ?? []
    set(false)
    return ended
  }

  func close() {}
}
