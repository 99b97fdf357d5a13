import Common
import DBus
import Journal
import Loop
import Radio

/// A use of a link as its GATT client, from the attempt to connect to its end: bluetoothd is asked to connect, finds out by
/// itself what the peer serves, and shows it as objects.
@LoopActor
final class CentralConnection {
  enum State: Equatable {
    case connecting
    case open
    /// The link is being cut; the reason is told when it has ended.
    case disconnecting(reason: String)
    case closed
  }

  let id: LinkID
  let place: Place
  let device: ObjectPath
  let address: BluetoothAddress
  /// Whether the link was up before: it is used, and not made.
  let isShared: Bool
  let bus: BusConnection
  let counters: BlueZCounters
  private(set) var state = State.connecting
  var window = WriteWindow()
  var database: RemoteDatabase?
  /// Whether the database was read for an operation that asked for nothing but that.
  var isDatabaseNew = false
  var isReading = false
  var mtu = ATT.firstMTU
  /// The characteristics whose values were asked for, by where they are.
  var subscriptions: [ObjectPath: CharacteristicID] = [:]
  /// How `stream` writes go, by characteristic, once that is decided.
  var streams: [ObjectPath: StreamWay] = [:]
  let bearers: Bearers
  var isResolved = false
  /// Whether a person has bound the peer to this machine, and so wants it kept.
  private(set) var isBound: Bool

  /// Whether bluetoothd has said that the peer is connected: 5.82 now and then answers first, and tells other things before.
  private var isConnectionTold: Bool
  private let scheduler: any Scheduler
  private weak var central: Central?
  private var handler: (@LoopActor (LinkEvent) -> Void)?
  private var signals: Registration?
  private var timer: Registration?
  private var attempts = 0
  /// The next attempt, while it is still wanted.
  private var retry: Registration?

  /// Attempts when the link fails at once, as it does now and then: the peer missed the first packet.
  private static let attemptLimit = 3
  /// From an attempt that failed to the next one: bluetoothd 5.66 takes a peer away right after it has said that connecting failed, and an
  /// attempt that had begun by then was one on a peer that went away.
  private static let retryTime = Duration.milliseconds(500)
  /// More than bluetoothd and the kernel take.
  private static let connectTime = Duration.seconds(30)
  /// bluetoothd has 30 s for each question that it asks the peer. Core 5.4 Vol 3 Part F 3.3.3.
  static let answerTime = Duration.seconds(40)
  private static let resolveTime = Duration.seconds(60)
  /// From the moment at which the link is up to the answer of bluetoothd, which keeps an attempt going when the peer's own
  /// was faster.
  private static let crossingTime = Duration.seconds(2)
  /// At the end of a link bluetoothd takes away what the peer served, and says in the next moment that the link is gone.
  private static let endingTime = Duration.seconds(1)
  /// bluetoothd cuts a link two seconds after it was asked to.
  private static let disconnectTime = Duration.seconds(5)

  /// - Parameters:
  ///   - id: that of the link with the peer, or a new one, which the link will have.
  ///   - device: as bluetoothd describes the peer now.
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

  /// How much may wait in its sockets.
  var backlog: Backlog { central?.backlog(of: device) ?? .short }

  /// Whether its link is being cut.
  var isEnding: Bool { if case .disconnecting = state { true } else { false } }

  // MARK: Beginning

  func start() {
    let changed = SignalMatch(
      sender: BlueZName.service, pathNamespace: device, interface: BlueZName.properties, member: "PropertiesChanged",
      arg0: BlueZName.gattCharacteristic)
    signals = bus.subscribe(changed) { [weak self] in self?.valueChanged($0) }
    guard isShared else { return connect() }
    // Never from within a call of the service.
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
      // The attempt is somebody else's, and so is its end.
      case .failure(let error) where error.name == BlueZName.Failure.inProgress:
        refuse(CentralWords.connecting(to: address, within: Self.connectTime, error))
      case .failure(let error): fail(CentralWords.connecting(to: address, within: Self.connectTime, error))
      }
    }
  }

  /// Both ends may begin at the same moment. Then the link is the peer's, and bluetoothd goes on with an attempt of which
  /// nothing comes: the link that is there is used.
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

  /// bluetoothd told something of the peer.
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

  /// bluetoothd has taken away a characteristic. Where the link goes on, for the peer serves something else now or bluetoothd
  /// was restarted and has read it anew, what this connection knows of the peer is of no use any more.
  func removed(characteristic path: ObjectPath) {
    guard state == .open, subscriptions[path] != nil || streams[path] != nil, timer == nil else { return }
    timer = scheduler.schedule(after: Self.endingTime) { [weak self] in
      guard let self else { return }
      fail(CentralWords.changed(address))
    }
  }

  // MARK: The end

  func linkEnded() { lost("The link to \(address) was lost.") }

  /// The peer, the adapter or bluetoothd is gone.
  func lost(_ reason: String) {
    if case .disconnecting(let reason) = state { close(reason) } else { close(reason) }
  }

  /// Ends it before it began.
  func refuse(_ reason: String) {
    close(reason, isLinkEnding: false)
  }

  /// The service is done with it.
  func disconnect() {
    giveUp("Disconnected.")
  }

  /// Gives it up, for a reason of ours.
  func fail(_ reason: String) {
    guard state == .connecting || state == .open else { return }
    Log.shared.debug("The link is given up: \(reason)", .link(id))
    giveUp(reason)
  }

  /// bluetoothd goes by what the peer served at an earlier time, and would at each link that comes: it has the peer taken away, and with
  /// that its link, whoever made that. Where that has not helped, a link of which the peer makes use stays, without this connection.
  ///
  /// - Returns: false where a person has bound the peer.
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

  /// Ends the use of a link that stays up.
  private func leave(_ reason: String) {
    central?.owe(self)
    close(reason, isLinkEnding: false)
  }

  /// Also where the link has ended: bluetoothd keeps a subscription for half a minute, and a peer that comes back in that time
  /// would notify what nobody here expects, rather than write it.
  private func endSubscriptions() {
    for path in subscriptions.keys.sorted(by: { $0.string < $1.string })
    where central?.isSubscribed(path, beside: self) != true {
      bus.call(place.owner, path, BlueZName.gattCharacteristic, "StopNotify") { _ in }
    }
    subscriptions = [:]
  }

  /// Has bluetoothd cut the link.
  func cut(_ reason: String) {
    end(reason)
    timer = scheduler.schedule(after: Self.disconnectTime) { [weak self] in self?.close(reason) }
    bus.call(place.owner, device, BlueZName.device, "Disconnect") { [weak self] result in
      if case .failure(let error) = result { Log.shared.debug("Disconnect was answered with \(error)") }
      self?.close(reason)
    }
    central?.forget(self)
  }

  /// The link is being cut.
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
    // Never from within a call of the service.
    EventLoop.shared.soon { [self] in
      handler?(.disconnected(reason: reason))
      handler = nil
    }
  }

  // MARK: Telling

  func tell(_ event: LinkEvent) {
    guard state == .open else { return }
    handler?(event)
  }

  func tell(_ events: [LinkEvent]) {
    for event in events { tell(event) }
  }
}
