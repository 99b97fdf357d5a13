import Common
import Loop
import Radio

/// The scan for all services: the driver scans while any service requests it, with the combined filter.
extension SharedRadio {
  func scan(
    for services: [BluetoothUUID], _ handler: @escaping @LoopActor (ScanEvent) -> Void
  ) -> Registration {
    let id = ScanResultTable.ScanID(number: nextNumber())
    scanHandlers[id] = handler
    // Events are never sent from within the call.
    scheduler.soon { [weak self] in
      guard let self, scanHandlers[id] != nil else { return }
      tell(scanResults.add(id, for: Set(services), at: scheduler.now))
      listen()
    }
    return Registration { [weak self] in
      guard let self, scanHandlers.removeValue(forKey: id) != nil else { return }
      scanResults.remove(id)
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
    let (services, patterns) = (scanResults.services, patterns)
    let isWanted = services != nil || patterns != nil
    driver.listen(isWanted ? Listening(services: services, patterns: patterns) : nil)
    scanResultTimer.set(scanResults.deadline)
  }

  public func heard(_ scanResult: ScanResult) {
    tell(scanResults.hear(scanResult, at: scheduler.now))
    scanResultTimer.set(scanResults.deadline)
  }

  public func forgot(_ address: BluetoothAddress) {
    tell(scanResults.lose(address))
    scanResultTimer.set(scanResults.deadline)
  }

  public func heard(_ packet: AdvertisingPacket) { packetObservers.call(packet) }

  func expireScanResults() {
    tell(scanResults.expire(at: scheduler.now))
    scanResultTimer.set(scanResults.deadline)
  }

  func tell(_ reports: [ScanResultTable.Report]) {
    for report in reports { scanHandlers[report.scan]?(report.event) }
  }
}
