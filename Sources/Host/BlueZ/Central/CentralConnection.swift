import Common
import DBus
import Journal
import Loop
import Radio

/// A link that we make to a peer, from the attempt to its end: bluetoothd is asked to connect, finds out by itself what
/// the peer serves, and shows it as objects.
@LoopActor
final class CentralConnection {
  enum State: Equatable {
    case connecting
    case open
    /// With what will be said of it.
    case disconnecting(reason: String)
    case closed
  }

  let id = LinkTable.newID()
  let place: Place
  let device: ObjectPath
  let address: BluetoothAddress
  let bus: BusConnection
  let counters: BlueZCounters
  private(set) var state = State.connecting
  var window = WriteWindow()
  var database: RemoteDatabase?
  /// Whether the database was read for an operation that asked for nothing but that.
  var isDatabaseNew = false
  var isReading = false
  var mtu = ATTValue.firstMTU
  /// The characteristics whose values were asked for, by where they are.
  var subscriptions: [ObjectPath: CharacteristicID] = [:]
  var isResolved = false
  /// Whether somebody has bound the peer to this machine, who wants it kept.
  private(set) var isBound: Bool

  /// Whether bluetoothd has said that the peer is connected: 5.82 now and then answers first, and tells other things before.
  private var isConnectionTold: Bool
  private let scheduler: any Scheduler
  private let isShared: Bool
  private let onCut: @LoopActor (CentralConnection) -> Void
  private let onClosed: @LoopActor (CentralConnection) -> Void
  private var handler: (@LoopActor (LinkEvent) -> Void)?
  private var signals: Registration?
  private var timer: Registration?
  private var attempts = 0

  /// Attempts when the link fails at once, as it does now and then: the peer missed the first packet.
  private static let attemptLimit = 3
  /// More than bluetoothd and the kernel take.
  private static let connectTime = Duration.seconds(30)
  /// bluetoothd has 30 s for each question that it asks the peer. Core 5.4 Vol 3 Part F 3.3.3.
  static let answerTime = Duration.seconds(40)
  private static let resolveTime = Duration.seconds(60)
  /// bluetoothd cuts a link two seconds after it was asked to.
  private static let disconnectTime = Duration.seconds(5)

  /// - Parameters:
  ///   - device: as bluetoothd describes the peer now. One that is connected already is somebody else's: it is used, and
  ///     not cut in the end.
  ///   - onCut: called once, when bluetoothd was asked to cut the link, or the link has ended by itself.
  ///   - onClosed: called once, when the link has ended and before that is told.
  init(
    to device: Device, at place: Place, on bus: BusConnection, scheduler: any Scheduler, counters: BlueZCounters,
    handler: @escaping @LoopActor (LinkEvent) -> Void, onCut: @escaping @LoopActor (CentralConnection) -> Void,
    onClosed: @escaping @LoopActor (CentralConnection) -> Void
  ) {
    self.place = place
    self.device = device.path
    self.bus = bus
    self.scheduler = scheduler
    self.counters = counters
    self.handler = handler
    self.onCut = onCut
    self.onClosed = onClosed
    address = device.address
    isShared = device.isConnected
    isConnectionTold = device.isConnected
    isResolved = device.isConnected && device.isResolved
    isBound = device.isPaired || device.isTrusted
  }

  /// Whether it is ours to cut, and to be forgotten by bluetoothd.
  var isOwn: Bool { !isShared }

  // MARK: Beginning

  func start() {
    let changed = SignalMatch(
      sender: BlueZName.service, pathNamespace: device, interface: BlueZName.properties, member: "PropertiesChanged",
      arg0: BlueZName.gattCharacteristic)
    signals = bus.subscribe(changed) { [weak self] in self?.valueChanged($0) }
    connect()
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
        connect()
      case .failure(let error): fail(CentralWords.connecting(to: address, within: Self.connectTime, error))
      }
    }
  }

  private func opened() {
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
      isConnectionTold = device.isConnected
      isResolved = device.isConnected && device.isResolved
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

  // MARK: The end

  /// The peer, the adapter or bluetoothd is gone.
  func lost(_ reason: String) {
    if case .disconnecting(let reason) = state { close(reason) } else { close(reason) }
  }

  /// Ends it before it began.
  func refuse(_ reason: String) {
    close(reason)
  }

  func disconnect() {
    guard state == .connecting || state == .open else { return }
    cut("Disconnected.")
  }

  /// Gives the link up, for a reason of ours.
  func fail(_ reason: String) {
    guard state == .connecting || state == .open else { return }
    Log.shared.debug("The link is given up: \(reason)", .link(id))
    cut(reason)
  }

  private func cut(_ reason: String) {
    state = .disconnecting(reason: reason)
    window.removeAll()
    guard isOwn else {
      for path in subscriptions.keys.sorted(by: { $0.string < $1.string }) {
        bus.call(place.owner, path, BlueZName.gattCharacteristic, "StopNotify") { _ in }
      }
      return close(reason)
    }
    timer = scheduler.schedule(after: Self.disconnectTime) { [weak self] in self?.close(reason) }
    bus.call(place.owner, device, BlueZName.device, "Disconnect") { [weak self] result in
      if case .failure(let error) = result { Log.shared.debug("Disconnect was answered with \(error)") }
      self?.close(reason)
    }
    onCut(self)
  }

  private func close(_ reason: String) {
    guard state != .closed else { return }
    let isCut = if case .disconnecting = state { true } else { false }
    state = .closed
    if !isCut { onCut(self) }
    window.removeAll()
    signals = nil
    timer = nil
    database = nil
    subscriptions = [:]
    onClosed(self)
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
