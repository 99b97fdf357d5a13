import Common
import Radio

/// Schedules raw HCI packets for one controller: it decides when each packet is sent, on which link, and the result of
/// each value.
///
/// - A waiting packet's link is looked up by the peer's address before it is sent, and values that wait for a link end
///   with it. No packet reaches a link that reuses an old handle.
/// - The number of packets in the controller never exceeds its buffers. A packet counts until the controller reports
///   it, its link ends, or the link has had no report for `patience`. The kernel's own packets are reported on the same
///   handles: a report frees no more packets than this type has sent.
/// - Links share the buffers: the one with the fewest packets in the controller is next. Packets of two values for one
///   peer are never interleaved. A value that fits into the controller's buffers begins only when all its packets fit
///   at once, which leaves the kernel little chance to insert a packet of its own.
/// - Each offered value results in exactly one `refuse` or `decided`.
struct PacketScheduler: Sendable {
  typealias ValueID = UInt64

  enum Event: Hashable, Sendable {
    case offered(ValueID, ATTNotification, to: BluetoothAddress)
    case buffers(LEBuffers)
    /// The result of `lookUp`. Either `found` or `notFound` must precede the next event, except events of the
    /// controller.
    case found([HCILink])
    case notFound(HCIError)
    /// The kernel accepted the packet of `send`. `sent` or `notSent` must precede the next event, except events of the
    /// controller.
    case sent
    case notSent(HCIError)
    case completed([ControllerEvent.CompletedPackets])
    case disconnected(handle: UInt16)
    /// The program reports that the link with this peer has ended.
    case forgotten(BluetoothAddress)
    /// The time of the last `wake` is reached.
    case woken
    /// The controller is closed: nothing more can be sent.
    case closed(HCIError)
  }

  enum Action: Hashable, Sendable {
    /// Whether to receive the controller's reports of completed packets and ended links.
    case listen(Bool)
    /// Request the kernel's list of links. First pass the events that the controller has sent, then the result.
    case lookUp
    case send([UInt8])
    /// Send `woken` at this instant instead of an earlier requested one; nil cancels.
    case wake(Instant?)
    /// The value is refused for lack of capacity. `room` follows when there is capacity again.
    case refuse(ValueID)
    case decided(ValueID, RawOutcome)
    case room(BluetoothAddress)
  }

  /// Maximum number of waiting values for one peer.
  static let limitForPeer = 16
  /// Maximum number of waiting values for all peers together.
  static let limit = 64
  /// Time without a report after which a link's packets count as completed. A connection interval is at most 4 s, and
  /// 50 ms on phones.
  static let patience = Duration.milliseconds(200)
  /// Pause before a packet is sent again after a transient failure.
  static let retryDelay = Duration.milliseconds(50)
  /// Maximum consecutive attempts to send a packet.
  static let attemptLimit = 20

  private struct Waiting: Sendable {
    let id: ValueID
    let value: ATTNotification
  }

  /// The values that wait for one peer. The queue exists while it is not empty.
  private struct Queue: Sendable {
    var values: [Waiting] = []
    /// The link of the values, once it was looked up.
    var handle: UInt16?
    /// The packets of the first value that are not sent yet; empty before its first packet is sent.
    var packets: [[UInt8]] = []
  }

  /// Packets of one link in the controller.
  private struct Flight: Sendable {
    var count = 0
    /// When these packets count as completed without a report.
    var end = Instant.zero
  }

  /// The request to the owner whose result the scheduler waits for.
  private enum Request: Sendable {
    case links
    case packet(to: BluetoothAddress, handle: UInt16)
  }

  private(set) var buffers = LEBuffers.least
  private var queues: [BluetoothAddress: Queue] = [:]
  /// The peers with a queue; the most recently served one is at the end.
  private var order: [BluetoothAddress] = []
  private var flights: [UInt16: Flight] = [:]
  private var request: Request?
  /// Whether the link handles of all queues were looked up since the last external event.
  private var isFresh = false
  /// Whether a link ended while the kernel's list of links was requested. The list may then be outdated, and is
  /// requested again.
  private var endedMeanwhile = false
  /// The end of the pause after transient failures; nil if there is no pause.
  private var resume: Instant?
  private var failures = 0
  private var refused: Set<BluetoothAddress> = []
  private var isListening = false
  private var wake: Instant?

  /// Number of packets of this process in the controller that are not reported as completed.
  var inFlight: Int { flights.values.reduce(0) { $0 + $1.count } }
  private var waiting: Int { queues.values.reduce(0) { $0 + $1.values.count } }

  mutating func handle(_ event: Event, at now: Instant) -> [Action] {
    var actions: [Action] = []
    switch event {
    case .offered(let id, let value, let address): offered(Waiting(id: id, value: value), to: address, &actions)
    case .buffers(let new): buffers = LEBuffers(length: new.length, count: max(new.count, 1))
    case .found(let links): found(links, &actions)
    case .notFound(let error), .notSent(let error): failed(error, at: now, &actions)
    case .sent: sent(at: now, &actions)
    case .completed(let reports): for report in reports { completed(report, at: now) }
    case .disconnected(let handle): disconnected(handle, &actions)
    case .forgotten(let address):
      if let handle = queues[address]?.handle { flights[handle] = nil }
      end(address, .linkGone, &actions)
    case .woken: break
    case .closed(let error):
      request = nil
      flights = [:]
      endAll(.failed(error), &actions)
    }
    proceed(at: now, &actions)
    return actions
  }

  // MARK: Input

  private mutating func offered(_ waiting: Waiting, to address: BluetoothAddress, _ actions: inout [Action]) {
    guard hasRoom(for: address) else {
      if refused.count < Self.limit { refused.insert(address) }
      return actions.append(.refuse(waiting.id))
    }
    if queues[address] == nil { order.append(address) }
    queues[address, default: Queue()].values.append(waiting)
  }

  private func hasRoom(for address: BluetoothAddress) -> Bool {
    waiting < Self.limit && (queues[address]?.values.count ?? 0) < Self.limitForPeer
  }

  private mutating func found(_ links: [HCILink], _ actions: inout [Action]) {
    guard case .links = request else { return }
    request = nil
    guard !endedMeanwhile else {
      endedMeanwhile = false
      return
    }
    isFresh = true
    for address in order {
      let found = links.filter { $0.address == address && $0.isLE && $0.isConnected }
      // If two links have one address, the intended one cannot be determined.
      guard found.count == 1, let handle = found.first?.handle, queues[address]?.handle ?? handle == handle else {
        end(address, .linkGone, &actions)
        continue
      }
      queues[address]?.handle = handle
    }
  }

  private mutating func sent(at now: Instant, _ actions: inout [Action]) {
    guard case .packet(let address, let handle) = request else { return }
    request = nil
    failures = 0
    flights[handle, default: Flight()].count += 1
    flights[handle]?.end = now.advanced(by: Self.patience)
    guard queues[address]?.handle == handle, queues[address]?.packets.isEmpty == false else { return }
    queues[address]?.packets.removeFirst()
    order.removeAll { $0 == address }
    order.append(address)
    if queues[address]?.packets.isEmpty == true { decideFirst(address, .sent, &actions) }
  }

  private mutating func failed(_ error: HCIError, at now: Instant, _ actions: inout [Action]) {
    guard let request else { return }
    self.request = nil
    endedMeanwhile = false
    isFresh = false
    if case .busy = error, failures + 1 < Self.attemptLimit {
      failures += 1
      resume = now.advanced(by: Self.retryDelay)
      return
    }
    failures = 0
    switch (request, error) {
    case (.packet(let address, _), let error) where error != .noController:
      decideFirst(address, .failed(error), &actions)
    default:
      if error == .noController { flights = [:] }
      endAll(.failed(error), &actions)
    }
  }

  private mutating func completed(_ report: ControllerEvent.CompletedPackets, at now: Instant) {
    guard let flight = flights[report.handle], report.count > 0 else { return }
    let left = flight.count - report.count
    flights[report.handle] = left > 0 ? Flight(count: left, end: now.advanced(by: Self.patience)) : nil
  }

  private mutating func disconnected(_ handle: UInt16, _ actions: inout [Action]) {
    if case .links = request { endedMeanwhile = true }
    flights[handle] = nil
    for address in order where queues[address]?.handle == handle { end(address, .linkGone, &actions) }
  }

  // MARK: Results of values

  private mutating func decideFirst(_ address: BluetoothAddress, _ outcome: RawOutcome, _ actions: inout [Action]) {
    guard var queue = queues[address], !queue.values.isEmpty else { return }
    actions.append(.decided(queue.values.removeFirst().id, outcome))
    queue.packets = []
    queues[address] = queue
    if queue.values.isEmpty { remove(address) }
  }

  private mutating func end(_ address: BluetoothAddress, _ outcome: RawOutcome, _ actions: inout [Action]) {
    actions += (queues[address]?.values ?? []).map { .decided($0.id, outcome) }
    remove(address)
  }

  private mutating func endAll(_ outcome: RawOutcome, _ actions: inout [Action]) {
    for address in order { end(address, outcome, &actions) }
  }

  private mutating func remove(_ address: BluetoothAddress) {
    queues[address] = nil
    order.removeAll { $0 == address }
  }

  // MARK: Sending

  private mutating func proceed(at now: Instant, _ actions: inout [Action]) {
    flights = flights.filter { $0.value.end > now }
    if let due = resume, due <= now { resume = nil }
    for address in refused.sorted(by: { $0.value < $1.value }) where hasRoom(for: address) {
      refused.remove(address)
      actions.append(.room(address))
    }
    let next = request == nil ? self.next() : nil
    if request == nil, next == nil { isFresh = false }
    // Listening begins before the first packet is sent, so that the report of its completion is received.
    let mustListen = !queues.isEmpty || !flights.isEmpty
    if mustListen != isListening {
      isListening = mustListen
      actions.append(.listen(mustListen))
    }
    if let next { ask(next, &actions) }
    let wake = ([resume] + flights.values.map(\.end)).compactMap { $0 }.min()
    if wake != self.wake {
      self.wake = wake
      actions.append(.wake(wake))
    }
  }

  /// The peer to serve next: one whose link must be looked up, or one whose packet is to be sent. Nil if there is none,
  /// or if the buffers have no space for the packet.
  ///
  /// A peer without space blocks the others; otherwise short values would always be sent before a long one.
  private func next() -> BluetoothAddress? {
    guard resume == nil else { return nil }
    // The link is looked up when the value is offered, so that the value can end with it.
    if let address = order.first(where: { queues[$0]?.handle == nil }) { return address }
    let counted = order.enumerated().compactMap { position, address in
      queues[address].map { queue in
        (
          address, queue,
          key: (queue.handle.flatMap { flights[$0]?.count } ?? 0, queue.packets.isEmpty ? 1 : 0, position)
        )
      }
    }
    guard let (address, queue, _) = counted.min(by: { $0.key < $1.key }) else { return nil }
    let free = buffers.count - inFlight
    guard queue.packets.isEmpty, let count = queue.values.first?.value.packetCount(buffers) else {
      return free > 0 ? address : nil
    }
    return free >= (count > buffers.count ? 1 : count) ? address : nil
  }

  private mutating func ask(_ address: BluetoothAddress, _ actions: inout [Action]) {
    guard isFresh, let handle = queues[address]?.handle else {
      request = .links
      return actions.append(.lookUp)
    }
    if queues[address]?.packets.isEmpty == true, let value = queues[address]?.values.first?.value {
      queues[address]?.packets = value.packets(on: handle, buffers: buffers)
    }
    guard let packet = queues[address]?.packets.first else { return }
    request = .packet(to: address, handle: handle)
    actions.append(.send(packet))
  }
}
