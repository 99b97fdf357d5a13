import Common
import Loop
import Radio

extension AirSpace {
  /// Starts an advertisement; its first event is at a random time within one interval.
  func putOnAir(_ node: AirRadio, _ content: EncodedAdvertisement) -> UInt64 {
    let interval = max(content.interval, OnAir.shortestInterval)
    let delay = Int64(generator.next() % UInt64(max(1, interval.wholeNanoseconds)))
    let advertisement = OnAir(
      node: node, content, start: agenda.now.advanced(by: .nanoseconds(delay)),
      ownAddress: content.isConnectable ? nil : newAddress())
    let id = onAir.add(advertisement)
    announce(id, advertisement)
    return id
  }

  /// A random non-resolvable private address (Core 5.4 Vol 6 Part B 1.3.2.2).
  private func newAddress() -> BluetoothAddress { BluetoothAddress(generator.next() & 0x3FFF_FFFF_FFFF) }

  /// Delivers a packet that no node of this simulated radio sent, such as a spoofed one, to every listening node.
  public func send(_ packet: AdvertisingPacket) {
    var packet = packet
    packet.time = agenda.now
    for node in nodes where node.power && node.listens(for: packet.data) {
      if !generator.chance(conditions.advertisingLoss) { node.heard(packet) }
    }
  }

  /// Replaces the data of an advertisement without interrupting it.
  func change(_ id: UInt64, to content: EncodedAdvertisement) {
    guard let advertisement = onAir[id] else { return }
    advertisement.change(to: content)
    announce(id, advertisement)
  }

  func takeOffAir(_ id: UInt64) {
    guard let advertisement = onAir.remove(id) else { return }
    advertisement.heard.map { agenda.cancel($0.ticket) }
    advertisement.heard = nil
  }

  func start(_ scan: AirScan) -> UInt64 {
    let id = scans.add(scan)
    announceAll()
    return id
  }

  /// Schedules the next event of each advertisement for the listening nodes, because a listener was added or a filter
  /// changed.
  func announceAll() {
    for (id, advertisement) in onAir.entries { announce(id, advertisement) }
  }

  /// The set of nodes in range of each other has changed.
  func audienceChanged() {
    announceAll()
    retryConnecting()
  }

  private func announce(_ id: UInt64, _ advertisement: OnAir) {
    guard !scans.isEmpty else { return }
    enter(id, advertisement, from: agenda.now)
  }

  /// Schedules an advertisement's first event from `instant` on, unless an earlier one is scheduled. Other events are
  /// not scheduled, because no node accepts them.
  private func enter(_ id: UInt64, _ advertisement: OnAir, from instant: Instant) {
    let event = advertisement.nextEvent(from: instant)
    if let heard = advertisement.heard {
      guard event < heard.at else { return }
      agenda.cancel(heard.ticket)
    }
    let ticket = agenda.at(event) { [weak self] in self?.beHeard(id) }
    advertisement.heard = (event, ticket)
  }

  private func beHeard(_ id: UInt64) {
    guard let advertisement = onAir[id] else { return }
    advertisement.heard = nil
    var next: Instant?
    for (number, scan) in scans.entries {
      // A listener may end the advertisement, or another scan.
      guard onAir[id] != nil else { return }
      guard scan.node !== advertisement.node, scans[number] != nil, hears(advertisement.node, scan.node) else {
        continue
      }
      let loss = conditions(between: advertisement.node.address, and: scan.node.address).advertisingLoss
      if generator.chance(loss) {
        if scan.wants(advertisement) {
          let again = agenda.now.advanced(by: .nanoseconds(1))
          next = min(next ?? again, again)
        }
        continue
      }
      let wanted = scan.hear(advertisement, rssi: rssi(advertisement.node, scan.node), at: agenda.now)
      if let wanted, scans[number] != nil { next = min(next ?? wanted, wanted) }
    }
    if let next, onAir[id] != nil { enter(id, advertisement, from: next) }
  }

  private func rssi(_ sender: AirRadio, _ receiver: AirRadio) -> Int? {
    range == nil ? nil : sender.position.rssi(at: receiver.position)
  }
}
