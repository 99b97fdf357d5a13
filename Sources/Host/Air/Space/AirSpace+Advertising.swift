import Common
import Loop
import Radio

extension AirSpace {
  /// Puts an advertisement on the air; its first event comes at a moment of chance within one interval.
  func putOnAir(_ node: AirRadio, data: [UInt8], scanResponse: [UInt8], interval: Duration) -> UInt64 {
    let interval = max(interval, OnAir.shortestInterval)
    let delay = Int64(generator.next() % UInt64(max(1, interval.wholeNanoseconds)))
    let advertisement = OnAir(
      node: node, data: data, scanResponse: scanResponse, interval: interval,
      start: agenda.now.advanced(by: .nanoseconds(delay)))
    let id = onAir.add(advertisement)
    announce(id, advertisement)
    return id
  }

  func takeOffAir(_ id: UInt64) {
    guard let advertisement = onAir.remove(id) else { return }
    let node = advertisement.node
    let isLast = node.nextAdvertisingEvent(from: agenda.now) == nil
    for scan in scans.values {
      scan.forget(id, of: node.address)
      if isLast { scan.lose(node.address, at: agenda.now) }
    }
  }

  func start(_ scan: AirScan) -> UInt64 {
    let id = scans.add(scan)
    for (id, advertisement) in onAir.entries { announce(id, advertisement) }
    return id
  }

  /// Who can hear whom has changed.
  func audienceChanged() {
    for scan in scans.values {
      for node in nodes where !hears(node, scan.node) { scan.lose(node.address, at: agenda.now) }
    }
    for (id, advertisement) in onAir.entries { announce(id, advertisement) }
    retryConnecting()
  }

  /// Has an advertisement's next event heard by those who scan. Events that nobody new could hear are left out.
  private func announce(_ id: UInt64, _ advertisement: OnAir) {
    guard !advertisement.isDue, !scans.isEmpty else { return }
    advertisement.isDue = true
    agenda.at(advertisement.nextEvent(from: agenda.now)) { [weak self] in self?.beHeard(id) }
  }

  private func beHeard(_ id: UInt64) {
    guard let advertisement = onAir[id] else { return }
    advertisement.isDue = false
    let sighting = Sighting(
      address: advertisement.node.address, data: advertisement.data, scanResponse: advertisement.scanResponse, rssi: nil
    )
    for (number, scan) in scans.entries {
      guard onAir[id] != nil else { return }
      guard scan.node !== advertisement.node, scans[number] != nil, hears(advertisement.node, scan.node) else {
        continue
      }
      scan.hear(id, advertisement, as: sighting, in: self)
    }
  }
}
