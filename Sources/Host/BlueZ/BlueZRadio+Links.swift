import Common
import DBus
import HCI
import Journal
import Loop
import Radio

/// Links that come up and end, whoever made them.
extension BlueZRadio {
  /// A link that bluetoothd never confirms is looked into after this time.
  private static let doubtTime = Duration.seconds(5)

  // MARK: Up and down

  /// A peer connected, or is no longer connected.
  func deviceChanged(_ device: Device, wasConnected: Bool) {
    guard let place, device.path.isWithin(place.adapter) else { return }
    // Read after bluetoothd's signal, the kernel's word of an end would be taken for the end of the link that came next.
    doors.management.way?.takeWaiting()
    let isOurs = links[device.path]?.isMadeHere ?? central.isConnecting(device.path)
    if device.isConnected { connected(device) } else { close(device.path) }
    if device.isConnected != wasConnected { renewAdvertisements(by: device.path, isOurs: isOurs) }
  }

  /// Only a peer that connects takes an advertisement off the air.
  private func renewAdvertisements(by device: ObjectPath, isOurs: Bool) {
    if !isOurs || isMadeByPeer(device) { renewAdvertisements() }
  }

  /// The peers of other programs, keyboards and headsets, are paired: the delegate hears of them when they use us.
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

  /// Whether peers are connected that have no link in the table: they were there before us, or they are paired.
  var hasUnlinkedPeers: Bool {
    guard let place else { return false }
    return daemon.devices.values.contains {
      $0.isConnected && $0.path.isWithin(place.adapter) && links[$0.path] == nil
    }
  }

  /// The link with a peer that did something, and is no link of the table yet: a peer that bluetoothd did not call
  /// connected, a paired one, or one that was there before us.
  func link(with path: ObjectPath) throws(ATTError) -> LinkTable.Entry {
    if let link = links[path] { return link }
    guard let place, path.isWithin(place.adapter), let device = daemon.devices[path] ?? Device(path) else {
      counters.malformed += 1
      throw .unlikely
    }
    guard let link = open(device) else { throw .insufficientResources }
    return link
  }

  /// Enters a link and tells of it.
  ///
  /// - Returns: nil where there are too many.
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

  /// The adapter or bluetoothd is gone, and every link with it.
  func closeLinks() {
    for link in links.all { close(link.device) }
  }

  /// A peer did something, and bluetoothd did not say that it is connected: usually bluetoothd says so in a moment. If
  /// not, what the peer did may have been the last of a link that had ended. Or the kernel said that the link has ended, and bluetoothd
  /// did not.
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
        // That bluetoothd did not answer says nothing of the peer.
        if case .success = result { daemon.endedUnsignalled(link.device) }
        return close(link.device)
      }
      if link.hasEnded { replace(link) } else { link.isConfirmed = true }
    }
  }

  /// What the kernel says of links. bluetoothd signals how a property is when it comes to that: where it is busy, the end of a link and
  /// the beginning of the next one with the same peer are no change. Whoever came next would be taken for who was there.
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

  /// A link has ended, and there is another one with the same peer. To bluetoothd, which signalled no end, it is as old as the first.
  private func replace(_ link: LinkTable.Entry) {
    Log.shared.debug("The peer has gone and come again in the meantime", .link(link.id))
    close(link.device)
    guard let device = daemon.connectedAgain(link.device, since: link.followedAt ?? scheduler.now) else { return }
    let isOurs = central.isConnecting(device.path)
    connected(device)
    renewAdvertisements(by: device.path, isOurs: isOurs)
  }

  // MARK: What the delegate asks for

  /// bluetoothd waits some 20 s for the peer to advertise, and agrees on the ATT MTU by itself: `exchangeMTU` tells which
  /// it is.
  ///
  /// `disconnect` of the link ends an attempt. An open link is cut by it where this driver made the link, no other `Link`
  /// is open on it, and its peer has used no application; any other link stays up until it is `cut`.
  ///
  /// - Throws: `RadioError.notReady` without an adapter, or with too many connections.
  public func connect(
    to address: BluetoothAddress, _ handler: @escaping @LoopActor (LinkEvent) -> Void
  ) throws(RadioError) -> any Link {
    guard let place else { throw .notReady(status.reason) }
    return try central.connect(to: address, at: place, handler)
  }

  /// The kernel's list of links says it now; where it cannot be read, the events of the management socket said it.
  ///
  /// A peer may have come to what another program serves on the adapter: then nobody knows who has the link.
  public func origin(of link: LinkID) -> LinkOrigin {
    guard let entry = links[link], let index = place?.index else { return .unknown }
    let origin = maker(of: entry, index)
    return origin == .peer && doOthersServe ? .unknown : origin
  }

  /// Whether the adapter has services that are neither this program's nor of the Bluetooth SIG's first range, in which bluetoothd's own are.
  private var doOthersServe: Bool {
    guard let adapter = place.flatMap({ daemon.adapters[$0.adapter] }) else { return false }
    let own = (applications.values + leaving).reduce(into: Set<BluetoothUUID>()) { $0.formUnion($1.services) }
    return adapter.services.contains { uuid in !own.contains(uuid) && !(uuid.short.map { $0 < 0x1900 } ?? false) }
  }

  /// Whether the peer was faster than an attempt of ours.
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

  /// The address by which the kernel knows the peer of a link: bluetoothd may have learned another one meanwhile.
  func address(of link: LinkTable.Entry) -> BluetoothAddress { daemon.devices[link.device]?.address ?? link.address }

  /// The link with the peer that has this address, or came with it: a peer that pairs tells its identity address, and what began under
  /// the first one goes on under that.
  func link(at address: BluetoothAddress) -> LinkTable.Entry? {
    links.first { $0.address == address || self.address(of: $0) == address }
  }
}
