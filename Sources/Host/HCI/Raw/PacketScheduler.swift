import Common
import Radio

/// The decisions of raw HCI for one controller: which packet goes when, on which link, and what becomes of each value.
///
/// - A link is looked up by its peer's address before a packet that waited, and what waits for a link goes with the link:
///   no packet reaches a link that was given an old handle.
/// - No more packets are on their way than the controller has buffers. A packet counts until the controller is through
///   with it, its link ends, or the link has shown nothing of the kind for `patience`. The kernel's own packets are
///   reported on the same handles: a report frees no more than is on its way from here.
/// - Links share the buffers: the one with the fewest packets on their way is next. The packets of a value are never
///   mixed with those of another value for the same peer, and a value that fits into the controller as a whole is sent as
///   a whole, so that the kernel has the least chance to put a packet of its own between.
/// - Each value that is offered gets exactly one `refuse` or `decided`.
struct PacketScheduler: Sendable {
  typealias ValueID = UInt64

  enum Event: Hashable, Sendable {
    case offered(ValueID, ATTNotification, to: BluetoothAddress)
    case buffers(LEBuffers)
    /// The answers to `lookUp`: one of the two comes before the next event but those of the controller.
    case found([HCILink])
    case notFound(HCIError)
    /// The answers to `send`, likewise.
    case sent
    case notSent(HCIError)
    case completed([ControllerEvent.CompletedPackets])
    case disconnected(handle: UInt16)
    /// The program has heard that the link with this peer ended.
    case forgotten(BluetoothAddress)
    /// The time of the last `wake` has come.
    case woken
    /// The controller is closed: nothing can be sent any more.
    case closed(HCIError)
  }

  enum Action: Hashable, Sendable {
    /// Whether the controller's reports of completed packets and ended links are wanted.
    case listen(Bool)
    /// Ask the kernel for its links, then hand over what the controller has said, then the answer.
    case lookUp
    case send([UInt8])
    /// `woken` is wanted at this instant instead of the one before; nil: at none.
    case wake(Instant?)
    /// There is no room for this value; `room` comes when there is.
    case refuse(ValueID)
    case decided(ValueID, RawOutcome)
    case room(BluetoothAddress)
  }

  /// Values that wait for one peer, and for all.
  static let limitForPeer = 16
  static let limit = 64
  /// How long a link may keep packets without a report. A connection interval is 4 s at most, and 50 ms on phones.
  static let patience = Duration.milliseconds(200)
  /// How long after a passing failure the same packet is tried again, and how often one after the other.
  static let retryDelay = Duration.milliseconds(50)
  static let attemptLimit = 20

  private struct Waiting: Sendable {
    let id: ValueID
    let value: ATTNotification
  }

  /// What waits for one peer. It is there while something waits.
  private struct Queue: Sendable {
    var values: [Waiting] = []
    /// The link for which the values are meant, once it was looked up.
    var handle: UInt16?
    /// Of the first value the packets that are still to be sent, once its first packet was due.
    var packets: [[UInt8]] = []
  }

  /// Packets of one link that the controller has.
  private struct Flight: Sendable {
    var count = 0
    /// When they count as done though the controller has said nothing.
    var end = Instant.zero
  }

  /// What was asked for and not yet answered.
  private enum Request: Sendable {
    case links
    case packet(to: BluetoothAddress, handle: UInt16)
  }

  private(set) var buffers = LEBuffers.least
  private var queues: [BluetoothAddress: Queue] = [:]
  /// The peers with a queue; the one that was served last is at the end.
  private var order: [BluetoothAddress] = []
  private var flights: [UInt16: Flight] = [:]
  private var request: Request?
  /// Whether the handles of the queues were looked up since the last event from outside.
  private var isFresh = false
  /// Whether a link ended while the kernel was asked for its links: its answer may be older than that.
  private var endedMeanwhile = false
  /// Not before this instant is anything tried again, after so many passing failures.
  private var resume: Instant?
  private var failures = 0
  private var refused: Set<BluetoothAddress> = []
  private var isListening = false
  private var wake: Instant?

  /// Packets that the controller has of us.
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

  // MARK: What comes in

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
      // Of two links with one address it cannot be told which one is meant.
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

  // MARK: What becomes of values

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

  // MARK: What goes out

  private mutating func proceed(at now: Instant, _ actions: inout [Action]) {
    flights = flights.filter { $0.value.end > now }
    if let due = resume, due <= now { resume = nil }
    for address in refused.sorted(by: { $0.value < $1.value }) where hasRoom(for: address) {
      refused.remove(address)
      actions.append(.room(address))
    }
    let next = request == nil ? self.next() : nil
    if request == nil, next == nil { isFresh = false }
    // First of all: what is sent now must find its report listened to.
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

  /// The peer whose packet is next, or whose link is not known yet; nil while there is none, or no room for its packet.
  ///
  /// A peer for which there is no room lets no other pass, or a long value would never find room beside short ones.
  private func next() -> BluetoothAddress? {
    guard resume == nil else { return nil }
    // The link is the one that there is when the value is offered, so that the value can go with it.
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
