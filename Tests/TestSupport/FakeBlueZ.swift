import DBus
import Loop
import Radio

/// A simulated bluetoothd: it owns org.bluez on a private bus, accepts registrations like the real one, and simulates
/// phones that connect, write and subscribe.
@LoopActor
public final class FakeBlueZ {
  /// A value that was sent to a subscribed client.
  public struct Notification: Hashable, Sendable {
    public var uuid: String
    public var value: [UInt8]
    /// Nil for an unknown client.
    public var client: ObjectPath?
    /// Whether the client asked for indications.
    public var isIndication = false
  }

  /// Whether bluetoothd behaves like version 5.76 or later, which requests a socket for each subscriber. Earlier
  /// versions send each value to all subscribers.
  public let keepsClientsApart: Bool

  /// The adapters by name: `hci0`.
  public internal(set) var adapters: [String: FakeAdapter] = [:]
  public internal(set) var devices: [ObjectPath: FakeDevice] = [:]
  /// The connectable peers by the path of their device object, which may not exist yet.
  public internal(set) var peers: [ObjectPath: FakePeer] = [:]
  /// The unique names of the programs that discover on each adapter.
  public internal(set) var discoverers: [String: Set<String>] = [:]
  /// Adapters whose controllers have stopped scanning while bluetoothd believes that they scan.
  var stoppedScans: Set<String> = []
  /// The filters that clients set.
  public internal(set) var filters: [String: [String: DBusValue]] = [:]
  public internal(set) var applications: [FakeApplication] = []
  /// Whether requested disconnections are completed only by `endCuts`.
  public var holdsCuts = false
  /// The errors of the next disconnections, in order.
  public var cutRefusals: [DBusError] = []
  var heldCuts: [MethodCall] = []
  /// Number of clients' writes through a socket.
  public internal(set) var writesBySocket = 0
  /// The last handle assigned on each adapter; no handle is assigned twice, unless it is requested.
  var lastHandles: [String: UInt16] = [:]
  /// The registered advertisements.
  public internal(set) var advertisements: [FakeAdvertisement] = []
  /// Calls with their arguments: `RegisterApplication hci0 /org/earshot/gatt0`.
  public let calls = Mailbox<String>()
  /// The values that subscribed clients received.
  public let notified = Mailbox<Notification>()
  /// Values that were broadcast as a signal to every program on the bus.
  public internal(set) var broadcasts: [Notification] = []
  /// The sockets for values, by client and characteristic.
  var sockets: [SocketKey: PacketSocket] = [:]
  /// The keys of the sockets, in the order of subscription.
  var socketOrder: [SocketKey] = []
  /// The sockets for writes, by client and characteristic.
  var writers: [SocketKey: PacketSocket] = [:]
  /// Clients whose sockets for writes are replaced at the next write.
  var renewed: Set<SocketKey> = []
  /// Whether values are left in the sockets until `takeValues()`.
  public var leavesValues = false
  /// The errors of the next registrations, in order.
  public var refusals: [DBusError] = []
  /// Whether replies to registrations are held back until `releaseAnswers()`.
  public var holdsAnswers = false
  /// Sockets that bluetoothd received and never reads.
  var unread: [PacketSocket] = []
  /// Whether bluetoothd answers `GetManagedObjects` with the error `Failed`.
  public var isSilent = false
  /// Whether queries of properties fail with `NoReply`, as the bus answers for a program that does not.
  public var keepsProperties = false
  /// Whether all calls fail with `NoReply`, as the bus answers for a program that hangs.
  public var standsStill = false
  /// Number of received pings.
  public private(set) var pings = 0

  public internal(set) var held: [@LoopActor () -> Void] = []
  /// Called with each value that a subscribed client receives.
  public var onNotified: @LoopActor (Notification) -> Void = { _ in }

  /// The profiles that programs have registered.
  public internal(set) var profiles: [FakeProfile] = []
  var profileManager: ExportedObject?

  private(set) var connection: BusConnection
  private let address: BusAddress
  private var registrations: [Registration] = []
  private var clients: [String: Registration] = [:]
  private let lookout = Lookout()

  /// Before `start()` org.bluez has no owner.
  public init(_ bus: PrivateBus, keepsClientsApart: Bool = false) {
    self.keepsClientsApart = keepsClientsApart
    address = .address(bus.address)
    connection = BusConnection(address: address)
  }

  // MARK: Start and end of bluetoothd

  /// Starts the simulated bluetoothd with the adapters that it had before it ended.
  public func start() async throws {
    connection = BusConnection(address: address)
    connection.objects.exportManager(.root)
    connection.objects.authorize = { [weak self] call in
      guard let self else { return nil }
      if call.member == "Ping" {
        pings += 1
        tell("pinged")
      }
      if standsStill { return DBusError(.noReply, "Nobody answered.") }
      if isSilent, call.member == "GetManagedObjects" { return .failed("I am not well.") }
      return keepsProperties && call.member == "Get" ? DBusError(.noReply, "Nobody answered.") : nil
    }
    exportProfiles()
    for name in adapters.keys.sorted() { export(name) }
    for path in devices.keys { exportDevice(path) }
    connection.connect(name: "org.bluez")
    try await connection.ready()
    let changed = SignalMatch(
      interface: "org.freedesktop.DBus.Properties", member: "PropertiesChanged",
      arg0: "org.bluez.GattCharacteristic1")
    registrations = [connection.subscribe(changed) { [weak self] in self?.changed($0) }]
  }

  /// Ends the simulated bluetoothd as a crash does: all registrations and connections are lost.
  public func vanish() {
    connection.close()
    registrations = []
    clients = [:]
    held = []
    applications = []
    profiles = []
    lastHandles = [:]
    dropSockets()
    advertisements = []
    discoverers = [:]
    stoppedScans = []
    filters = [:]
    for path in devices.keys { removeDevice(path) }
    for name in adapters.keys {
      let objects = adapters[name]?.objects ?? []
      adapters[name]?.objects = []
      for object in objects { object.exported.cancel() }
    }
  }

  /// Ends the simulated bluetoothd in an orderly way: it first releases the registered advertisements.
  public func stop() async throws {
    for advertisement in advertisements { try await release(advertisement) }
    vanish()
  }

  /// Notifies an advertisement of its release.
  public func release(_ advertisement: FakeAdvertisement) async throws {
    advertisements.removeAll { $0.path == advertisement.path }
    countAdvertisements(advertisement.adapter)
    _ = try await connection.call(
      advertisement.owner, advertisement.path, "org.bluez.LEAdvertisement1", "Release")
  }

  // MARK: Adapters

  /// - Parameters:
  ///   - isComplete: whether it has its managers at once, or only with `completeAdapter`.
  ///   - powerState: the value of `PowerState`; nil for a bluetoothd without that property.
  public func addAdapter(
    _ name: String = "hci0", isPowered: Bool = true, roles: [String] = ["central", "peripheral"],
    isComplete: Bool = true, powerState: String? = nil
  ) {
    let number = adapters.count
    adapters[name] = FakeAdapter(address: "00:AA:01:0\(number):00:0\(number)", isPowered: isPowered, roles: roles)
    adapters[name]?.isComplete = isComplete
    adapters[name]?.powerState = powerState
    export(name)
  }

  public func completeAdapter(_ name: String = "hci0") {
    adapters[name]?.isComplete = true
    exportManagers(name)
  }

  public func removeAdapter(_ name: String = "hci0") {
    for path in devices.keys where path.isWithin(adapterPath(name)) { removeDevice(path) }
    applications.removeAll { $0.adapter == name }
    lastHandles[name] = nil
    dropSockets()
    advertisements.removeAll { $0.adapter == name }
    discoverers[name] = nil
    let adapter = adapters.removeValue(forKey: name)
    for object in adapter?.objects ?? [] { object.exported.cancel() }
    tell("removed \(name)")
  }

  /// - Parameter areLinksFirst: whether disconnections are signalled before the adapter's change.
  public func power(_ name: String = "hci0", _ isPowered: Bool, areLinksFirst: Bool = true) {
    if areLinksFirst { endLinks(of: name) }
    adapters[name]?.isPowered = isPowered
    if !isPowered { discoverers[name] = nil }
    for object in adapters[name]?.objects ?? [] where object.has("Powered") { object.exported.changed("Powered") }
    if !areLinksFirst { endLinks(of: name) }
    for index in advertisements.indices where advertisements[index].adapter == name {
      advertisements[index].isOnAir = false
    }
    tell("power \(name) \(isPowered)")
  }

  /// Changes the `PowerState` of an adapter that has one.
  public func setPowerState(_ name: String = "hci0", _ state: String) {
    adapters[name]?.powerState = state
    for object in adapters[name]?.objects ?? [] where object.has("PowerState") { object.exported.changed("PowerState") }
    tell("power state \(name) \(state)")
  }

  private func endLinks(of name: String) {
    for (path, device) in devices where device.isConnected && path.isWithin(adapterPath(name)) {
      setConnected(path, false)
    }
  }

  /// Sets the number of advertisements of other programs.
  public func setActiveInstances(_ count: UInt8, on name: String = "hci0") {
    adapters[name]?.activeInstances = count
    countAdvertisements(name)
  }

  /// Signals the numbers of active and free advertising instances.
  func countAdvertisements(_ name: String) {
    for object in adapters[name]?.objects ?? [] where object.has("ActiveInstances") {
      object.exported.changed("ActiveInstances", "SupportedInstances")
    }
  }

  /// The number of advertisements of all programs.
  func activeInstances(_ name: String) -> UInt8 {
    let registered = advertisements.count { $0.adapter == name && !$0.values.isEmpty }
    return (adapters[name]?.activeInstances ?? 0) + UInt8(clamping: registered)
  }

  // MARK: Devices

  /// Adds a peer that bluetoothd knows; by default it has just connected.
  @discardableResult
  public func addDevice(
    _ address: String = "00:AA:02:00:00:01", on adapter: String = "hci0", isConnected: Bool = true,
    isPaired: Bool = false
  ) -> ObjectPath {
    let path = devicePath(address, on: adapter)
    devices[path] = FakeDevice(address: address, isConnected: isConnected, isPaired: isPaired)
    exportDevice(path)
    if isConnected { silence(adapter) }
    return path
  }

  /// Pairs a peer, and signals its identity address. The path of its device object still contains the first address.
  public func identify(_ device: ObjectPath, as address: String) {
    devices[device]?.address = address
    devices[device]?.isPaired = true
    for property in ["Address", "Paired"] { devices[device]?.object?.changed(property) }
  }

  public func devicePath(_ address: String, on adapter: String = "hci0") -> ObjectPath {
    adapterPath(adapter).child("dev_" + address.split(separator: ":").joined(separator: "_"))
  }

  /// - Parameter isOutgoing: whether the adapter initiated the link.
  public func setConnected(_ device: ObjectPath, _ isConnected: Bool, isOutgoing: Bool = false) {
    devices[device]?.isConnected = isConnected
    if peers[device]?.isNeverTold != true {
      devices[device]?.object?.changed("Connected")
    } else if !isConnected, peers[device]?.isEndUntold != true {
      // bluetoothd signals the disconnection, although it never signalled the connection.
      signal(["Connected": .bool(false)], of: device)
    }
    if !isConnected {
      unresolve(device)
      endSubscriptions(of: device)
    }
    if isConnected, !isOutgoing { silence(device.parent?.lastElement ?? "") }
    tell("\(device.lastElement) \(isConnected ? "connected" : "disconnected")")
  }

  public func removeDevice(_ device: ObjectPath) {
    // The device is removed from `devices` before the signals are sent, because their values are read from there.
    let wasConnected = devices[device]?.isConnected == true
    unresolve(device)
    endSubscriptions(of: device)
    let removed = devices.removeValue(forKey: device)
    peers[device]?.isOutdated = false
    removed?.object?.cancel()
    if wasConnected { peers[device]?.onDisconnect() }
    tell("removed \(device.lastElement)")
  }

  /// Makes the controller end the advertising sets through which a peer connected.
  private func silence(_ adapter: String) {
    for index in advertisements.indices where advertisements[index].adapter == adapter {
      advertisements[index].isOnAir = false
    }
  }

  func adapterPath(_ name: String) -> ObjectPath { ("/org/bluez" as ObjectPath).child(name) }

  // MARK: Waiting

  /// Waits until `condition` holds, checking it at each event.
  public func until(_ condition: @escaping @LoopActor () -> Bool) async throws {
    try await lookout.until(condition)
  }

  /// Makes `until` check its condition, because an event occurred here or in another simulated part of the test.
  public func tell(_ event: String) {
    lookout.tell(event)
  }

  /// Watches a program on the bus, and removes its registrations when it disconnects.
  func follow(_ client: String) {
    guard clients[client] == nil else { return }
    clients[client] = connection.watchName(client) { [weak self] owner in
      guard let self, owner == nil else { return }
      applications.removeAll { $0.owner == client }
      advertisements.removeAll { $0.owner == client }
      profiles.removeAll { $0.owner == client }
      for adapter in adapters.keys { countAdvertisements(adapter) }
      for adapter in discoverers.keys { discoverers[adapter]?.remove(client) }
      tell("left \(client)")
    }
  }

  /// Signals any properties of a peer.
  public func signal(_ properties: [String: DBusValue], of device: ObjectPath) {
    emit(
      device, "org.freedesktop.DBus.Properties", "PropertiesChanged",
      [.string("org.bluez.Device1"), .options(properties), .strings([])])
  }

  /// Sends any signal as bluetoothd.
  public func emit(_ path: ObjectPath, _ interface: String, _ signal: String, _ arguments: [DBusValue]) {
    connection.emit(path, interface, signal, arguments)
  }

  /// Sends the replies that were held back, and holds back no later ones.
  public func releaseAnswers() {
    holdsAnswers = false
    let answers = held
    held = []
    for answer in answers { answer() }
  }
}
