import Common
import DBus
import Journal
import Loop
import Radio

/// One use of a link as its GATT client, from the connection attempt to the end. bluetoothd connects, discovers the peer's services, and
/// exports them as objects.
@LoopActor
final class CentralConnection {
  enum State: Equatable {
    case connecting
    case open
    /// The link is being ended; the reason is reported when it has ended.
    case disconnecting(reason: String)
    case closed
  }

  let id: LinkID
  let place: Place
  let device: ObjectPath
  let address: BluetoothAddress
  /// Whether the link existed before this connection.
  let isShared: Bool
  let bus: BusConnection
  let counters: BlueZCounters
  private(set) var state = State.connecting
  var window = WriteWindow()
  var database: RemoteDatabase?
  /// Whether the database was read for a `discover` operation.
  var isDatabaseNew = false
  var isReading = false
  var mtu = ATT.firstMTU
  /// The subscribed characteristics, by their object paths.
  var subscriptions: [ObjectPath: CharacteristicID] = [:]
  /// The method of `stream` writes, by characteristic, once it is determined.
  var streams: [ObjectPath: StreamWay] = [:]
  let bearers: Bearers
  var isResolved = false
  /// Whether the peer is paired or trusted, so that bluetoothd must keep it.
  private(set) var isBound: Bool

  /// Whether bluetoothd has reported the peer as connected: 5.82 sometimes answers the call, or sends other signals, before.
  private var isConnectionTold: Bool
  private let scheduler: any Scheduler
  private weak var central: Central?
  private var handler: (@LoopActor (LinkEvent) -> Void)?
  private var signals: Registration?
  private var timer: Registration?
  private var attempts = 0
  /// The timer of the next attempt.
  private var retry: Registration?

  /// Maximum attempts if the link fails at once, which happens when the peer missed the first packet.
  private static let attemptLimit = 3
  /// Pause after a failed attempt: bluetoothd 5.66 removes a peer right after it has reported the failure, and an earlier attempt would
  /// refer to the removed peer.
  private static let retryTime = Duration.milliseconds(500)
  /// Time limit of a connection attempt, longer than those of bluetoothd and the kernel.
  private static let connectTime = Duration.seconds(30)
  /// Time limit of a request: bluetoothd waits 30 s for each answer of the peer. Core 5.4 Vol 3 Part F 3.3.3.
  static let answerTime = Duration.seconds(40)
  private static let resolveTime = Duration.seconds(60)
  /// Maximum time from the link's start to bluetoothd's answer. bluetoothd continues its own attempt if the peer
  /// connected first.
  private static let crossingTime = Duration.seconds(2)
  /// At the end of a link bluetoothd removes the peer's services, and reports the end shortly after.
  private static let endingTime = Duration.seconds(1)
  /// Time limit for ending a link: bluetoothd disconnects two seconds after the request.
  private static let disconnectTime = Duration.seconds(5)

  /// - Parameters:
  ///   - id: the link's number, or a new one for a link that is not up.
  ///   - device: bluetoothd's present description of the peer.
  init(
    _ id: LinkID, to device: Device, at place: Place, on bus: BusConnection, scheduler: any Scheduler,
    counters: BlueZCounters, central: Central, bearers: Bearers, handler: @escaping @LoopActor (LinkEvent) -> Void
  ) {
    self.id = id
    self.place = place
    self.device = device.path
    self.bus = bus
    self.scheduler = scheduler
    self.counters = counters
    self.central = central
    self.handler = handler
    self.bearers = bearers
    address = device.address
    isShared = device.isConnected
    isConnectionTold = device.isConnected
    isResolved = device.isConnected && device.isResolved
    isBound = device.isPaired || device.isTrusted
  }

  /// The limit of bytes that wait in the connection's sockets.
  var backlog: Backlog { central?.backlog(of: device) ?? .short }

  /// Whether the link is being ended.
  var isEnding: Bool { if case .disconnecting = state { true } else { false } }

  // MARK: Connecting

  func start() {
    let changed = SignalMatch(
      sender: BlueZName.service, pathNamespace: device, interface: BlueZName.properties, member: "PropertiesChanged",
      arg0: BlueZName.gattCharacteristic)
    signals = bus.subscribe(changed) { [weak self] in self?.valueChanged($0) }
    guard isShared else { return connect() }
    // Events are never sent from within a call of the service.
    EventLoop.shared.soon { [weak self] in
      guard let self, state == .connecting else { return }
      opened()
    }
  }

  private func connect() {
    attempts += 1
    bus.call(place.owner, device, BlueZName.device, "Connect", timeout: Self.connectTime) { [weak self] result in
      guard let self, state == .connecting else { return }
      switch result {
      case .success: opened()
      case .failure(let error) where error.name == BlueZName.Failure.alreadyConnected: opened()
      case .failure(let error) where attempts < Self.attemptLimit && CentralWords.isPassing(error):
        Log.shared.debug("Connecting failed, and is tried again: \(error)", .link(id))
        retry = scheduler.schedule(after: Self.retryTime) { [weak self] in self?.connect() }
      case .failure where isConnectionTold: opened()
      // The attempt belongs to another program, which also ends it.
      case .failure(let error) where error.name == BlueZName.Failure.inProgress:
        refuse(CentralWords.connecting(to: address, within: Self.connectTime, error))
      case .failure(let error): fail(CentralWords.connecting(to: address, within: Self.connectTime, error))
      }
    }
  }

  /// Uses a link that the peer made while our attempt was under way. bluetoothd then continues its attempt, which never
  /// succeeds.
  private func lookForCrossing() {
    guard isConnectionTold else {
      timer = nil
      return
    }
    guard timer == nil else { return }
    timer = scheduler.schedule(after: Self.crossingTime) { [weak self] in
      guard let self, state == .connecting else { return }
      Log.shared.debug("The peer has made the link in the meantime", .link(id))
      timer = nil
      opened()
    }
  }

  private func opened() {
    (timer, retry) = (nil, nil)
    guard central?.opened(self) == true else { return fail("There are too many links for one to \(address).") }
    state = .open
    if !isResolved {
      timer = scheduler.schedule(after: Self.resolveTime) { [weak self] in
        guard let self else { return }
        fail("\(address) did not say what it serves within \(Self.resolveTime.components.seconds) s.")
      }
    }
    tell(.connected)
    drain()
  }

  /// Handles changed properties of the peer.
  func changed(_ device: Device) {
    isBound = device.isPaired || device.isTrusted
    switch state {
    case .connecting:
      if isShared, !device.isConnected { return close("The link to \(address) was lost.") }
      isConnectionTold = device.isConnected
      isResolved = device.isConnected && device.isResolved
      if !isShared { lookForCrossing() }
    case .open:
      if device.isConnected { isConnectionTold = true }
      guard device.isConnected || !isConnectionTold else { return close("The link to \(address) was lost.") }
      guard device.isResolved, !isResolved else { return }
      isResolved = true
      timer = nil
      drain()
    case .disconnecting(let reason): if !device.isConnected { close(reason) }
    case .closed: break
    }
  }

  /// bluetoothd has removed a characteristic. If the link continues, the peer has changed its services, or bluetoothd was restarted and has
  /// read them again. This connection's database is then outdated.
  func removed(characteristic path: ObjectPath) {
    guard state == .open, subscriptions[path] != nil || streams[path] != nil, timer == nil else { return }
    timer = scheduler.schedule(after: Self.endingTime) { [weak self] in
      guard let self else { return }
      fail(CentralWords.changed(address))
    }
  }

  // MARK: Ending

  func linkEnded() { lost("The link to \(address) was lost.") }

  /// The peer, the adapter or bluetoothd is gone.
  func lost(_ reason: String) {
    if case .disconnecting(let reason) = state { close(reason) } else { close(reason) }
  }

  /// Ends the connection before it began.
  func refuse(_ reason: String) {
    close(reason, isLinkEnding: false)
  }

  /// The service no longer uses the connection.
  func disconnect() {
    giveUp("Disconnected.")
  }

  /// Ends the connection for a reason of this program.
  func fail(_ reason: String) {
    guard state == .connecting || state == .open else { return }
    Log.shared.debug("The link is given up: \(reason)", .link(id))
    giveUp(reason)
  }

  /// Removes the peer from bluetoothd, which uses an outdated database and would use it for each later link. The removal ends the link, in
  /// either role. If an earlier removal did not help, a link that the peer uses stays up, without this connection.
  ///
  /// - Returns: false if the peer is paired or trusted.
  func takeAway() -> Bool {
    guard state == .open, !isBound, let central else { return false }
    let reason = CentralWords.changed(address)
    guard central.mayTakeAway(device) else {
      fail(reason)
      return true
    }
    close(reason, isLinkEnding: false)
    central.takeAway(self)
    return true
  }

  private func giveUp(_ reason: String) {
    guard state == .connecting || state == .open else { return }
    if central?.mayCut(self) == true { cut(reason) } else { leave(reason) }
  }

  /// Ends this use of a link that stays up.
  private func leave(_ reason: String) {
    central?.owe(self)
    close(reason, isLinkEnding: false)
  }

  /// Ends the subscriptions, also after the end of the link. bluetoothd keeps a subscription for 30 s, and a peer that returns in that time
  /// would notify values instead of writing them.
  private func endSubscriptions() {
    for path in subscriptions.keys.sorted(by: { $0.string < $1.string })
    where central?.isSubscribed(path, beside: self) != true {
      bus.call(place.owner, path, BlueZName.gattCharacteristic, "StopNotify") { _ in }
    }
    subscriptions = [:]
  }

  /// Lets bluetoothd end the link.
  func cut(_ reason: String) {
    end(reason)
    timer = scheduler.schedule(after: Self.disconnectTime) { [weak self] in self?.close(reason) }
    bus.call(place.owner, device, BlueZName.device, "Disconnect") { [weak self] result in
      if case .failure(let error) = result { Log.shared.debug("Disconnect was answered with \(error)") }
      self?.close(reason)
    }
    central?.forget(self)
  }

  /// The link is being ended.
  func end(_ reason: String) {
    guard state == .connecting || state == .open else { return }
    state = .disconnecting(reason: reason)
    retry = nil
    window.removeAll()
  }

  private func close(_ reason: String, isLinkEnding: Bool = true) {
    guard state != .closed else { return }
    let isCut = isEnding
    state = .closed
    endStreams()
    endSubscriptions()
    if isLinkEnding, !isCut { central?.forget(self) }
    window.removeAll()
    signals = nil
    (timer, retry) = (nil, nil)
    database = nil
    central?.closed(self)
    // Events are never sent from within a call of the service.
    EventLoop.shared.soon { [self] in
      handler?(.disconnected(reason: reason))
      handler = nil
    }
  }

  // MARK: Events

  func tell(_ event: LinkEvent) {
    guard state == .open else { return }
    handler?(event)
  }

  func tell(_ events: [LinkEvent]) {
    for event in events { tell(event) }
  }
}
