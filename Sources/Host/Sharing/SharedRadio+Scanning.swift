import Common
import Loop
import Radio

/// The scan for all services: the driver scans while any service requests it, with the combined filter.
extension SharedRadio {
  func scan(
    for services: [BluetoothUUID], _ handler: @escaping @LoopActor (ScanEvent) -> Void
  ) -> Registration {
    let id = SightingTable.ScanID(number: nextNumber())
    scanHandlers[id] = handler
    // Events are never sent from within the call.
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

  func listen(
    for patterns: [AdvertisingPattern], _ handler: @escaping @LoopActor (AdvertisingPacket) -> Void
  ) throws(RadioError) -> Registration {
    if let deafness = driver.deafness { throw .notReady(deafness) }
    guard Set(patterns).union(listeners.values.joined()).count <= AdvertisingPattern.limit else {
      throw .notSupported("scan for more than \(AdvertisingPattern.limit) patterns")
    }
    let observer = packetObservers.add { packet in
      if patterns.isEmpty || patterns.contains(where: { $0.matches(packet.data[...]) }) { handler(packet) }
    }
    let id = nextNumber()
    listeners[id] = patterns
    listen()
    return Registration { [weak self] in
      observer.cancel()
      self?.listeners[id] = nil
      self?.listen()
    }
  }

  /// The combined patterns for the driver. If one service requests every packet, the list is empty.
  private var patterns: Set<AdvertisingPattern>? {
    guard !listeners.isEmpty else { return nil }
    return listeners.values.contains { $0.isEmpty } ? [] : Set(listeners.values.joined())
  }

  private func listen() {
    let (services, patterns) = (sightings.services, patterns)
    let isWanted = services != nil || patterns != nil
    driver.listen(isWanted ? Listening(services: services, patterns: patterns) : nil)
    sightingTimer.set(sightings.deadline)
  }

  public func heard(_ sighting: Sighting) {
    tell(sightings.hear(sighting, at: scheduler.now))
    sightingTimer.set(sightings.deadline)
  }

  public func forgot(_ address: BluetoothAddress) {
    tell(sightings.lose(address))
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
