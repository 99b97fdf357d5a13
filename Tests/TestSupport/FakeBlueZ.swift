import DBus
import Loop
import Radio

/// A bluetoothd of a test's own: it owns org.bluez on a private bus, takes registrations as the real one does, and plays
/// the phones that connect, write and subscribe.
@LoopActor
public final class FakeBlueZ {
  /// A value that went out to a client that had subscribed to a characteristic.
  public struct Notification: Hashable, Sendable {
    public var uuid: String
    public var value: [UInt8]
    /// Nil for a client that is not known.
    public var client: ObjectPath?
    /// Whether the client asked for indications.
    public var isIndication = false
  }

  /// Whether it is one from 5.76 on: it takes a socket for each client that subscribes. One before 5.76 takes none, and
  /// sends each value to all clients that subscribed.
  public let keepsClientsApart: Bool

  /// The adapters that there are, by name: `hci0`.
  public internal(set) var adapters: [String: FakeAdapter] = [:]
  public internal(set) var devices: [ObjectPath: FakeDevice] = [:]
  /// The peers that can be connected to, by where they are or will be.
  public internal(set) var peers: [ObjectPath: FakePeer] = [:]
  /// Who discovers, by adapter: the clients' unique names.
  public internal(set) var discoverers: [String: Set<String>] = [:]
  /// Adapters whose controllers have stopped scanning, while bluetoothd takes them for scanning.
  var stoppedScans: Set<String> = []
  /// The filters that clients set.
  public internal(set) var filters: [String: [String: DBusValue]] = [:]
  public internal(set) var applications: [FakeApplication] = []
  /// Whether links are cut at `endCuts` alone.
  public var holdsCuts = false
  /// What the next cuts are refused with, one after the other.
  public var cutRefusals: [DBusError] = []
  var heldCuts: [MethodCall] = []
  /// Writes of clients that went by a socket.
  public internal(set) var writesBySocket = 0
  /// The last handle that was given out on each adapter; none is given out twice, unless it is asked for.
  var lastHandles: [String: UInt16] = [:]
  /// The advertisements that are registered.
  public internal(set) var advertisements: [FakeAdvertisement] = []
  /// What was called, with its arguments: `RegisterApplication hci0 /org/earshot/gatt0`.
  public let calls = Mailbox<String>()
  /// The values that the subscribed clients heard.
  public let notified = Mailbox<Notification>()
  /// Values that came as a signal for every program on the bus.
  public internal(set) var broadcasts: [Notification] = []
  /// The sockets for values, by client and characteristic.
  var sockets: [SocketKey: PacketSocket] = [:]
  /// Whose they are, in the order in which they subscribed.
  var socketOrder: [SocketKey] = []
  /// The sockets of those who write, the same.
  var writers: [SocketKey: PacketSocket] = [:]
  /// Of which clients' sockets for writes another one takes the place with the next write.
  var renewed: Set<SocketKey> = []
  /// Whether the values in the sockets are left there until `takeValues()`.
  public var leavesValues = false
  /// What the next registrations are refused with, one after the other.
  public var refusals: [DBusError] = []
  /// Whether the answers to registrations are kept back until `releaseAnswers()`.
  public var holdsAnswers = false
  /// Sockets that it was given and does not read.
  var unread: [PacketSocket] = []
  /// Whether it is asked in vain what it has.
  public var isSilent = false
  /// Whether it is asked in vain how a property is.
  public var keepsProperties = false
  /// Whether it leaves all calls unanswered.
  public var standsStill = false
  /// Number of pings that it received.
  public private(set) var pings = 0

  public internal(set) var held: [@LoopActor () -> Void] = []
  /// Called with each value that the subscribed clients hear.
  public var onNotified: @LoopActor (Notification) -> Void = { _ in }

  private(set) var connection: BusConnection
  private let address: BusAddress
  private var registrations: [Registration] = []
  private var clients: [String: Registration] = [:]
  private let lookout = Lookout()

  /// Nobody owns org.bluez before `start()`.
  public init(_ bus: PrivateBus, keepsClientsApart: Bool = false) {
    self.keepsClientsApart = keepsClientsApart
    address = .address(bus.address)
    connection = BusConnection(address: address)
  }

  // MARK: Coming and going

  /// Comes to life, with the adapters that it had before.
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
    for name in adapters.keys.sorted() { export(name) }
    for path in devices.keys { exportDevice(path) }
    connection.connect(name: "org.bluez")
    try await connection.ready()
    let changed = SignalMatch(
      interface: "org.freedesktop.DBus.Properties", member: "PropertiesChanged",
      arg0: "org.bluez.GattCharacteristic1")
    registrations = [connection.subscribe(changed) { [weak self] in self?.changed($0) }]
  }

  /// Is gone at once, as after a crash, with all that was registered and connected.
  public func vanish() {
    connection.close()
    registrations = []
    clients = [:]
    held = []
    applications = []
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

  /// Ends as it does when it is stopped: it tells the advertisements before it goes.
  public func stop() async throws {
    for advertisement in advertisements { try await release(advertisement) }
    vanish()
  }

  /// Tells an advertisement that it was taken off the air.
  public func release(_ advertisement: FakeAdvertisement) async throws {
    advertisements.removeAll { $0.path == advertisement.path }
    countAdvertisements(advertisement.adapter)
    _ = try await connection.call(
      advertisement.owner, advertisement.path, "org.bluez.LEAdvertisement1", "Release")
  }

  // MARK: Adapters

  /// - Parameters:
  ///   - isComplete: whether it has its managers at once, or only with `completeAdapter`.
  ///   - powerState: what it says besides `Powered`; nil for a bluetoothd that has no such property.
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

  /// - Parameter areLinksFirst: whether the ends of its links are told before the adapter's.
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

  /// Other programs advertise.
  public func setActiveInstances(_ count: UInt8, on name: String = "hci0") {
    adapters[name]?.activeInstances = count
    countAdvertisements(name)
  }

  /// Tells how many advertisements there are, and how many more there may be.
  func countAdvertisements(_ name: String) {
    for object in adapters[name]?.objects ?? [] where object.has("ActiveInstances") {
      object.exported.changed("ActiveInstances", "SupportedInstances")
    }
  }

  /// The advertisements of all programs.
  func activeInstances(_ name: String) -> UInt8 {
    let registered = advertisements.count { $0.adapter == name && !$0.values.isEmpty }
    return (adapters[name]?.activeInstances ?? 0) + UInt8(clamping: registered)
  }

  // MARK: Devices

  /// A peer that bluetoothd knows; by default it has just connected.
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

  /// A peer pairs, and tells its identity address: its object keeps the path that it has by its first one.
  public func identify(_ device: ObjectPath, as address: String) {
    devices[device]?.address = address
    devices[device]?.isPaired = true
    for property in ["Address", "Paired"] { devices[device]?.object?.changed(property) }
  }

  public func devicePath(_ address: String, on adapter: String = "hci0") -> ObjectPath {
    adapterPath(adapter).child("dev_" + address.split(separator: ":").joined(separator: "_"))
  }

  /// - Parameter isOutgoing: whether the link was made from here.
  public func setConnected(_ device: ObjectPath, _ isConnected: Bool, isOutgoing: Bool = false) {
    devices[device]?.isConnected = isConnected
    if peers[device]?.isNeverTold != true {
      devices[device]?.object?.changed("Connected")
    } else if !isConnected, peers[device]?.isEndUntold != true {
      // bluetoothd signals the end, though it never signalled the beginning.
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
    // Taken out first: what it has to say yet, it reads from here.
    let wasConnected = devices[device]?.isConnected == true
    unresolve(device)
    endSubscriptions(of: device)
    let removed = devices.removeValue(forKey: device)
    peers[device]?.isOutdated = false
    removed?.object?.cancel()
    if wasConnected { peers[device]?.onDisconnect() }
    tell("removed \(device.lastElement)")
  }

  /// The controller ends the sets by which somebody connected.
  private func silence(_ adapter: String) {
    for index in advertisements.indices where advertisements[index].adapter == adapter {
      advertisements[index].isOnAir = false
    }
  }

  func adapterPath(_ name: String) -> ObjectPath { ("/org/bluez" as ObjectPath).child(name) }

  // MARK: Waiting

  /// Waits until `condition` holds, looking at it as each thing happens here.
  public func until(_ condition: @escaping @LoopActor () -> Bool) async throws {
    try await lookout.until(condition)
  }

  /// Something happened that a condition may be about, here or at what the test has beside bluetoothd.
  public func tell(_ event: String) {
    lookout.tell(event)
  }

  /// Forgets what a client registered when it leaves the bus.
  func follow(_ client: String) {
    guard clients[client] == nil else { return }
    clients[client] = connection.watchName(client) { [weak self] owner in
      guard let self, owner == nil else { return }
      applications.removeAll { $0.owner == client }
      advertisements.removeAll { $0.owner == client }
      for adapter in adapters.keys { countAdvertisements(adapter) }
      for adapter in discoverers.keys { discoverers[adapter]?.remove(client) }
      tell("left \(client)")
    }
  }

  /// Signals properties of a peer, whatever they are.
  public func signal(_ properties: [String: DBusValue], of device: ObjectPath) {
    emit(
      device, "org.freedesktop.DBus.Properties", "PropertiesChanged",
      [.string("org.bluez.Device1"), .options(properties), .strings([])])
  }

  /// Sends a signal as bluetoothd, whatever it says.
  public func emit(_ path: ObjectPath, _ interface: String, _ signal: String, _ arguments: [DBusValue]) {
    connection.emit(path, interface, signal, arguments)
  }

  /// Gives the answers that were kept back, and keeps no more.
  public func releaseAnswers() {
    holdsAnswers = false
    let answers = held
    held = []
    for answer in answers { answer() }
  }
}
