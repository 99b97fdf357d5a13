import Common
import DBus
import HCI
import Journal
import Loop
import Radio

/// The notification path of bluetoothd from 5.76 on: it requests one socket for each client that subscribes.
///
/// | client | path of a value |
/// | --- | --- |
/// | subscribed | its socket |
/// | not subscribed, characteristic with exact reach | raw HCI |
/// | orphaned subscription | raw HCI if possible, or else a signal to bluetoothd, which sends the value to all subscribers |
///
/// Orphaned subscriptions: when a subscribed client leaves, bluetoothd (observed in 5.82) frees the socket of the
/// client that subscribed first (bluez/bluez #1452, #2456). That client's subscription stays, and bluetoothd never
/// requests a socket again. A signal still reaches the client, because it is sent to all subscribers, as before 5.76.
/// Facts: bluez.md section 12.
@LoopActor
final class SocketNotifier: Notifier {
  private let characteristic: ServedCharacteristic
  private let context: ServingContext
  /// The socket through which each subscribed client gets its values.
  private var sockets: [LinkID: PacketSocket] = [:]
  /// Timers for clients whose sockets bluetoothd has closed, until it is known why.
  private var closing: [LinkID: Registration] = [:]
  /// Clients whose subscriptions are orphaned: bluetoothd has freed their sockets by mistake.
  private var orphans: Set<LinkID> = []
  /// When a subscribed client last disconnected.
  private var lastLeft: Instant?
  /// Clients that have unsubscribed while bluetoothd leaves their sockets open, with the timers that close the sockets.
  private var ending: [LinkID: Registration] = [:]
  /// The last value sent on each socket, for characteristics whose values must arrive without a subscription too.
  private var lastSent: [LinkID: [UInt8]] = [:]

  /// Maximum time between the closing of sockets because a client left and the report that the client's link has ended.
  private static let leavingTime = Duration.seconds(1)
  /// Time that bluetoothd has to close the socket of a client that unsubscribed. A socket that is still open then is
  /// closed here.
  private static let closingTime = Duration.seconds(1)

  init(_ characteristic: ServedCharacteristic, _ context: ServingContext) {
    self.characteristic = characteristic
    self.context = context
  }

  private var links: PeerLinks { context.links }
  private var raw: RawATT { context.raw }

  var hasSubscribers: Bool { !subscribers.isEmpty }

  var hasSockets: Bool { !sockets.isEmpty }

  private var subscribers: [LinkID] {
    (Array(sockets.keys) + Array(closing.keys) + Array(orphans)).sorted { $0.number < $1.number }
  }

  // MARK: Sending

  func send(_ value: [UInt8], to recipients: Recipients) -> Delivery {
    var delivery = Delivery()
    var signalled: [LinkID] = []
    for link in recipients.links ?? subscribers {
      if needsSignal(value, to: link) { signalled.append(link) } else { delivery.add(link, send(value, to: link)) }
    }
    if !signalled.isEmpty {
      let all = context.signals.send(value, of: characteristic, to: signalled)
      for link in signalled { delivery.add(link, all.fate(of: link)) }
    }
    return delivery
  }

  /// Whether a client without a socket can only receive a value together with all other subscribers.
  private func needsSignal(_ value: [UInt8], to id: LinkID) -> Bool {
    guard orphans.contains(id), let link = links[id] else { return false }
    if characteristic.isExact { return !raw.isAvailable || raw.failure != nil || wantsIndication(link) }
    return !raw.isShort(value, for: link)
  }

  /// Whether the client subscribed to indications and is the only subscriber, so that bluetoothd can send it an
  /// indication that no other client receives.
  private func wantsIndication(_ link: PeerLink) -> Bool {
    raw.configuration(of: characteristic, by: link)?.configuration == .indications
      && context.isOnlySubscriber(link, of: characteristic)
  }

  private func send(_ value: [UInt8], to id: LinkID) -> Delivery.Fate {
    guard let link = links[id] else { return .unreachable }
    if characteristic.isExact, raw.hasUnsubscribed(link, from: characteristic) {
      // bluetoothd may still have a socket for the client, but drops values from it.
      return raw.send(value, of: characteristic, to: link)
    }
    guard let socket = sockets[id] else {
      if closing[id] != nil { return .full }
      let isRaw = characteristic.isExact || orphans.contains(id)
      return isRaw ? raw.send(value, of: characteristic, to: link) : .unreachable
    }
    // bluetoothd treats an empty packet as the end of the socket.
    guard !value.isEmpty else { return .unreachable }
    switch socket.send(value) {
    case .sent:
      if characteristic.isExact { lastSent[id] = value }
      return .accepted
    // The reason for the closed socket is determined a moment later; capacity is reported then.
    case .full, .closed: return .full
    case .tooLong: return .unreachable
    }
  }

  func limit(_ link: PeerLink) { sockets[link.id]?.limit(to: link.backlog.bytes) }

  // MARK: Subscribing

  func start() throws(DBusError) {
    throw DBusError(name: BlueZName.Failure.notSupported, message: "Values are sent only by AcquireNotify.")
  }

  func stop() {}

  func acquire(for link: PeerLink) throws(DBusError) -> FileDescriptor {
    let id = link.id
    // The client has unsubscribed and subscribed again before bluetoothd received the answer to its first call.
    // bluetoothd uses the first socket that it receives, and would not read another one.
    if let socket = sockets[id], !socket.isOtherEndGone {
      throw DBusError(name: BlueZName.Failure.failed, message: "The client already has a socket.")
    }
    let (socket, end) = try PacketSocket.pair(buffer: link.backlog.bytes)
    let isKnown = subscribers.contains(id)
    if let earlier = sockets.updateValue(socket, forKey: id) {
      sendUnread(by: earlier, to: link)
      earlier.close()
      // The former socket may have been full, and can no longer report capacity.
      context.soonHasRoom(id)
    }
    // A client whose socket was closed has a new one.
    if closing.removeValue(forKey: id) != nil || orphans.remove(id) != nil { context.soonHasRoom(id) }
    socket.onRoom = { [weak context] in context?.hasRoom(id) }
    socket.onHangUp = { [weak self, weak socket] in
      guard let self, let socket, sockets[id] === socket else { return }
      hungUp(id)
    }
    link.isUsed = true
    if !isKnown { context.report(.subscribed(characteristic.id), of: characteristic, by: id) }
    return end
  }

  /// Handles a socket that bluetoothd has closed, because the client unsubscribed or left, or because another client
  /// left.
  private func hungUp(_ id: LinkID) {
    if let socket = sockets.removeValue(forKey: id) {
      if let link = links[id] { sendUnread(by: socket, to: link) }
      socket.close()
    }
    // Without another client, now or a moment ago, no other client has left.
    guard links.count > 1 || hasSomebodyLeft else { return decide(id) }
    closing[id] = context.scheduler.schedule(after: Self.leavingTime) { [weak self] in self?.decide(id) }
  }

  private func decide(_ id: LinkID) {
    closing[id] = nil
    guard links[id] != nil else { return }
    if hasSomebodyLeft {
      orphans.insert(id)
      Log.shared.debug("bluetoothd has closed a client's socket because another client left", .link(id))
    } else {
      context.report(.unsubscribed(characteristic.id), of: characteristic, by: id)
    }
    context.hasRoom(id)
  }

  private var hasSomebodyLeft: Bool {
    lastLeft.map { $0.advanced(by: Self.leavingTime * 2) >= context.scheduler.now } ?? false
  }

  /// Handles a socket that was closed. If bluetoothd has not read the last value from it, the value is sent by raw HCI.
  /// A value for this client alone must arrive whether the client is subscribed or not.
  private func sendUnread(by socket: PacketSocket, to link: PeerLink) {
    guard let value = lastSent.removeValue(forKey: link.id), socket.hasLostPackets else { return }
    context.counters.repeatedNotifications += 1
    _ = raw.send(value, of: characteristic, to: link)
  }

  /// If the client unsubscribed before this program answered `AcquireNotify`, bluetoothd leaves the socket open and
  /// drops the values that it reads from it.
  func hasWrittenNothing(_ link: PeerLink) {
    let id = link.id
    ending[id] = context.scheduler.schedule(after: Self.closingTime) { [weak self] in
      guard let self, let link = links[id] else { return }
      ending[id] = nil
      if raw.hasUnsubscribed(link, from: characteristic) { closeForgotten(id) }
    }
  }

  private func closeForgotten(_ id: LinkID) {
    guard let socket = sockets.removeValue(forKey: id) else { return }
    socket.close()
    Log.shared.debug("A socket that bluetoothd left open after the client unsubscribed is closed", .link(id))
    context.report(.unsubscribed(characteristic.id), of: characteristic, by: id)
    context.hasRoom(id)
  }

  // MARK: Ends

  func forget(_ link: LinkID) {
    if subscribers.contains(link) { lastLeft = context.scheduler.now }
    sockets.removeValue(forKey: link)?.close()
    (closing[link], ending[link], lastSent[link]) = (nil, nil, nil)
    orphans.remove(link)
  }

  func reset() -> [LinkID] {
    let ended = subscribers
    close()
    return ended
  }

  func close() {
    for socket in sockets.values { socket.close() }
    (sockets, closing, orphans, ending, lastSent) = ([:], [:], [], [:], [:])
  }
}
