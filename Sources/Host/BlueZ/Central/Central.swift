import Common
import DBus
import Journal
import Loop
import Radio

/// The connections that the delegate requested: attempts, and uses of links as the GATT client.
@LoopActor
final class Central: LinkMaker {
  private let bus: BusConnection
  private let scheduler: any Scheduler
  private let counters: BlueZCounters
  private let daemon: BluetoothDaemon
  private let links: PeerLinks
  private let wasFound: @LoopActor (ObjectPath) -> Bool
  /// Properties of the ATT bearers of new connections. They depend on the versions of BlueZ at both ends.
  var bearers: Bearers
  private var place: Place?
  private var connections: [ObjectPath: [CentralConnection]] = [:]
  /// Peers that will be removed from bluetoothd when their links have ended, or when the adapter has returned.
  private var owed: Set<ObjectPath> = []

  /// Rate limits for `takeAway`, which removes a peer with its links because bluetoothd has an outdated database of it.
  private var takeAways: [ObjectPath: TokenBucket] = [:]

  /// Minimum time between two removals of one peer by `takeAway`.
  private static let takeAwayTime = Duration.seconds(60)
  /// Maximum number of peers with a rate limit for `takeAway`.
  private static let takeAwayPeers = 64
  /// Maximum connections; each may have `WriteWindow.commandLimit` unanswered calls.
  static let limit = 12

  /// - Parameter wasFound: whether bluetoothd knows a peer only from our discovery.
  init(
    _ bus: BusConnection, scheduler: any Scheduler, counters: BlueZCounters, daemon: BluetoothDaemon, links: PeerLinks,
    bearers: Bearers, wasFound: @escaping @LoopActor (ObjectPath) -> Bool
  ) {
    self.bus = bus
    self.scheduler = scheduler
    self.counters = counters
    self.daemon = daemon
    self.links = links
    self.wasFound = wasFound
    self.bearers = bearers
  }

  /// bluetoothd's description of a peer; nil if it does not know the peer.
  private func known(_ device: ObjectPath) -> Device? { daemon.devices[device] }

  private var all: [CentralConnection] {
    connections.values.joined().sorted { $0.id.number < $1.id.number }
  }

  /// Whether an attempt of ours to connect to this peer is under way.
  func isConnecting(_ device: ObjectPath) -> Bool {
    connections[device]?.contains { $0.state == .connecting && !$0.isShared } ?? false
  }

  /// Whether a connection attempt of this service is under way.
  var isConnecting: Bool { connections.keys.contains { isConnecting($0) } }

  /// The number that the link of a connection attempt will have, if its peer has no entry in the table yet.
  func promised(_ device: ObjectPath) -> LinkID? { connections[device]?.first { $0.state == .connecting }?.id }

  // MARK: Reports of bluetoothd

  func aim(at place: Place?) {
    for connection in all where !connection.isShared && !connection.isBound && wasFound(connection.device) {
      owed.insert(connection.device)
    }
    self.place = place
    for connection in all { connection.lost("The Bluetooth adapter is gone.") }
    settleAll()
  }

  /// Removes the peers in `owed` whose links ended with the adapter, which has returned. Peers that bluetoothd no
  /// longer knows are dropped.
  private func settleAll() {
    guard let place else { return }
    owed = owed.filter { known($0) != nil && $0.isWithin(place.adapter) }
    for device in owed.compactMap({ known($0) }) where !device.isConnected { settle(device) }
  }

  func changed(_ device: Device) {
    for connection in connections[device.path] ?? [] { connection.changed(device) }
    if !device.isConnected { settle(device) }
  }

  /// Handles the end of the link with a peer, also of a peer that bluetoothd never reported as connected.
  func linkEnded(_ device: ObjectPath) {
    for connection in connections[device] ?? [] where connection.state == .open { connection.linkEnded() }
    if let device = known(device) { settle(device) }
  }

  /// Removes a peer from bluetoothd whose removal waited for the end of its link.
  private func settle(_ device: Device) {
    guard let place, links[device.path] == nil, connections[device.path] == nil, owed.remove(device.path) != nil,
      !device.isPaired, !device.isTrusted
    else { return }
    remove(device.path, at: place)
  }

  func removed(_ device: ObjectPath) {
    owed.remove(device)
    for connection in connections[device] ?? [] { connection.lost("bluetoothd has forgotten the peer.") }
  }

  /// Handles a characteristic of a peer that bluetoothd has removed.
  func removed(characteristic path: ObjectPath) {
    guard let device = path.parent?.parent else { return }
    for connection in connections[device] ?? [] { connection.removed(characteristic: path) }
  }

  // MARK: Connections

  /// Connects to a peer, or uses the existing link.
  ///
  /// - Throws: `RadioError.notReady` with too many connections.
  func connect(
    to address: BluetoothAddress, at place: Place, _ handler: @escaping @LoopActor (LinkEvent) -> Void
  ) throws(RadioError) -> any Link {
    let path = Device.path(of: address, at: place.adapter)
    let held = connections[path] ?? []
    guard connections.values.joined().count < Self.limit else {
      throw .notReady("The maximum of \(Self.limit) connections is reached.")
    }
    guard let device = known(path) ?? Device(path) else { throw .notReady("\(address) is not a Bluetooth address.") }
    let connection = CentralConnection(
      links[path]?.id ?? PeerLinks.newID(), to: device, at: place, on: bus, scheduler: scheduler, counters: counters,
      central: self, bearers: bearers, handler: handler)
    if held.contains(where: { $0.state == .connecting }) {
      connection.refuse("An attempt to connect to \(address) is already under way.")
    } else if held.contains(where: \.isEnding) {
      connection.refuse("The link to \(address) is being closed.")
    } else if known(path) == nil {
      connection.refuse("bluetoothd does not know \(address): it has not received the peer, or has forgotten it.")
    } else {
      connections[path] = held + [connection]
      connection.start()
    }
    return CentralLink(connection)
  }

  /// Adds the link of a connection to the table.
  ///
  /// - Returns: false if the table is full or the peer is unknown.
  func opened(_ connection: CentralConnection) -> Bool {
    guard links[connection.device] == nil else { return true }
    guard let device = known(connection.device) ?? Device(connection.device) else { return false }
    return links.open(device) != nil
  }

  /// Whether the end of a connection may end its link: an attempt of ours, or a link that we made and that has no other
  /// use here.
  func mayCut(_ connection: CentralConnection) -> Bool {
    guard connection.state == .open else {
      // The peer may have connected first, and the link is then the peer's.
      return !connection.isShared && links[connection.device]?.isUsed != true
    }
    let others = (connections[connection.device] ?? []).filter { $0 !== connection && $0.state == .open }
    return others.isEmpty && links[connection.device].map { $0.isMadeHere && !$0.isUsed } ?? !connection.isShared
  }

  /// Whether another connection is subscribed to the characteristic.
  func isSubscribed(_ path: ObjectPath, beside connection: CentralConnection) -> Bool {
    (connections[connection.device] ?? []).contains { $0 !== connection && $0.subscriptions[path] != nil }
  }

  /// Ends the link with a peer, if connections of ours use it.
  ///
  /// - Returns: false if none uses it.
  func cut(_ device: ObjectPath) -> Bool {
    guard let held = connections[device], !held.isEmpty else { return false }
    if let first = held.first(where: { $0.state == .open || $0.state == .connecting }) {
      for other in held where other !== first { other.end("Disconnected.") }
      first.cut("Disconnected.")
    }
    return true
  }

  /// The limit of bytes that wait in the sockets of a link.
  func backlog(of device: ObjectPath) -> Backlog { links[device]?.backlog ?? .short }

  /// Applies a changed backlog of a link to the sockets of its connections.
  func limitStreams(of link: PeerLink) {
    for connection in connections[link.device] ?? [] { connection.limitStreams(to: link.backlog) }
  }

  /// Whether a connection of ours is ending the link with a peer.
  func isEnding(_ device: ObjectPath) -> Bool { connections[device]?.contains(where: \.isEnding) == true }

  func closed(_ connection: CentralConnection) {
    guard let index = connections[connection.device]?.firstIndex(where: { $0 === connection }) else { return }
    connections[connection.device]?.remove(at: index)
    // Connections that waited for the same end are done.
    for other in connections[connection.device] ?? [] where other.isEnding { other.lost("") }
    if connections[connection.device]?.isEmpty == true { connections[connection.device] = nil }
  }

  /// Removes a peer from bluetoothd if only our discovery added it. bluetoothd otherwise stores every peer that a
  /// program connected to, with its database. The peer may serve something else the next time, and most peers connect
  /// once, under a temporary address.
  ///
  /// The function does not wait for the end of the link, which takes bluetoothd some seconds: the program may exit
  /// before.
  func forget(_ connection: CentralConnection) {
    guard !connection.isShared || links[connection.device]?.isMadeHere == true, !connection.isBound,
      wasFound(connection.device)
    else { return }
    takeAway(connection)
  }

  /// Schedules the removal of a peer for the end of a link that continues without the connection that added the peer.
  func owe(_ connection: CentralConnection) {
    guard !connection.isShared, connection.place == place, wasFound(connection.device) else { return }
    owed.insert(connection.device)
  }

  /// Whether to remove a peer of which bluetoothd has an outdated database. Counts as a removal if so. Release 5.66
  /// reads the database from its cache again if it has no name of the peer. A repeated removal would then only end
  /// the link.
  func mayTakeAway(_ device: ObjectPath) -> Bool {
    if takeAways[device] == nil, takeAways.count >= Self.takeAwayPeers { takeAways = [:] }
    return takeAways[device, default: TokenBucket(1, each: Self.takeAwayTime)].take(at: scheduler.now)
  }

  /// Removes a peer from bluetoothd, regardless of how bluetoothd learned of it.
  func takeAway(_ connection: CentralConnection) {
    guard connection.place == place else { return }
    owed.remove(connection.device)
    remove(connection.device, at: connection.place)
  }

  private func remove(_ device: ObjectPath, at place: Place) {
    bus.call(place.owner, place.adapter, BlueZName.adapter, "RemoveDevice", [.objectPath(device)]) {
      [weak self] result in
      guard case .failure(let error) = result else { return }
      Log.shared.debug("bluetoothd answered RemoveDevice with \(error)")
      // bluetoothd does not remove peers of an adapter that is off: the peer is removed when the adapter returns.
      if error.name == BlueZName.Failure.notReady { self?.owed.insert(device) }
    }
  }
}

/// Error texts of failed connections: bluetoothd's own messages, and their meanings.
enum CentralWords {
  static func connecting(to address: BluetoothAddress, within time: Duration, _ error: DBusError) -> String {
    if error.is(.timeout) {
      return "The connection to \(address) was not established within \(time.components.seconds) s."
    }
    if error.isOfGoneObject || error.name == BlueZName.Failure.doesNotExist {
      return "bluetoothd has forgotten \(address), which did not advertise for some time."
    }
    if error.is(.accessDenied) {
      return "The bus does not permit this program to connect: is its D-Bus policy installed? (\(error.message))"
    }
    switch error.name {
    case BlueZName.Failure.inProgress: return "Another program is already connecting to \(address)."
    case BlueZName.Failure.notReady:
      return "The Bluetooth adapter is switched off or blocked: earshot status shows what to do."
    default: return "Connecting to \(address) failed (\(error.message))."
    }
  }

  static func changed(_ address: BluetoothAddress) -> String {
    "bluetoothd no longer has the services of \(address): the peer has changed them, or bluetoothd has lost them."
  }

  /// Whether a handle that bluetoothd remembers no longer matches the peer's database. A characteristic that bluetoothd
  /// considers writable is not (Invalid Handle, Write Not Permitted; Core 5.4 Vol 3 Part F 3.4.1.1).
  static func isOfOldHandle(_ error: DBusError) -> Bool {
    if error.name == BlueZName.Failure.notPermitted { return error.message.lowercased().holds("write not permitted") }
    return error.name == BlueZName.Failure.failed && ATTError.code(in: error.message.lowercased()) == 0x01
  }

  /// Whether a link failed before it was established, so that another attempt may succeed. bluetoothd's messages for
  /// this are `le-connection-abort-by-local` and, in older versions, `Software caused connection abort`.
  static func isPassing(_ error: DBusError) -> Bool {
    error.name == BlueZName.Failure.failed
      && (error.message.holds("connection-abort") || error.message.holds("connection abort"))
  }
}
