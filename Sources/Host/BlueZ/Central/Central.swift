import Common
import DBus
import Journal
import Loop
import Radio

/// The connections that the delegate asked for: attempts, and uses of links as their GATT client.
@LoopActor
final class Central {
  private let bus: BusConnection
  private let scheduler: any Scheduler
  private let counters: BlueZCounters
  private let links: LinkTable
  private let known: @LoopActor (ObjectPath) -> Device?
  private let open: @LoopActor (Device) -> LinkTable.Entry?
  private let wasFound: @LoopActor (ObjectPath) -> Bool
  /// What the versions at both ends make of the writes of connections that begin.
  var bearers: Bearers
  private var place: Place?
  private var connections: [ObjectPath: [CentralConnection]] = [:]
  /// Peers that bluetoothd keeps for a connection of ours that is over, while their links go on, or the adapter is away.
  private var owed: Set<ObjectPath> = []

  /// How often peers may still be taken away with their links, because bluetoothd has what they served before.
  private var takeAways: [ObjectPath: TokenBucket] = [:]

  /// Once in so long, and so many peers of which that is known.
  private static let takeAwayTime = Duration.seconds(60)
  private static let takeAwayPeers = 64
  /// Connections at one time; each may have `WriteWindow.commandLimit` calls unanswered.
  static let limit = 12

  /// - Parameters:
  ///   - known: what bluetoothd says of a peer; nil where it does not know it.
  ///   - open: enters the link with a peer in the table and tells of it; nil where there are too many.
  ///   - wasFound: whether bluetoothd knows a peer by our discovery alone.
  init(
    _ bus: BusConnection, scheduler: any Scheduler, counters: BlueZCounters, links: LinkTable, bearers: Bearers,
    known: @escaping @LoopActor (ObjectPath) -> Device?,
    open: @escaping @LoopActor (Device) -> LinkTable.Entry?, wasFound: @escaping @LoopActor (ObjectPath) -> Bool
  ) {
    self.bus = bus
    self.scheduler = scheduler
    self.counters = counters
    self.links = links
    self.known = known
    self.open = open
    self.wasFound = wasFound
    self.bearers = bearers
  }

  private var all: [CentralConnection] {
    connections.values.joined().sorted { $0.id.number < $1.id.number }
  }

  /// Whether an attempt of ours at a peer is under way.
  func isConnecting(_ device: ObjectPath) -> Bool {
    connections[device]?.contains { $0.state == .connecting && !$0.isShared } ?? false
  }

  /// Whether a connection attempt of this service is under way.
  var isConnecting: Bool { connections.keys.contains { isConnecting($0) } }

  /// The number that a connection of ours was given for the link with a peer, which has no entry in the table yet.
  func promised(_ device: ObjectPath) -> LinkID? { connections[device]?.first { $0.state == .connecting }?.id }

  // MARK: What bluetoothd tells

  func aim(at place: Place?) {
    for connection in all where !connection.isShared && !connection.isBound && wasFound(connection.device) {
      owed.insert(connection.device)
    }
    self.place = place
    for connection in all { connection.lost("The Bluetooth adapter is gone.") }
    settleAll()
  }

  /// Removes those whose links ended with the adapter, now that it is back. Peers that bluetoothd no longer knows are dropped.
  private func settleAll() {
    guard let place else { return }
    owed = owed.filter { known($0) != nil && $0.isWithin(place.adapter) }
    for device in owed.compactMap({ known($0) }) where !device.isConnected { settle(device) }
  }

  func changed(_ device: Device) {
    for connection in connections[device.path] ?? [] { connection.changed(device) }
    if !device.isConnected { settle(device) }
  }

  /// The link with a peer has ended, also where bluetoothd never called it connected.
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

  /// bluetoothd has taken away a characteristic of a peer.
  func removed(characteristic path: ObjectPath) {
    guard let device = path.parent?.parent else { return }
    for connection in connections[device] ?? [] { connection.removed(characteristic: path) }
  }

  // MARK: Connections

  /// Connects to a peer, or uses the link that there is.
  ///
  /// - Throws: `RadioError.notReady` with too many connections.
  func connect(
    to address: BluetoothAddress, at place: Place, _ handler: @escaping @LoopActor (LinkEvent) -> Void
  ) throws(RadioError) -> any Link {
    let path = Device.path(of: address, at: place.adapter)
    let held = connections[path] ?? []
    guard connections.values.joined().count < Self.limit else {
      throw .notReady("There are \(Self.limit) links already.")
    }
    guard let device = known(path) ?? Device(path) else { throw .notReady("\(address) is not an address.") }
    let connection = CentralConnection(
      links[path]?.id ?? LinkTable.newID(), to: device, at: place, on: bus, scheduler: scheduler, counters: counters,
      central: self, bearers: bearers, handler: handler)
    if held.contains(where: { $0.state == .connecting }) {
      connection.refuse("There is an attempt to connect to \(address) already.")
    } else if held.contains(where: \.isEnding) {
      connection.refuse("The link to \(address) is just being cut.")
    } else if known(path) == nil {
      connection.refuse("bluetoothd does not know \(address): it was not sighted, or is forgotten.")
    } else {
      connections[path] = held + [connection]
      connection.start()
    }
    return CentralLink(connection)
  }

  /// The link of a connection is up: it has an entry in the table from now on.
  ///
  /// - Returns: false where it cannot have one.
  func opened(_ connection: CentralConnection) -> Bool {
    guard links[connection.device] == nil else { return true }
    guard let device = known(connection.device) ?? Device(connection.device) else { return false }
    return open(device) != nil
  }

  /// Whether a connection that is given up takes its link with it: an attempt of ours, or a link that we made and that is
  /// of no other use here.
  func mayCut(_ connection: CentralConnection) -> Bool {
    guard connection.state == .open else {
      // The peer's own attempt may have been faster, and the link is its.
      return !connection.isShared && links[connection.device]?.isUsed != true
    }
    let others = (connections[connection.device] ?? []).filter { $0 !== connection && $0.state == .open }
    return others.isEmpty && links[connection.device].map { $0.isMadeHere && !$0.isUsed } ?? !connection.isShared
  }

  /// Whether another connection has a characteristic's values delivered.
  func isSubscribed(_ path: ObjectPath, beside connection: CentralConnection) -> Bool {
    (connections[connection.device] ?? []).contains { $0 !== connection && $0.subscriptions[path] != nil }
  }

  /// Cuts the link with a peer, if connections of ours use it.
  ///
  /// - Returns: false where none does.
  func cut(_ device: ObjectPath) -> Bool {
    guard let held = connections[device], !held.isEmpty else { return false }
    if let first = held.first(where: { $0.state == .open || $0.state == .connecting }) {
      for other in held where other !== first { other.end("Disconnected.") }
      first.cut("Disconnected.")
    }
    return true
  }

  /// How much may wait in the sockets of a link.
  func backlog(of device: ObjectPath) -> Backlog { links[device]?.backlog ?? .short }

  /// Another backlog of a link goes for the sockets that its connections have.
  func limitStreams(of link: LinkTable.Entry) {
    for connection in connections[link.device] ?? [] { connection.limitStreams(to: link.backlog) }
  }

  /// Whether a connection of ours is having the link with a peer cut.
  func isEnding(_ device: ObjectPath) -> Bool { connections[device]?.contains(where: \.isEnding) == true }

  func closed(_ connection: CentralConnection) {
    guard let index = connections[connection.device]?.firstIndex(where: { $0 === connection }) else { return }
    connections[connection.device]?.remove(at: index)
    // Those that waited for the same cut have nothing more to wait for.
    for other in connections[connection.device] ?? [] where other.isEnding { other.lost("") }
    if connections[connection.device]?.isEmpty == true { connections[connection.device] = nil }
  }

  /// bluetoothd keeps every peer that a program connected to for ever, with all that the peer served. A peer that our
  /// discovery brought is taken away again: the next time it may serve something else, and most peers come once, under an
  /// address of the day.
  ///
  /// The end of the link, which takes bluetoothd some seconds, is not waited for: the program may be gone by then.
  func forget(_ connection: CentralConnection) {
    guard !connection.isShared || links[connection.device]?.isMadeHere == true, !connection.isBound,
      wasFound(connection.device)
    else { return }
    takeAway(connection)
  }

  /// The same when a link has ended that went on without the connection that made bluetoothd keep the peer.
  func owe(_ connection: CentralConnection) {
    guard !connection.isShared, connection.place == place, wasFound(connection.device) else { return }
    owed.insert(connection.device)
  }

  /// Whether a peer of which bluetoothd has what it served before is to be taken away, which counts as done. bluetoothd 5.66 reads that
  /// from its cache again where it knows no name of the peer: what the peer does over its link is worth more then.
  func mayTakeAway(_ device: ObjectPath) -> Bool {
    if takeAways[device] == nil, takeAways.count >= Self.takeAwayPeers { takeAways = [:] }
    return takeAways[device, default: TokenBucket(1, each: Self.takeAwayTime)].take(at: scheduler.now)
  }

  /// Has bluetoothd forget what it knows of the peer, however that came about.
  func takeAway(_ connection: CentralConnection) {
    guard connection.place == place else { return }
    owed.remove(connection.device)
    remove(connection.device, at: connection.place)
  }

  private func remove(_ device: ObjectPath, at place: Place) {
    bus.call(place.owner, place.adapter, BlueZName.adapter, "RemoveDevice", [.objectPath(device)]) {
      [weak self] result in
      guard case .failure(let error) = result else { return }
      Log.shared.debug("RemoveDevice was answered with \(error)")
      // bluetoothd removes no peer of an adapter that is switched off: it is removed when the adapter is back.
      if error.name == BlueZName.Failure.notReady { self?.owed.insert(device) }
    }
  }
}
