import Common
import DBus
import HCI
import Journal
import Loop
import Radio

/// A physical link of the adapter that was reported to the delegate, in either role.
@LoopActor
final class PeerLink {
  let id: LinkID
  let device: ObjectPath
  /// The peer's address when it connected (see `PeerLinks.address(of:)`).
  let address: BluetoothAddress
  /// When the link came up, by the kernel's or bluetoothd's first report.
  let since: Instant
  /// Whether an attempt of ours was under way when the link came up.
  let isMadeHere: Bool
  /// The ATT MTU; nil until bluetoothd has reported it.
  fileprivate(set) var mtu: Int?
  /// The limit of bytes that wait in the link's sockets.
  fileprivate(set) var backlog = Backlog.short
  /// Whether the peer has used an application of ours.
  var isUsed = false
  /// Whether bluetoothd has reported the peer as connected; before that, only the peer's actions show the link.
  fileprivate var isConfirmed: Bool
  /// Whether the kernel has reported the end of the link. bluetoothd reports it a moment later, or not at all.
  fileprivate var hasEnded = false
  /// When the kernel reported the next link with the same peer, before bluetoothd reported the end of this one; nil
  /// if it has not.
  fileprivate var followedAt: Instant?
  /// Whether bluetoothd was asked to end the link.
  fileprivate var isBeingCut = false
  /// The timer of the check whether the link is up.
  fileprivate var check: Registration?

  fileprivate init(_ id: LinkID, _ device: Device, since: Instant, isMadeHere: Bool, isConfirmed: Bool) {
    self.id = id
    self.device = device.path
    address = device.address
    self.since = since
    self.isMadeHere = isMadeHere
    self.isConfirmed = isConfirmed
  }

  /// The maximum length of a value in one notification.
  var valueLimit: Int { ATT.valueLimit(mtu: mtu ?? ATT.firstMTU) }
}

/// The part of the driver that connects to peers (`Central`).
@LoopActor
protocol LinkMaker: AnyObject {
  /// Whether an attempt of ours to connect to this peer is under way.
  func isConnecting(_ device: ObjectPath) -> Bool
  /// The number that a connection attempt has reserved for its link, if the peer has no link yet.
  func promised(_ device: ObjectPath) -> LinkID?
  /// Ends the link with a peer, if connections of ours use it; returns whether they do.
  func cut(_ device: ObjectPath) -> Bool
  /// Whether a connection of ours is ending the link with a peer.
  func isEnding(_ device: ObjectPath) -> Bool
  /// Handles the end of the link with a peer.
  func linkEnded(_ device: ObjectPath)
}

/// The part of the driver that serves peers (`GATTServer`).
@LoopActor
protocol LinkServer: AnyObject {
  /// The UUIDs of all registered services of ours.
  var services: Set<BluetoothUUID> { get }
  func linkOpened(_ link: LinkID)
  /// Handles a peer that has connected and has no link in the table.
  func unlinkedPeerConnected()
  /// Handles that a link is about to be removed from the table. Values that the client wrote before the end are read
  /// now.
  func linkWillEnd(_ link: LinkID)
  func linkEnded(_ link: LinkID)
  /// Handles that one link fewer is being ended: it has ended, or it will not be ended after all.
  func cutsMayBeOver()
}

/// The links of the adapter in use, in either role: one entry and one number for each physical link. It detects links
/// that come up and end from bluetoothd's signals, from the kernel's events, and from the peers' actions.
@LoopActor
final class PeerLinks {
  weak var maker: (any LinkMaker)?
  weak var server: (any LinkServer)?
  weak var delegate: (any RadioDriverDelegate)?
  /// Restarts the advertisements, which a new link may have ended.
  var renewAdvertisements: @LoopActor () -> Void = {}
  /// The adapter in use and the run of bluetoothd; nil without an adapter that can be used.
  private(set) var place: Place?

  private let bus: BusConnection
  private let scheduler: any Scheduler
  private let counters: BlueZCounters
  private let daemon: BluetoothDaemon
  private let management: ManagementSocket?
  private let raw: (any RawHCI)?
  private var entries: [ObjectPath: PeerLink] = [:]
  private var devices: [LinkID: ObjectPath] = [:]
  /// Which end made each link of the adapter in use, as the kernel reported.
  private var directions = ConnectionDirections()
  private static var lastNumber: UInt64 = 0

  /// Maximum links, more than any controller supports.
  private static let limit = 64
  /// Time after which a link that bluetoothd has not confirmed is checked.
  private static let doubtTime = Duration.seconds(5)

  init(
    _ bus: BusConnection, scheduler: any Scheduler, counters: BlueZCounters, daemon: BluetoothDaemon,
    doors: KernelChannels
  ) {
    self.bus = bus
    self.scheduler = scheduler
    self.counters = counters
    self.daemon = daemon
    management = doors.management.way
    raw = doors.raw.way
  }

  /// A link number that is unique in this process.
  static func newID() -> LinkID {
    lastNumber += 1
    return LinkID(lastNumber)
  }

  // MARK: Table

  subscript(device: ObjectPath) -> PeerLink? { entries[device] }

  subscript(id: LinkID) -> PeerLink? { devices[id].flatMap { entries[$0] } }

  var count: Int { entries.count }

  /// All links, in the order of their numbers.
  var all: [PeerLink] { entries.values.sorted { $0.id.number < $1.id.number } }

  /// The address that the kernel uses for the peer; bluetoothd may have learned another one since the link came up.
  func address(of link: PeerLink) -> BluetoothAddress { daemon.devices[link.device]?.address ?? link.address }

  /// The link with the peer that has this address, or had it when it connected. A peer that pairs reveals its identity
  /// address, and operations that began under the first address continue under it.
  func link(at address: BluetoothAddress) -> PeerLink? {
    entries.values.first { $0.address == address || self.address(of: $0) == address }
  }

  /// Returns the link with an active peer, and opens one if the table has none. Without a link, bluetoothd may not have
  /// reported the peer as connected, or the peer is paired, or it connected before this program started.
  func link(with path: ObjectPath) throws(ATTError) -> PeerLink {
    if let link = entries[path] { return link }
    guard let place, path.isWithin(place.adapter), let device = daemon.devices[path] ?? Device(path) else {
      counters.malformed += 1
      throw .unlikely
    }
    guard let link = open(device) else { throw .insufficientResources }
    return link
  }

  /// Stores the MTU of a link, which a client's call contains.
  func learn(_ mtu: Int, of link: PeerLink) {
    guard mtu != link.mtu else { return }
    link.mtu = mtu
    delegate?.linkChanged(link.id, mtu: mtu)
  }

  /// Sets the limit of bytes that wait in the sockets of a link.
  ///
  /// - Returns: the link; nil if it has ended, or has this limit already.
  func allow(_ backlog: Backlog, on id: LinkID) -> PeerLink? {
    guard let link = self[id], link.backlog != backlog else { return nil }
    link.backlog = backlog
    return link
  }

  // MARK: Peers

  /// Whether peers without a link in the table are connected: they connected before this program started, or are
  /// paired.
  var hasUnlinkedPeers: Bool {
    guard let place else { return false }
    return daemon.devices.values.contains {
      $0.isConnected && $0.path.isWithin(place.adapter) && entries[$0.path] == nil
    }
  }

  /// Whether bluetoothd reports the peer as not paired. It stores the subscriptions of paired clients.
  func isUnpaired(_ link: PeerLink) -> Bool { daemon.devices[link.device]?.isPaired == false }

  /// The only connected client, which is then the only possible subscriber; nil if there are several.
  var onlyClient: ObjectPath? {
    guard let place else { return nil }
    // This is computed on demand, because it iterates over all peers and most values do not need it.
    var connected: [Device] { daemon.devices.values.filter { $0.isConnected && $0.path.isWithin(place.adapter) } }
    if let raw, let index = place.index, let known = try? raw.links(of: index) {
      // A peer that another program connected to is not our client; a peer that we connected to may be.
      let clients = known.filter { $0.isUp && (!$0.isCentral || link(at: $0.address)?.isMadeHere == true) }
      guard clients.count == 1, let only = clients.first else { return nil }
      return link(at: only.address)?.device ?? connected.first { $0.address == only.address }?.path
        ?? Device.path(of: only.address, at: place.adapter)
    }
    let peers = connected
    return peers.count == 1 ? peers.first?.path : nil
  }

  // MARK: Start and end of links

  /// Uses another adapter from now on. Its links are added when their peers act, or connect.
  func aim(at place: Place?) {
    self.place = place
    directions = ConnectionDirections()
  }

  /// Closes all links, because the adapter or bluetoothd is gone.
  func closeAll() {
    for link in all { close(link.device) }
  }

  /// Handles a change of a peer's `Connected` property.
  func deviceChanged(_ device: Device, wasConnected: Bool) {
    guard let place, device.path.isWithin(place.adapter) else { return }
    // Waiting kernel events are handled first. Read after bluetoothd's signal, an end would be attributed to the peer's
    // next link.
    management?.takeWaiting()
    let isOurs = entries[device.path]?.isMadeHere ?? isConnecting(device.path)
    if device.isConnected { connected(device) } else { close(device.path) }
    if device.isConnected != wasConnected { renewAdvertisements(by: device.path, isOurs: isOurs) }
  }

  private func isConnecting(_ device: ObjectPath) -> Bool { maker?.isConnecting(device) ?? false }

  /// Restarts the advertisements after a new link, unless this program made it. Only a link that the peer made ends
  /// an advertisement.
  private func renewAdvertisements(by device: ObjectPath, isOurs: Bool) {
    if !isOurs || isMadeByPeer(device) { renewAdvertisements() }
  }

  /// Opens a link for a connected peer. Paired peers, such as keyboards and headsets, belong to other programs: the
  /// delegate is notified when they use an application of this program.
  private func connected(_ device: Device) {
    if let link = entries[device.path] {
      guard !link.hasEnded else { return replace(link) }
      link.isConfirmed = true
      link.check = nil
    } else if !device.isPaired || isConnecting(device.path) {
      open(device)
    } else {
      server?.unlinkedPeerConnected()
    }
  }

  /// Adds a link to the table and notifies the delegate.
  ///
  /// - Returns: nil if the table is full.
  @discardableResult
  func open(_ device: Device) -> PeerLink? {
    guard entries[device.path] == nil, entries.count < Self.limit else {
      counters.refusedLinks += 1
      Log.shared.debug("A link is not reported: the maximum of \(Self.limit) links is reached")
      return nil
    }
    let link = PeerLink(
      maker?.promised(device.path) ?? Self.newID(), device, since: device.connectedSince ?? scheduler.now,
      isMadeHere: isConnecting(device.path), isConfirmed: device.isConnected)
    entries[device.path] = link
    devices[link.id] = device.path
    if !link.isConfirmed { doubt(link) }
    server?.linkOpened(link.id)
    delegate?.linkUp(DriverLink(id: link.id, address: link.address, since: link.since))
    return link
  }

  private func close(_ device: ObjectPath) {
    if let id = entries[device]?.id { server?.linkWillEnd(id) }
    guard let link = entries.removeValue(forKey: device) else { return }
    devices[link.id] = nil
    maker?.linkEnded(device)
    link.check = nil
    server?.linkEnded(link.id)
    if let raw, let index = place?.index { raw.forget(address(of: link), on: index) }
    delegate?.linkDown(link.id)
    server?.cutsMayBeOver()
  }

  /// Schedules a check of a link that bluetoothd has not confirmed, or whose end only the kernel has reported.
  /// bluetoothd usually confirms either a moment later. Otherwise the peer's last action may belong to a link that
  /// has ended.
  private func doubt(_ link: PeerLink) {
    link.check = scheduler.schedule(after: Self.doubtTime) { [weak self, weak link] in
      guard let self, let link else { return }
      link.check = nil
      askWhetherUp(link)
    }
  }

  private func askWhetherUp(_ link: PeerLink) {
    guard let owner = place?.owner else { return }
    bus.call(
      owner, link.device, BlueZName.properties, "Get", [.string(BlueZName.device), .string("Connected")]
    ) { [weak self] result in
      guard let self, entries[link.device] === link else { return }
      guard case .success(let values) = result, values.first?.asBool == true else {
        // A timeout of bluetoothd gives no information about the peer.
        if case .success = result { daemon.endedUnsignalled(link.device) }
        return close(link.device)
      }
      if link.hasEnded { replace(link) } else { link.isConfirmed = true }
    }
  }

  /// Handles link events of the kernel. bluetoothd signals only the present value of a property. If it is busy, the end
  /// of a link and the start of the next one with the same peer cause no signal. Without the kernel's events, the two
  /// links would be taken for one.
  func handle(_ event: ManagementEvent) {
    directions.heard(event)
    switch event {
    case .deviceDisconnected(let gone) where gone.kind.isLE:
      guard let link = link(at: gone.address) else { return }
      (link.hasEnded, link.followedAt) = (true, nil)
      doubt(link)
    case .deviceConnected(let new) where new.kind.isLE:
      guard let link = link(at: new.address), link.hasEnded else { return }
      link.followedAt = scheduler.now
      askWhetherUp(link)
    default: break
    }
  }

  /// Replaces a link that has ended by the next link with the same peer. bluetoothd signalled no end, so it reports the
  /// age of the first link.
  private func replace(_ link: PeerLink) {
    Log.shared.debug("The peer has disconnected and connected again without a signal from bluetoothd", .link(link.id))
    close(link.device)
    guard let device = daemon.connectedAgain(link.device, since: link.followedAt ?? scheduler.now) else { return }
    let isOurs = isConnecting(device.path)
    connected(device)
    renewAdvertisements(by: device.path, isOurs: isOurs)
  }

  // MARK: Requests of the delegate

  /// Has bluetoothd disconnect a link, whichever end made it.
  func cut(_ link: LinkID) {
    guard let owner = place?.owner, let entry = self[link], maker?.cut(entry.device) != true else { return }
    entry.isBeingCut = true
    bus.call(owner, entry.device, BlueZName.device, "Disconnect") { [weak self] result in
      guard case .failure(let error) = result else { return }
      Log.shared.debug("bluetoothd answered Disconnect with \(error)", .link(link))
      entry.isBeingCut = false
      let isGone = error.isOfGoneObject || error.name == BlueZName.Failure.notConnected
      guard let self else { return }
      if isGone, entries[entry.device] === entry { close(entry.device) } else { server?.cutsMayBeOver() }
    }
  }

  /// Whether links are being ended because the delegate requested it.
  var areBeingCut: Bool { all.contains { $0.isBeingCut || maker?.isEnding($0.device) == true } }

  /// Which end made the link, from the kernel's present list of links; if that cannot be read, from earlier events of
  /// the management socket.
  ///
  /// The result is `.unknown` for a link that the peer made while another program serves on the adapter, because the
  /// peer may be its client.
  func origin(of link: LinkID) -> LinkOrigin {
    guard let entry = self[link], let index = place?.index else { return .unknown }
    let origin = origin(of: entry, index)
    return origin == .peer && doOthersServe ? .unknown : origin
  }

  /// Whether the adapter has services of other programs: neither those of this program nor those in the Bluetooth SIG's
  /// first range, which contains bluetoothd's own.
  private var doOthersServe: Bool {
    guard let adapter = place.flatMap({ daemon.adapters[$0.adapter] }) else { return false }
    let own = server?.services ?? []
    return adapter.services.contains { uuid in !own.contains(uuid) && !(uuid.short.map { $0 < 0x1900 } ?? false) }
  }

  /// Whether the peer connected before our attempt succeeded.
  private func isMadeByPeer(_ device: ObjectPath) -> Bool {
    guard let entry = entries[device], let index = place?.index else { return false }
    return origin(of: entry, index) == .peer
  }

  private func origin(of entry: PeerLink, _ index: UInt16) -> LinkOrigin {
    if let raw, let known = try? raw.links(of: index) { directions.found(known) }
    switch directions.direction(of: address(of: entry)) {
    case .incoming: return .peer
    case .outgoing: return .here
    case .unknown: return entry.isMadeHere ? .here : .unknown
    }
  }
}

extension HCILink {
  /// Whether the connection is an LE link that is established.
  var isUp: Bool { isLE && isConnected }
}

extension Backlog {
  /// Maximum bytes of values that wait in a socket for bluetoothd, including the kernel's overhead: about six of the
  /// longest values (`short`), or eight times as many (`long`). A smaller limit wakes the two programs more often.
  var bytes: Int {
    switch self {
    case .short: 8 << 10
    case .long: 64 << 10
    }
  }
}
