import Common
import DBus
import Journal
import Loop
import Radio

/// The state of bluetoothd on the bus: whether it runs, its adapters, and its peers.
@LoopActor
final class BluetoothDaemon {
  enum Presence: Equatable {
    /// It is unknown whether bluetoothd runs, because the bus has not answered or is not connected.
    case unknown
    case absent
    /// bluetoothd runs, and its objects have been requested.
    case asking
    /// bluetoothd runs and does not answer; the request is repeated.
    case silent
    case present
  }

  private(set) var presence = Presence.unknown
  /// The unique bus name of bluetoothd while it runs.
  private(set) var owner: String?
  private(set) var adapters: [ObjectPath: Adapter] = [:]
  private(set) var devices: [ObjectPath: Device] = [:]
  /// Called before each signal from bluetoothd is handled.
  var onSignal: @LoopActor () -> Void = {}
  /// Called when `presence` or `adapters` changed.
  var onChange: @LoopActor () -> Void = {}
  /// Called when a peer's `Connected` changed; not for peers that were connected at the first request.
  var onDevice: @LoopActor (_ device: Device, _ wasConnected: Bool) -> Void = { _, _ in }
  /// Called for each signal about a peer after the first request: with the peer's present state, the changed
  /// properties, and whether the peer is new.
  var onReport: @LoopActor (_ device: Device, _ properties: [String: DBusValue], _ isNew: Bool) -> Void = { _, _, _ in }
  /// Called when bluetoothd has removed a peer.
  var onRemoved: @LoopActor (ObjectPath) -> Void = { _ in }
  /// Called when bluetoothd has removed a characteristic of a peer.
  var onCharacteristicRemoved: @LoopActor (ObjectPath) -> Void = { _ in }

  private let bus: BusConnection
  private let scheduler: any Scheduler
  private let counters: BlueZCounters
  private var registrations: [Registration] = []
  private var retry: Registration?
  private var backoff = Backoff()
  private let starter: DaemonStarter?

  /// Maximum adapters; further ones are ignored.
  private static let adapterLimit = 64
  private static let timeLimit = Duration.seconds(10)
  private let deviceLimit: Int

  /// - Parameters:
  ///   - starts: whether to ask the bus to start bluetoothd if it does not run.
  ///   - deviceLimit: maximum peers; beyond it each new peer replaces one that is neither connected nor paired.
  init(
    _ bus: BusConnection, scheduler: any Scheduler, counters: BlueZCounters, starts: Bool, deviceLimit: Int = 4096
  ) {
    self.deviceLimit = deviceLimit
    self.bus = bus
    self.scheduler = scheduler
    self.counters = counters
    starter = starts ? DaemonStarter(scheduler) { [weak bus] in bus?.startBluetoothDaemon($0) } : nil
  }

  /// Whether bluetoothd has sent the call.
  func isCaller(of call: MethodCall) -> Bool { owner != nil && call.sender == owner }

  func start() {
    func subscribe(_ match: SignalMatch, _ take: @escaping @LoopActor (BluetoothDaemon, Message) -> Void) {
      registrations.append(
        bus.subscribe(match) { [weak self] message in
          // Changes that bluetoothd signalled before its answer are contained in the answer.
          guard let self, presence == .present else { return }
          onSignal()
          take(self, message)
        })
    }
    let manager = SignalMatch(sender: BlueZName.service, path: .root, interface: BlueZName.objectManager)
    var added = manager
    added.member = "InterfacesAdded"
    subscribe(added) { $0.interfacesAdded($1) }
    var removed = manager
    removed.member = "InterfacesRemoved"
    subscribe(removed) { $0.interfacesRemoved($1) }
    for interface in [BlueZName.adapter, BlueZName.advertisingManager, BlueZName.device] {
      let changed = SignalMatch(
        sender: BlueZName.service, pathNamespace: BlueZName.root, interface: BlueZName.properties,
        member: "PropertiesChanged", arg0: interface)
      subscribe(changed) { $0.propertiesChanged($1) }
    }
    // Each new connection to the bus is reported, so that a bus without bluetoothd is asked to start it.
    registrations.append(bus.watchName(BlueZName.service, hearsEachBus: true) { [weak self] in self?.ownerChanged($0) })
    registrations.append(bus.onState { [weak self] in self?.busChanged($0) })
  }

  // MARK: Start and stop of bluetoothd

  private func busChanged(_ state: BusState) {
    switch state {
    case .lost, .closed:
      starter?.end()
      forget(.unknown)
    case .connecting, .connected, .nameUnavailable: onChange()
    }
  }

  private func ownerChanged(_ owner: String?) {
    forget(bus.uniqueName == nil ? .unknown : .absent)
    self.owner = owner
    if presence == .absent, owner == nil { starter?.begin() } else { starter?.end() }
    guard owner != nil else { return }
    backoff.reset()
    ask()
  }

  private func forget(_ presence: Presence) {
    retry = nil
    owner = nil
    adapters = [:]
    devices = [:]
    enter(presence)
  }

  private func enter(_ presence: Presence) {
    self.presence = presence
    onChange()
  }

  private func ask() {
    guard let owner else { return }
    if presence != .silent { enter(.asking) }
    // The call uses the unique name, so that it does not start bluetoothd: `DaemonStarter` does that if permitted,
    // after its delay.
    bus.call(owner, .root, BlueZName.objectManager, "GetManagedObjects", timeout: Self.timeLimit) {
      [weak self] result in
      guard let self, self.owner == owner else { return }
      switch result {
      case .success(let values): answered(values)
      case .failure(let error): unanswered(error)
      }
    }
  }

  private func unanswered(_ error: DBusError) {
    Log.shared.debug("bluetoothd did not return its objects: \(error)")
    enter(.silent)
    retry = scheduler.schedule(after: backoff.next()) { [weak self] in self?.ask() }
  }

  private func answered(_ values: [DBusValue]) {
    starter?.succeeded()
    for (path, interfaces) in values.first?.asDictionary ?? [:] {
      guard let path = ObjectPath(path), let interfaces = interfaces.asDictionary else {
        counters.malformed += 1
        continue
      }
      takeAdapter(path, interfaces)
      if let properties = interfaces[BlueZName.device] { _ = takeDevice(path, properties) }
    }
    enter(.present)
  }

  // MARK: Signals

  private func interfacesAdded(_ message: Message) {
    guard message.arguments.count == 2, let path = message.arguments[0].asObjectPath,
      let interfaces = message.arguments[1].asDictionary
    else {
      counters.malformed += 1
      return
    }
    if takeAdapter(path, interfaces) { onChange() }
    let wasConnected = devices[path]?.isConnected ?? false
    guard let properties = interfaces[BlueZName.device], let device = takeDevice(path, properties) else { return }
    if device.isConnected { onDevice(device, wasConnected) }
    onReport(device, properties.asDictionary ?? [:], true)
  }

  private func interfacesRemoved(_ message: Message) {
    guard message.arguments.count == 2, let path = message.arguments[0].asObjectPath,
      let interfaces = message.arguments[1].asStrings
    else {
      counters.malformed += 1
      return
    }
    if interfaces.contains(BlueZName.device) { removeDevice(path) }
    if interfaces.contains(BlueZName.gattCharacteristic) { onCharacteristicRemoved(path) }
    guard var adapter = adapters[path] else { return }
    if interfaces.contains(BlueZName.gattManager) { adapter.hasGATTManager = false }
    if interfaces.contains(BlueZName.advertisingManager) { adapter.hasAdvertisingManager = false }
    let isGone = interfaces.contains(BlueZName.adapter)
    guard isGone || adapter != adapters[path] else { return }
    adapters[path] = isGone ? nil : adapter
    if isGone { for device in devices.keys where device.isWithin(path) { removeDevice(device) } }
    onChange()
  }

  private func propertiesChanged(_ message: Message) {
    guard let path = message.path, message.arguments.count == 3,
      let changed = message.arguments[1].asDictionary
    else {
      counters.malformed += 1
      return
    }
    let interface = message.arguments[0].asString
    if interface == BlueZName.adapter || interface == BlueZName.advertisingManager {
      guard var adapter = adapters[path] else { return }
      counters.malformed += interface == BlueZName.adapter ? adapter.apply(changed) : adapter.applyAdvertising(changed)
      guard adapter != adapters[path] else { return }
      adapters[path] = adapter
      onChange()
    } else {
      let wasConnected = devices[path]?.isConnected ?? false
      guard let device = takeDevice(path, message.arguments[1]) else { return }
      if device.isConnected != wasConnected || changed["Connected"] != nil { onDevice(device, wasConnected) }
      onReport(device, changed, false)
    }
  }

  // MARK: Adapters and devices

  /// Adds or updates an adapter.
  ///
  /// - Returns: whether the adapters changed.
  @discardableResult
  private func takeAdapter(_ path: ObjectPath, _ interfaces: [String: DBusValue]) -> Bool {
    let isNew = interfaces[BlueZName.adapter] != nil
    guard isNew || adapters[path] != nil, path.parent == BlueZName.root else { return false }
    var adapter = adapters[path] ?? Adapter(path)
    if let properties = interfaces[BlueZName.adapter] {
      counters.malformed += properties.asDictionary.map { adapter.apply($0) } ?? 1
    }
    if interfaces[BlueZName.gattManager] != nil { adapter.hasGATTManager = true }
    if let properties = interfaces[BlueZName.advertisingManager] {
      adapter.hasAdvertisingManager = true
      counters.malformed += properties.asDictionary.map { adapter.applyAdvertising($0) } ?? 1
    }
    guard adapter != adapters[path], adapters[path] != nil || adapters.count < Self.adapterLimit else { return false }
    adapters[path] = adapter
    return true
  }

  private func takeDevice(_ path: ObjectPath, _ properties: DBusValue) -> Device? {
    guard var device = devices[path] ?? Device(path), let properties = properties.asDictionary else {
      counters.malformed += 1
      return nil
    }
    counters.malformed += device.apply(properties)
    device.connectedSince = device.isConnected ? device.connectedSince ?? scheduler.now : nil
    if devices[path] == nil, devices.count >= deviceLimit {
      // An attacker with invented addresses must not exclude later peers. A peer that is not stored is still reported.
      guard let other = devices.first(where: { $0.value.isPassing }) else { return device }
      devices[other.key] = nil
    }
    devices[path] = device
    return device
  }

  /// Records a new link with a peer that bluetoothd reported as connected throughout.
  ///
  /// - Returns: nil if the peer is unknown.
  func connectedAgain(_ path: ObjectPath, since moment: Instant) -> Device? {
    devices[path]?.connectedSince = moment
    return devices[path]
  }

  /// Marks a peer as not connected without a signal from bluetoothd.
  func endedUnsignalled(_ path: ObjectPath) {
    devices[path]?.isConnected = false
    devices[path]?.connectedSince = nil
  }

  private func removeDevice(_ path: ObjectPath) {
    guard var device = devices.removeValue(forKey: path) ?? Device(path) else { return }
    let wasConnected = device.isConnected
    device.isConnected = false
    onDevice(device, wasConnected)
    onRemoved(path)
  }
}
