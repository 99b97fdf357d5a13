import Common
import DBus
import Loop
import Radio

/// Serves the clients of one characteristic: it finds the link of each client, passes values between bluetoothd and the
/// delegate, and stores the value that clients read.
@LoopActor
final class CharacteristicServer: CharacteristicHandler {
  /// The characteristic whose D-Bus object bluetoothd calls.
  let characteristic: ServedCharacteristic
  let notifier: any Notifier
  /// The sockets for clients' writes; nil if clients cannot write through sockets.
  let writes: WriteSockets?

  private let context: ServingContext
  /// Whether a service still uses the characteristic.
  private let isWanted: @LoopActor () -> Bool
  /// The last notified value, which clients can read, and the links that may read it; nil for all.
  private var last: (value: [UInt8], readers: [LinkID]?)?

  /// - Parameter offersWrites: whether clients may write through sockets.
  init(
    _ characteristic: ServedCharacteristic, _ context: ServingContext, notifier: any Notifier, offersWrites: Bool,
    isWanted: @escaping @LoopActor () -> Bool
  ) {
    self.characteristic = characteristic
    self.context = context
    self.notifier = notifier
    self.isWanted = isWanted
    writes =
      offersWrites && characteristic.declaration.canBeWritten ? WriteSockets(characteristic, context) : nil
    characteristic.handler = self
  }

  var hasSubscribers: Bool { notifier.hasSubscribers }

  var hasSockets: Bool { notifier.hasSockets }

  // MARK: From clients

  func write(_ value: [UInt8], _ options: ServedCharacteristic.CallOptions) throws(ATTError) {
    let link = try context.client(options)
    guard let delegate = context.delegate, isWanted() else { throw .unlikely }
    link.isUsed = true
    writes?.wrote(link.id)
    try delegate.written(value, to: characteristic.id, of: characteristic.application, on: link.id)
  }

  func read(_ options: ServedCharacteristic.CallOptions) -> [UInt8]? {
    let link = reader(options)
    guard let last, last.readers.map({ readers in link.map(readers.contains) ?? false }) ?? true else { return nil }
    return last.value
  }

  /// Reports a read.
  ///
  /// - Returns: the client's link; nil if bluetoothd does not identify the client.
  private func reader(_ options: ServedCharacteristic.CallOptions) -> LinkID? {
    guard let link = client(options) else { return nil }
    link.isUsed = true
    context.report(.read(characteristic.id), of: characteristic, by: link.id)
    return link.id
  }

  /// The client's link; nil if it is unknown, or if no service uses the characteristic.
  private func client(_ options: ServedCharacteristic.CallOptions) -> PeerLink? {
    isWanted() ? try? context.client(options) : nil
  }

  func startNotify() throws(DBusError) { try notifier.start() }

  func stopNotify() { notifier.stop() }

  func acquireNotify(_ options: ServedCharacteristic.CallOptions) throws(DBusError) -> FileDescriptor? {
    guard let link = client(options) else { return nil }
    return try notifier.acquire(for: link)
  }

  func acquireWrite(_ options: ServedCharacteristic.CallOptions) throws(DBusError) -> FileDescriptor? {
    guard let writes, let link = client(options) else { return nil }
    // Values in an earlier socket precede all values in the next one. Their handler may end the link.
    writes.takeLast(of: link.id)
    guard context.links[link.id] != nil, isWanted() else { return nil }
    return try writes.acquire(for: link)
  }

  // MARK: To clients

  func notify(_ value: [UInt8], to recipients: Recipients) -> Delivery {
    remember(value, for: recipients)
    return notifier.send(value, to: recipients)
  }

  /// Stores `value` for clients that read the characteristic. If its reach is exact, only the recipients can read it.
  private func remember(_ value: [UInt8], for recipients: Recipients) {
    guard characteristic.declaration.properties.contains(.read) else { return }
    last = (value, characteristic.isExact ? recipients.links : nil)
  }

  // MARK: Ends

  /// Handles the end of a link.
  func forget(_ link: LinkID) {
    notifier.forget(link)
    writes?.forget(link)
  }

  /// Handles that bluetoothd has dropped the characteristic, and reports the ends of subscriptions.
  func reset() {
    characteristic.dropped()
    let ended = notifier.reset()
    writes?.reset()
    for link in ended where context.links[link] != nil {
      context.report(.unsubscribed(characteristic.id), of: characteristic, by: link)
    }
  }

  /// Closes all sockets. Ends of subscriptions are not reported.
  func close() {
    notifier.close()
    writes?.close()
  }
}

/// The parts of the GATT server that all its characteristics share.
@LoopActor
final class ServingContext {
  weak var delegate: (any RadioDriverDelegate)?
  let bus: BusConnection
  let scheduler: any Scheduler
  let counters: BlueZCounters
  let links: PeerLinks
  let raw: RawATT
  let signals: SignalSender

  init(
    _ bus: BusConnection, scheduler: any Scheduler, counters: BlueZCounters, links: PeerLinks, raw: RawATT
  ) {
    self.bus = bus
    self.scheduler = scheduler
    self.counters = counters
    self.links = links
    self.raw = raw
    signals = SignalSender(bus, links: links)
    signals.onRoom = { [weak self] in self?.delegate?.hasRoom($0) }
  }

  /// The link of the client in a call's options; the function stores the client's MTU.
  func client(_ options: ServedCharacteristic.CallOptions) throws(ATTError) -> PeerLink {
    counters.malformed += options.malformed
    guard let path = options.device else {
      counters.malformed += 1
      throw .unlikely
    }
    let link = try links.link(with: path)
    if let mtu = options.mtu { links.learn(mtu, of: link) }
    return link
  }

  /// Reports a client's use of a characteristic.
  func report(_ use: Use, of characteristic: ServedCharacteristic, by link: LinkID) {
    delegate?.used(characteristic.application, by: link, use)
  }

  func hasRoom(_ link: LinkID) { delegate?.hasRoom(link) }

  /// Reports capacity at the end of this loop iteration.
  func soonHasRoom(_ link: LinkID) { EventLoop.shared.soon { [weak self] in self?.hasRoom(link) } }

  /// Whether no other client than `link` can be subscribed to a characteristic: none wrote a subscription, and none is
  /// paired, because bluetoothd stores the subscriptions of paired clients.
  func isOnlySubscriber(_ link: PeerLink, of characteristic: ServedCharacteristic) -> Bool {
    if links.onlyClient == link.device { return true }
    return links.all.allSatisfy { other in
      guard other !== link else { return true }
      let configuration = raw.configuration(of: characteristic, by: other)?.configuration ?? .nothing
      return configuration == .nothing && links.isUnpaired(other)
    } && !links.hasUnlinkedPeers
  }
}
