import Common
import DBus
import HCI
import Journal
import Loop
import Radio

/// Links that come up and end, in either role.
extension BlueZRadio {
  /// Time after which a link that bluetoothd has not confirmed is checked.
  private static let doubtTime = Duration.seconds(5)

  // MARK: Start and end of links

  /// Handles a change of a peer's `Connected` property.
  func deviceChanged(_ device: Device, wasConnected: Bool) {
    guard let place, device.path.isWithin(place.adapter) else { return }
    // Waiting kernel events are handled first. Read after bluetoothd's signal, an end would be attributed to the peer's
    // next link.
    doors.management.way?.takeWaiting()
    let isOurs = links[device.path]?.isMadeHere ?? central.isConnecting(device.path)
    if device.isConnected { connected(device) } else { close(device.path) }
    if device.isConnected != wasConnected { renewAdvertisements(by: device.path, isOurs: isOurs) }
  }

  /// Restarts the advertisements. Only a link that the peer made ends an advertisement.
  private func renewAdvertisements(by device: ObjectPath, isOurs: Bool) {
    if !isOurs || isMadeByPeer(device) { renewAdvertisements() }
  }

  /// Opens a link for a connected peer. Paired peers, such as keyboards and headsets, belong to other programs: the
  /// delegate is notified when they use us.
  private func connected(_ device: Device) {
    if let link = links[device.path] {
      guard !link.hasEnded else { return replace(link) }
      link.isConfirmed = true
      doubts[link.id] = nil
    } else if !device.isPaired || central.isConnecting(device.path) {
      open(device)
    } else {
      for application in applications.values { application.expectUnlinkedPeers() }
    }
  }

  /// Whether peers without a link in the table are connected: they connected before this program started, or are
  /// paired.
  var hasUnlinkedPeers: Bool {
    guard let place else { return false }
    return daemon.devices.values.contains {
      $0.isConnected && $0.path.isWithin(place.adapter) && links[$0.path] == nil
    }
  }

  /// Returns the link with an active peer, and opens one if the table has none. That is so if bluetoothd did not report
  /// it as connected, if it is paired, or if it connected before this program started.
  func link(with path: ObjectPath) throws(ATTError) -> LinkTable.Entry {
    if let link = links[path] { return link }
    guard let place, path.isWithin(place.adapter), let device = daemon.devices[path] ?? Device(path) else {
      counters.malformed += 1
      throw .unlikely
    }
    guard let link = open(device) else { throw .insufficientResources }
    return link
  }

  /// Adds a link to the table and notifies the delegate.
  ///
  /// - Returns: nil if the table is full.
  @discardableResult
  func open(_ device: Device) -> LinkTable.Entry? {
    let isOurs = central.isConnecting(device.path)
    let entry = links.open(
      device, as: central.promised(device.path), since: device.connectedSince ?? scheduler.now, isMadeHere: isOurs,
      isConfirmed: device.isConnected)
    guard let entry else {
      counters.refusedLinks += 1
      Log.shared.debug("A link is not told of: there are \(LinkTable.limit) already")
      return nil
    }
    if !entry.isConfirmed { doubt(entry) }
    for application in applications.values { application.opened(entry.id) }
    delegate?.linkUp(DriverLink(id: entry.id, address: entry.address, since: entry.since))
    return entry
  }

  private func close(_ device: ObjectPath) {
    if let id = links[device]?.id {
      for application in applications.values {
        for characteristic in application.characteristics.values { takeLastWrites(of: id, to: characteristic) }
      }
    }
    guard let link = links.close(device) else { return }
    central.linkEnded(device)
    doubts[link.id] = nil
    window.forget(link.id)
    for application in applications.values + leaving { application.forget(link.id) }
    if let raw = doors.raw.way, let index = place?.index { raw.forget(address(of: link), on: index) }
    delegate?.linkDown(link.id)
    closeLeftIfAlone()
  }

  /// Closes all links, because the adapter or bluetoothd is gone.
  func closeLinks() {
    for link in links.all { close(link.device) }
  }

  /// Schedules a check of a link that bluetoothd has not confirmed, or whose end only the kernel has reported. bluetoothd usually reports
  /// the peer as connected a moment later. Otherwise the peer's last action may belong to a link that has ended.
  private func doubt(_ link: LinkTable.Entry) {
    doubts[link.id] = scheduler.schedule(after: Self.doubtTime) { [weak self] in
      guard let self else { return }
      doubts[link.id] = nil
      askWhetherUp(link)
    }
  }

  private func askWhetherUp(_ link: LinkTable.Entry) {
    guard let owner = place?.owner else { return }
    bus.call(
      owner, link.device, BlueZName.properties, "Get", [.string(BlueZName.device), .string("Connected")]
    ) { [weak self] result in
      guard let self, links[link.device] === link else { return }
      guard case .success(let values) = result, values.first?.asBool == true else {
        // A timeout of bluetoothd gives no information about the peer.
        if case .success = result { daemon.endedUnsignalled(link.device) }
        return close(link.device)
      }
      if link.hasEnded { replace(link) } else { link.isConfirmed = true }
    }
  }

  /// Handles link events of the kernel. bluetoothd signals only the present value of a property: if it is busy, the end of a link and the
  /// start of the next one with the same peer cause no signal. Without the kernel's events, the two links would be taken for one.
  func heardOfLinks(_ event: ManagementEvent) {
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

  /// Replaces a link that has ended by the next link with the same peer. bluetoothd signalled no end, so it reports the age of the first
  /// link.
  private func replace(_ link: LinkTable.Entry) {
    Log.shared.debug("The peer has gone and come again in the meantime", .link(link.id))
    close(link.device)
    guard let device = daemon.connectedAgain(link.device, since: link.followedAt ?? scheduler.now) else { return }
    let isOurs = central.isConnecting(device.path)
    connected(device)
    renewAdvertisements(by: device.path, isOurs: isOurs)
  }

  // MARK: Requests of the delegate

  /// Connects to a peer. bluetoothd waits about 20 s for the peer to advertise, and negotiates the ATT MTU itself;
  /// `exchangeMTU` returns the result.
  ///
  /// `disconnect` of the link cancels an attempt. It ends an open link only if this driver made it, no other `Link` is
  /// open on it, and its peer has used no application. Any other link stays up until `cut` ends it.
  ///
  /// - Throws: `RadioError.notReady` without an adapter, or with too many connections.
  public func connect(
    to address: BluetoothAddress, _ handler: @escaping @LoopActor (LinkEvent) -> Void
  ) throws(RadioError) -> any Link {
    guard let place else { throw .notReady(status.reason) }
    return try central.connect(to: address, at: place, handler)
  }

  /// Which end made the link, from the kernel's present list of links; if that cannot be read, from earlier events of
  /// the management socket.
  ///
  /// The result is `.unknown` for a link that the peer made while another program serves on the adapter, because the
  /// peer may be its client.
  public func origin(of link: LinkID) -> LinkOrigin {
    guard let entry = links[link], let index = place?.index else { return .unknown }
    let origin = maker(of: entry, index)
    return origin == .peer && doOthersServe ? .unknown : origin
  }

  /// Whether the adapter has services of other programs: neither ours nor in the Bluetooth SIG's first range, which contains bluetoothd's
  /// own.
  private var doOthersServe: Bool {
    guard let adapter = place.flatMap({ daemon.adapters[$0.adapter] }) else { return false }
    let own = (applications.values + leaving).reduce(into: Set<BluetoothUUID>()) { $0.formUnion($1.services) }
    return adapter.services.contains { uuid in !own.contains(uuid) && !(uuid.short.map { $0 < 0x1900 } ?? false) }
  }

  /// Whether the peer connected before our attempt succeeded.
  private func isMadeByPeer(_ device: ObjectPath) -> Bool {
    guard let entry = links[device], let index = place?.index else { return false }
    return maker(of: entry, index) == .peer
  }

  private func maker(of entry: LinkTable.Entry, _ index: UInt16) -> LinkOrigin {
    if let raw = doors.raw.way, let known = try? raw.links(of: index) { directions.found(known) }
    switch directions.direction(of: address(of: entry)) {
    case .incoming: return .peer
    case .outgoing: return .here
    case .unknown: return entry.isMadeHere ? .here : .unknown
    }
  }

  public func cut(_ link: LinkID) {
    guard let owner = place?.owner, let entry = links[link], !central.cut(entry.device) else { return }
    entry.isBeingCut = true
    bus.call(owner, entry.device, BlueZName.device, "Disconnect") { [weak self] result in
      guard case .failure(let error) = result else { return }
      Log.shared.debug("Disconnect was answered with \(error)", .link(link))
      entry.isBeingCut = false
      let isGone = CentralWords.isOfGoneObject(error) || error.name == BlueZName.Failure.notConnected
      guard let self else { return }
      if isGone, links[entry.device] === entry { close(entry.device) } else { closeLeftIfAlone() }
    }
  }

  /// The address that the kernel uses for the peer; bluetoothd may have learned another one since the link came up.
  func address(of link: LinkTable.Entry) -> BluetoothAddress { daemon.devices[link.device]?.address ?? link.address }

  /// The link with the peer that has this address, or had it when it connected. A peer that pairs reveals its identity address, and
  /// operations that began under the first address continue under it.
  func link(at address: BluetoothAddress) -> LinkTable.Entry? {
    links.first { $0.address == address || self.address(of: $0) == address }
  }
}
