import Common
import DBus
import Journal
import Loop
import Radio

/// Clients that come, write, are written to, and go.
extension BlueZRadio {
  /// A link that bluetoothd never confirms is looked into after this time.
  private static let doubtTime = Duration.seconds(5)

  // MARK: Coming and going

  /// A peer connected, or is no longer connected.
  func deviceChanged(_ device: Device, wasConnected: Bool) {
    guard let place, device.path.isWithin(place.adapter) else { return }
    if device.isConnected {
      connected(device)
    } else {
      close(device.path)
      for application in openApplications { application.clientLeft(device.address) }
    }
    // A link that we make takes no advertisement with it.
    if device.isConnected != wasConnected, !central.holds(device.path) { renewAdvertisements() }
  }

  private func connected(_ device: Device) {
    if let link = links[device.path] {
      guard !link.isConfirmed else { return }
      links.confirm(device.path)
      doubts[link.id] = nil
    } else {
      // Keyboards and headsets are none of our clients, unless they write, nor are those whose client we are.
      guard !device.isPaired, !central.holds(device.path), open(device, isConfirmed: true) else { return }
    }
    guard let link = links[device.path] else { return }
    for application in openApplications { application.introduce(link) }
  }

  /// - Returns: false when there are too many.
  private func open(_ device: Device, isConfirmed: Bool) -> Bool {
    guard let link = links.open(device, isConfirmed: isConfirmed) else {
      counters.refusedLinks += 1
      Log.shared.debug("A client is not let in: there are \(LinkTable.limit) already")
      return false
    }
    if !isConfirmed { doubt(link) }
    return true
  }

  private func close(_ device: ObjectPath) {
    guard let link = links.close(device) else { return }
    doubts[link.id] = nil
    for application in openApplications { application.linkClosed(link.id) }
  }

  /// The adapter or bluetoothd is gone, and every link with it.
  func closeLinks() {
    for link in links.all { close(link.device) }
  }

  private var openApplications: [ServedApplication] {
    applications.sorted { $0.key < $1.key }.map(\.value)
  }

  /// A write came from a peer of which bluetoothd did not say that it is connected: usually it will in a moment. If not,
  /// the write may have been the last of a link that had ended.
  private func doubt(_ link: LinkTable.Entry) {
    doubts[link.id] = scheduler.schedule(after: Self.doubtTime) { [weak self] in
      guard let self, let owner = place?.owner else { return }
      doubts[link.id] = nil
      bus.call(
        owner, link.device, BlueZName.properties, "Get", [.string(BlueZName.device), .string("Connected")]
      ) { [weak self] result in
        guard let self, links[link.device]?.id == link.id else { return }
        if case .success(let values) = result, values.first?.asBool == true {
          links.confirm(link.device)
        } else {
          close(link.device)
        }
      }
    }
  }

  // MARK: Values

  func receive(_ write: ServedCharacteristic.Write, to id: CharacteristicID, _ number: Int) throws(ATTError) {
    guard let application = applications[number] else { throw .unlikely }
    guard let place, let path = write.device, path.isWithin(place.adapter),
      let device = daemon.devices[path] ?? Device(path)
    else {
      counters.malformed += 1
      throw .unlikely
    }
    if links[path] == nil {
      guard open(device, isConfirmed: device.isConnected) else { throw .insufficientResources }
    }
    links.noteWrite(path)
    if let mtu = write.mtu, links.setMTU(mtu, of: path), let link = links[path] {
      for application in openApplications { application.linkChanged(link.id, mtu: mtu) }
    }
    guard let link = links[path] else { throw .unlikely }
    application.introduce(link)
    try application.written(write.value, to: id, on: link.id)
  }

  /// Cuts a client's link. A peer that never wrote may be somebody else's keyboard or sensor: it is only forgotten, and
  /// is a new link if it writes after all.
  func disconnect(_ link: LinkID, for number: Int) {
    guard applications[number] != nil, let owner = place?.owner, let entry = links[link] else { return }
    guard entry.hasWritten else {
      scheduler.offload(
        {},
        then: { [weak self] in
          guard let self, links[entry.device]?.id == link else { return }
          close(entry.device)
        })
      return
    }
    bus.call(owner, entry.device, BlueZName.device, "Disconnect") { [weak self] result in
      guard case .failure(let error) = result else { return }
      Log.shared.debug("Disconnect was answered with \(error)", .link(link))
      let isGone =
        error.is(.unknownObject) || error.is(.unknownMethod) || error.name == BlueZName.Failure.notConnected
      if isGone, let self, links[entry.device]?.id == link { close(entry.device) }
    }
  }
}
