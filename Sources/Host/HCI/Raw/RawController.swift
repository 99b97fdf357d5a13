import Bytes
import Journal
import Loop
import Radio

/// One controller's raw socket: it executes the decisions of a `PacketScheduler`, and passes the controller's events to
/// it.
@LoopActor
final class RawController {
  private let socket: any RawSocket
  private let index: UInt16
  private let scheduler: any Scheduler
  private let privilege: RawPrivilege
  private var packets = PacketScheduler()
  private var callers: [PacketScheduler.ValueID: @LoopActor (RawOutcome) -> Void] = [:]
  private var lastID: PacketScheduler.ValueID = 0
  private var watch: Registration?
  private var deadline: Deadline?
  /// Whether the controller has not reported its buffers yet.
  private var awaitsBuffers = true
  private var awaitsReports = false

  /// Called when values of a peer can be accepted again.
  var onRoom: @LoopActor (BluetoothAddress) -> Void = { _ in }
  /// Called when the controller is gone and the socket is unusable.
  var onClosed: @LoopActor () -> Void = {}

  var buffers: LEBuffers { packets.buffers }

  /// Maximum packets that are received in one loop iteration.
  private nonisolated static let turnLimit = 64

  /// Requests the buffer sizes of the controller `index`.
  init(
    _ socket: any RawSocket, _ index: UInt16, _ scheduler: any Scheduler, _ privilege: @escaping RawPrivilege
  ) throws(HCIError) {
    self.socket = socket
    self.index = index
    self.scheduler = scheduler
    self.privilege = privilege
    deadline = Deadline(scheduler) { [weak self] in self?.handle(.woken) }
    watch = socket.watch { [weak self] in self?.readable() }
    listen()
    try put(LEBuffers.question)
  }

  func links() throws(HCIError) -> [HCILink] { try socket.links(of: index) }

  func send(
    _ value: ATTNotification, to address: BluetoothAddress, then: @escaping @LoopActor (RawOutcome) -> Void
  ) -> RawAcceptance {
    lastID += 1
    let id = lastID
    callers[id] = then
    return handle(.offered(id, value, to: address)).contains(.refuse(id)) ? .full : .accepted
  }

  func forget(_ address: BluetoothAddress) { handle(.forgotten(address)) }

  func close() {
    watch = nil
    handle(.closed(.noController))
  }

  // MARK: Events and actions

  /// Handles `event` and all events that result from it, such as sent packets and look-ups.
  ///
  /// - Returns: the actions for `event` itself.
  @discardableResult
  private func handle(_ event: PacketScheduler.Event) -> [PacketScheduler.Action] {
    let first = packets.handle(event, at: scheduler.now)
    var events = first.flatMap { perform($0) }
    var next = 0
    while next < events.count {
      events += packets.handle(events[next], at: scheduler.now).flatMap { perform($0) }
      next += 1
    }
    return first
  }

  /// Performs one action.
  ///
  /// - Returns: the events that result from the action.
  private func perform(_ action: PacketScheduler.Action) -> [PacketScheduler.Event] {
    switch action {
    case .listen(let isOn):
      awaitsReports = isOn
      listen()
    case .lookUp: return lookUp()
    case .send(let packet): return [sent(packet)]
    case .wake(let instant): deadline?.set(instant)
    case .refuse(let id): callers[id] = nil
    case .decided(let id, let outcome):
      guard let then = callers.removeValue(forKey: id) else { break }
      // The caller is not called from within its own call.
      EventLoop.shared.soon { then(outcome) }
    case .room(let address): EventLoop.shared.soon { [weak self] in self?.onRoom(address) }
    }
    return []
  }

  /// Requests the kernel's list first, then reads the controller's events: these include ends of links that the list
  /// does not show yet.
  private func lookUp() -> [PacketScheduler.Event] {
    do throws(HCIError) {
      let links = try socket.links(of: index)
      return arrivals() + [.found(links)]
    } catch {
      Log.shared.debug("The links of hci\(index) cannot be listed: \(error)")
      return [.notFound(error)]
    }
  }

  private func sent(_ packet: [UInt8]) -> PacketScheduler.Event {
    do throws(HCIError) {
      try put(packet)
      return .sent
    } catch {
      Log.shared.debug("Sending a packet to hci\(index) failed: \(error)")
      if error == .noController { closed() }
      return .notSent(error)
    }
  }

  private func put(_ packet: [UInt8]) throws(HCIError) {
    try privilege { () throws(HCIError) in try socket.send(packet) }
  }

  private func closed() {
    watch = nil
    EventLoop.shared.soon { [weak self] in self?.onClosed() }
  }

  // MARK: Events of the controller

  /// Sets the filter of the socket to the events that are needed, so that packets of other programs do not wake the
  /// loop.
  private func listen() {
    var filter = HCIFilter.nothing
    if awaitsBuffers {
      filter.events.insert(ControllerEvent.commandComplete)
      filter.opcode = LEBuffers.opcode
    }
    if awaitsReports {
      filter.events.formUnion([ControllerEvent.completedPackets, ControllerEvent.disconnectionComplete])
    }
    do throws(HCIError) {
      try privilege { [filter] () throws(HCIError) in try socket.listen(to: filter) }
    } catch {
      Log.shared.debug("The event filter of hci\(index) cannot be set: \(error)")
    }
  }

  private func readable() {
    for event in arrivals() { handle(event) }
  }

  private func arrivals() -> [PacketScheduler.Event] {
    var events: [PacketScheduler.Event] = []
    for _ in 0..<Self.turnLimit where watch != nil {
      switch socket.receive(limit: ControllerEvent.limit) {
      case .packet(let bytes): if let event = event(bytes) { events.append(event) }
      case .tooLong: Log.shared.debug("hci\(index) sent an event longer than the maximum")
      case .nothing: return events
      case .broken(let error):
        Log.shared.debug("The raw socket of hci\(index) failed: \(error)")
        closed()
        events.append(.closed(error))
      }
    }
    return events
  }

  /// Decodes an event; nil for malformed events and for those that are not needed.
  private func event(_ bytes: [UInt8]) -> PacketScheduler.Event? {
    switch try? ControllerEvent(reading: bytes) {
    case .buffers(let own)? where awaitsBuffers:
      awaitsBuffers = false
      listen()
      let buffers = own ?? socket.sharedBuffers(of: index) ?? .least
      Log.shared.debug("hci\(index) has buffers for \(buffers.count) LE packets of \(buffers.length) bytes")
      return .buffers(buffers)
    case .completed(let reports)?: return .completed(reports)
    case .disconnected(let handle)?: return .disconnected(handle: handle)
    default: return nil
    }
  }
}
