import Common
import Loop
import Radio

/// A simulated radio: its nodes, which of them are in range of each other, and the quality of their links.
///
/// Everything happens as an event of the scheduler, and randomness comes from the seed. In `VirtualTime`, equal calls
/// with equal seeds lead to equal events at equal times.
@LoopActor
public final class AirSpace {
  public let scheduler: any Scheduler
  /// The conditions of all links without conditions of their own.
  public var conditions: AirConditions
  /// The capabilities of nodes that are added later.
  public var controller: AirController

  let agenda: Agenda
  var generator: SplitMix64
  private(set) var nodes: [AirRadio] = []
  private var byAddress: [BluetoothAddress: AirRadio] = [:]
  private var byLink: [LinkID: AirEnd] = [:]
  private var pairs: [Set<BluetoothAddress>: AirConditions] = [:]
  var attempts: [AirAttempt] = []
  var onAir: Roster<OnAir> = Roster()
  var scans: Roster<AirScan> = Roster()
  private var lastLink: UInt64 = 0
  /// The ends of open streams. A stream is released when both ends are closed.
  private var streams: Roster<AirStream> = Roster()

  public init(
    scheduler: any Scheduler, seed: UInt64, conditions: AirConditions = .init(), controller: AirController = .init()
  ) {
    self.scheduler = scheduler
    self.conditions = conditions
    self.controller = controller
    agenda = Agenda(scheduler)
    generator = SplitMix64(seed: seed)
  }

  // MARK: Nodes

  /// Adds a node, which stays until `removeNode`, or until this object ends.
  ///
  /// - Parameters:
  ///   - address: an unused address; nil chooses one (`C0:00:00:00:00:01` and up).
  ///   - adapter: the name of the node's adapter.
  ///   - controller: the node's capabilities; nil: those of this simulated radio.
  public func addNode(
    address: BluetoothAddress? = nil, adapter: String = "air0", position: AirPosition = .init(),
    controller: AirController? = nil
  ) -> AirRadio {
    let address = address ?? freeAddress()
    precondition(!isTaken(address), "two nodes with the address \(address)")
    let node = AirRadio(
      air: self, address: address, adapter: adapter, position: position, controller: controller ?? self.controller)
    nodes.append(node)
    byAddress[address] = node
    return node
  }

  /// Removes a node permanently, as if its adapter had been unplugged.
  public func removeNode(_ node: AirRadio) {
    guard byAddress[node.address] === node else { return }
    node.leave()
    byAddress[node.address] = nil
    nodes.removeAll { $0 === node }
  }

  public func isTaken(_ address: BluetoothAddress) -> Bool { byAddress[address] != nil }

  private var lastAddress: UInt64 = 0xC000_0000_0000

  private func freeAddress() -> BluetoothAddress {
    repeat { lastAddress += 1 } while isTaken(BluetoothAddress(lastAddress))
    return BluetoothAddress(lastAddress)
  }

  /// Gives a node a random resolvable private address (Core 5.4 Vol 6 Part B 1.3.2.2).
  func moveToNewAddress(_ node: AirRadio) {
    var address: BluetoothAddress
    repeat {
      address = BluetoothAddress(generator.next() & 0x3FFF_FFFF_FFFF | 0x4000_0000_0000)
    } while isTaken(address)
    byAddress[node.address] = nil
    node.address = address
    byAddress[address] = node
  }

  func node(_ address: BluetoothAddress) -> AirRadio? { byAddress[address] }

  // MARK: Range

  /// The range of a node, in metres; nil means unlimited.
  public var range: Double? {
    didSet { rangeChanged() }
  }

  /// Decides, instead of positions, whether two nodes are in range of each other. Call `rangeChanged()` when its
  /// results change.
  public var isInRange: (@LoopActor (BluetoothAddress, BluetoothAddress) -> Bool)? {
    didSet { rangeChanged() }
  }

  /// Determines again which nodes are in range of each other, and ends links between nodes that are not.
  public func rangeChanged() {
    for end in centralEnds {
      guard let peer = end.peer, !hears(end.node, peer.node) else { continue }
      end.close("The peer went out of range.", atOnce: true)
    }
    for stream in streams.values {
      guard let peer = stream.peer, !hears(stream.node, peer.node) else { continue }
      stream.lose("The peer went out of range.")
    }
    audienceChanged()
  }

  private func hears(_ one: AirRadio, _ other: AirRadio) -> Bool {
    if let isInRange { return isInRange(one.address, other.address) }
    guard let range else { return true }
    return one.position.distance(to: other.position) <= range
  }

  // MARK: Links

  /// Sets the conditions between two nodes; nil restores the common conditions.
  public func setConditions(_ conditions: AirConditions?, between one: BluetoothAddress, and other: BluetoothAddress) {
    pairs[[one, other]] = conditions
  }

  func conditions(between one: BluetoothAddress, and other: BluetoothAddress) -> AirConditions {
    guard !pairs.isEmpty else { return conditions }
    return pairs[[one, other]] ?? conditions
  }

  /// Ends a link as if the nodes had lost each other, or ends an attempt. Either node's number identifies the link.
  ///
  /// - Returns: whether the link or attempt existed.
  @discardableResult
  public func cut(_ link: LinkID) -> Bool {
    let reason = "The connection was lost."
    if let end = byLink[link] {
      end.close(reason, atOnce: true)
    } else if let attempt = attempts.first(where: { $0.id == link }) {
      attempt.end(reason)
    } else {
      return false
    }
    return true
  }

  /// The links that are up or coming up, by their centrals' numbers, oldest first.
  public var links: [LinkID] {
    (centralEnds.map(\.id) + attempts.map(\.id)).sorted { $0.number < $1.number }
  }

  private var centralEnds: [AirEnd] {
    byLink.values.filter { $0.origin == .here }.sorted { $0.id.number < $1.id.number }
  }

  func newLinkID() -> LinkID {
    lastLink += 1
    return LinkID(lastLink)
  }

  func end(_ link: LinkID) -> AirEnd? { byLink[link] }

  private func keep(_ end: AirEnd) {
    byLink[end.id] = end
    end.node.connected(end)
  }

  func forget(_ end: AirEnd) {
    byLink[end.id] = nil
  }

  // MARK: Connecting

  /// Schedules the link for the peer's next advertising event, or the end of the attempt if no such event occurs before
  /// the timeout.
  func start(_ attempt: AirAttempt) {
    attempts.append(attempt)
    let timeout = conditions(between: attempt.node.address, and: attempt.target).connectTimeout
    attempt.timeout = agenda.at(agenda.now.advanced(by: timeout)) {
      attempt.end("\(attempt.target) did not answer within \(timeout).")
    }
    tryConnecting(attempt)
  }

  func stop(_ attempt: AirAttempt) {
    attempts.removeAll { $0 === attempt }
    attempt.node.attempts.removeAll { $0 === attempt }
    attempt.timeout.map(agenda.cancel)
    attempt.moment.map(agenda.cancel)
  }

  /// Retries attempts, because another node may have become connectable.
  func retryConnecting() {
    for attempt in attempts { tryConnecting(attempt) }
  }

  private func tryConnecting(_ attempt: AirAttempt) {
    guard attempt.moment == nil, let peer = peer(of: attempt),
      let (event, id) = peer.nextConnectableEvent(from: agenda.now)
    else { return }
    let latency = conditions(between: attempt.node.address, and: attempt.target).latency
    attempt.moment = agenda.at(event.advanced(by: latency)) { [weak self] in
      guard let self else { return }
      attempt.moment = nil
      if let peer = self.peer(of: attempt), onAir[id]?.node === peer {
        succeed(attempt, peer, by: id)
      } else {
        tryConnecting(attempt)
      }
    }
  }

  /// Returns the node that an attempt can reach now; nil if there is none.
  private func peer(of attempt: AirAttempt) -> AirRadio? {
    guard let peer = node(attempt.target), peer !== attempt.node, hears(attempt.node, peer), peer.hasRoomForLink
    else { return nil }
    return peer
  }

  private func succeed(_ attempt: AirAttempt, _ peer: AirRadio, by advertisement: UInt64) {
    let node = attempt.node
    guard node.hasRoomForLink else { return attempt.end(AirRadio.noRoom) }
    stop(attempt)
    // If the peer is connecting to this node, its attempt has succeeded, too.
    let reverse = peer.attempts.first { $0.target == node.address }
    if let reverse { stop(reverse) }
    let (number, now) = (attempt.id, agenda.now)
    let here = AirEnd(
      node, number, .here, central: number, since: now, address: node.address, peer: attempt.target)
    let there = AirEnd(
      peer, reverse?.id ?? newLinkID(), .peer, central: number, since: now, address: attempt.target,
      peer: node.address)
    here.join(there)
    keep(here)
    keep(there)
    peer.connected(by: advertisement, on: there.id)
    attempt.client.attach(to: here)
    reverse?.client.attach(to: there)
    // A delegate may end the link: `linkDown` follows in a later event, so each delegate receives `linkUp` first.
    for end in [there, here] { end.node.delegate?.linkUp(end.description) }
    if here.isOpen { attempt.client.begin() }
    if there.isOpen { reverse?.client.begin() }
  }

  // MARK: Streams

  func keep(_ stream: AirStream) -> UInt64 { streams.add(stream) }

  func forgetStream(_ number: UInt64) { _ = streams.remove(number) }

  func streams(of node: AirRadio) -> [AirStream] { streams.values.filter { $0.node === node } }

  /// The node in range that accepts streams at a public address.
  func acceptor(at address: BluetoothAddress, for node: AirRadio) -> AirRadio? {
    nodes.first {
      $0.publicAddress == address && $0 !== node && $0.power && $0.acceptsStreams && hears(node, $0)
    }
  }

  // MARK: Advertising

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

  /// Draws a random non-resolvable private address (Core 5.4 Vol 6 Part B 1.3.2.2).
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

  /// Schedules advertising events and retries attempts, because the set of nodes in range of each other has changed.
  func audienceChanged() {
    announceAll()
    retryConnecting()
  }

  private func announce(_ id: UInt64, _ advertisement: OnAir) {
    guard !scans.isEmpty else { return }
    enter(id, advertisement, from: agenda.now)
  }

  /// Schedules the delivery of an advertisement at its first advertising event from `instant` on, unless an earlier
  /// delivery is scheduled. The scans decide after each delivery which later advertising event they need next, so the
  /// events between are not simulated.
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
