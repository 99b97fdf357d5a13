import Common
import Loop
import Radio

/// One scan for all: the driver scans while any service wants something, with the widest filter.
extension SharedRadio {
  func scan(
    for services: [BluetoothUUID], _ handler: @escaping @LoopActor (ScanEvent) -> Void
  ) -> Registration {
    let id = SightingTable.ScanID(number: nextNumber())
    scanHandlers[id] = handler
    // Nothing is told from within the call.
    scheduler.soon { [weak self] in
      guard let self, scanHandlers[id] != nil else { return }
      tell(sightings.add(id, for: Set(services), at: scheduler.now))
      listen()
    }
    return Registration { [weak self] in
      guard let self, scanHandlers.removeValue(forKey: id) != nil else { return }
      sightings.remove(id)
      listen()
    }
  }

  func packets(_ handler: @escaping @LoopActor (AdvertisingPacket) -> Void) throws(RadioError) -> Registration {
    guard driver.seesPackets else { throw .notSupported("tell of single packets") }
    let observer = packetObservers.add(handler)
    packetScans += 1
    listen()
    return Registration { [weak self] in
      observer.cancel()
      self?.packetScans -= 1
      self?.listen()
    }
  }

  private func listen() {
    let services = sightings.services
    let isWanted = services != nil || packetScans > 0
    driver.listen(isWanted ? Listening(services: services, wantsPackets: packetScans > 0) : nil)
    sightingTimer.set(sightings.deadline)
  }

  public func heard(_ sighting: Sighting) {
    tell(sightings.hear(sighting, at: scheduler.now))
    sightingTimer.set(sightings.deadline)
  }

  public func heard(_ packet: AdvertisingPacket) { packetObservers.call(packet) }

  func expireSightings() {
    tell(sightings.expire(at: scheduler.now))
    sightingTimer.set(sightings.deadline)
  }

  func tell(_ reports: [SightingTable.Report]) {
    for report in reports { scanHandlers[report.scan]?(report.event) }
  }
}
