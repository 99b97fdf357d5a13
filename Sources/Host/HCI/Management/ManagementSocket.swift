import Bytes
import Common
import Glibc
import Journal
import Loop

/// A socket of the kernel's Bluetooth management: it carries out one command at a time, and hands out the events in
/// between.
///
/// A socket that was bound with CAP_NET_ADMIN may do everything for as long as it is open, whatever becomes of the
/// capability.
@LoopActor
public final class ManagementSocket {
  public enum Failure: Error, Hashable, Sendable {
    /// The kernel refused, with this status.
    case refused(ManagementStatus)
    /// No answer within 10 seconds.
    case timedOut
    /// Too many commands wait already.
    case tooMany
    /// The answer cannot be decoded.
    case malformed(WireError)
    /// The socket is closed, or broke.
    case closed
  }

  private struct Waiting {
    let packet: ManagementPacket
    let then: @LoopActor (Result<[UInt8], Failure>) -> Void
  }

  /// How many packets could not be decoded.
  public private(set) var malformed: UInt64 = 0
  /// Whether the socket can still be used.
  public private(set) var isOpen = true

  /// Decides, from the AD structures and the controller's index, whether a report of an advertiser is delivered. An
  /// unwanted report is dropped before anything is allocated for it: a crowd sends thousands a second. Nil: all are
  /// delivered.
  public var wantsReport: (@LoopActor (ArraySlice<UInt8>, _ index: UInt16) -> Bool)?

  private let socket: HCISocket
  /// What the next packet is received into.
  private var buffer = [UInt8](repeating: 0, count: ManagementPacket.limit)
  private let scheduler: any Scheduler
  /// While `isAsking` the first one is with the kernel.
  private var queue: [Waiting] = []
  private var isAsking = false
  private var timer: Registration?
  private var watch: Registration?
  private var handlers: [(id: Int, handler: @LoopActor (ManagementEvent, UInt16) -> Void)] = []
  private var lastHandler = 0

  public nonisolated static let timeLimit = Duration.seconds(10)
  /// How many commands wait at most, the one with the kernel included.
  public nonisolated static let queueLimit = 64
  /// How many packets one turn of the loop takes, so that a storm of reports stops no other part of the program.
  private nonisolated static let turnLimit = 64
  /// How many turns' packets `takeWaiting` takes: somewhat more than fit into the socket.
  private nonisolated static let waitingTurns = 8

  public init(_ socket: HCISocket, scheduler: any Scheduler) {
    self.socket = socket
    self.scheduler = scheduler
    watch = socket.watch { [weak self] in _ = self?.takeTurn() }
  }

  /// Opens a socket on the management channel that may do everything. A program calls this while it has CAP_NET_ADMIN.
  ///
  /// - Throws: `denied` without the capability. The kernel binds such a socket all the same, so that the socket tries a
  ///   command that the kernel takes from privileged sockets only.
  public nonisolated static func bind() throws(HCIError) -> HCISocket {
    let socket = try HCISocket(.control)
    let question = ManagementPacket(code: ReadAdvertisingFeatures.opcode, index: HCISocket.noIndex, parameters: [])
    try socket.send(question.bytes)
    // The kernel answers while it takes the question; other events may come first.
    for _ in 0..<turnLimit {
      guard case .packet(let bytes) = socket.receive(limit: ManagementPacket.limit) else { break }
      guard let packet = try? ManagementPacket(reading: bytes), let event = try? ManagementEvent(reading: packet),
        case .commandStatus(ReadAdvertisingFeatures.opcode, let status) = event
      else { continue }
      // The kernel checks the privilege before the index, which stands for no controller.
      if status == .invalidIndex { return socket }
      if status == .permissionDenied { throw .denied("CAP_NET_ADMIN is missing") }
      throw .failed("the management socket answers \(status)")
    }
    throw .failed("the management socket does not answer")
  }

  /// Closes the socket. Commands that wait fail with `closed`.
  public func close() {
    guard isOpen else { return }
    isOpen = false
    watch = nil
    timer = nil
    handlers = []
    let waiting = queue
    queue = []
    for entry in waiting { entry.then(.failure(.closed)) }
  }

  /// Calls `handler` for each event but the answers to commands, with the index of the event's controller, for as long as
  /// the registration lives.
  public func onEvent(_ handler: @escaping @LoopActor (ManagementEvent, UInt16) -> Void) -> Registration {
    lastHandler += 1
    let id = lastHandler
    handlers.append((id, handler))
    return Registration { [weak self] in self?.handlers.removeAll { $0.id == id } }
  }

  /// Sends `command` after the commands before it. `then` is called once, never from within this call.
  ///
  /// - Parameter isNext: whether the command goes before all others that wait, as the second half of an advertisement does
  ///   after the answer to the first.
  public func call<Command: ManagementCommand>(
    _ command: Command, on index: UInt16, isNext: Bool = false,
    then: @escaping @LoopActor (Result<Command.Reply, Failure>) -> Void
  ) {
    guard isOpen, queue.count < Self.queueLimit else {
      let failure = isOpen ? Failure.tooMany : .closed
      return EventLoop.shared.soon { then(.failure(failure)) }
    }
    var writer = ByteWriter()
    command.write(to: &writer)
    let packet = ManagementPacket(code: Command.opcode, index: index, parameters: writer.bytes)
    let waiting = Waiting(packet: packet) { result in
      then(result.flatMap { bytes in Self.reply(to: Command.self, bytes) })
    }
    queue.insert(waiting, at: isNext ? (isAsking ? 1 : 0) : queue.count)
    send()
  }

  private static func reply<Command: ManagementCommand>(
    to _: Command.Type, _ bytes: [UInt8]
  ) -> Result<Command.Reply, Failure> {
    var reader = ByteReader(bytes)
    do throws(WireError) {
      return .success(try Command.reply(reading: &reader))
    } catch {
      return .failure(.malformed(error))
    }
  }

  // MARK: One at a time

  private func send() {
    guard !isAsking, let first = queue.first else { return }
    isAsking = true
    do throws(HCIError) {
      try socket.send(first.packet.bytes)
    } catch {
      Log.shared.debug("The management socket does not send: \(error)")
      // The command fails in another turn of the loop: no caller is called from within its own call.
      return EventLoop.shared.soon { [weak self] in self?.finish(.failure(.closed)) }
    }
    timer = scheduler.schedule(after: Self.timeLimit) { [weak self] in self?.finish(.failure(.timedOut)) }
  }

  private func finish(_ result: Result<[UInt8], Failure>) {
    timer = nil
    guard isAsking, !queue.isEmpty else { return }
    isAsking = false
    queue.removeFirst().then(result)
    send()
  }

  // MARK: What arrives

  /// Hands out what has arrived by now, without waiting for the loop's next turn: what came of an event by another way, as a signal of
  /// bluetoothd does, must not be heard before the event.
  public func takeWaiting() {
    for _ in 0..<Self.waitingTurns { guard takeTurn() else { return } }
  }

  /// Takes the packets of one turn of the loop.
  ///
  /// - Returns: whether more may wait.
  private func takeTurn() -> Bool {
    for _ in 0..<Self.turnLimit where isOpen {
      switch socket.receive(into: &buffer) {
      case .packet(let count): take(count)
      case .tooLong: malformed += 1
      case .nothing: return false
      case .broken(let error):
        Log.shared.debug("The management socket is broken: \(error)")
        close()
      }
    }
    return isOpen
  }

  private func take(_ count: Int) {
    if let wantsReport, let (data, index) = MonitoredReport.data(in: buffer[..<count]), !wantsReport(data, index) {
      return
    }
    guard let packet = try? ManagementPacket(reading: Array(buffer[..<count])),
      let event = try? ManagementEvent(reading: packet)
    else {
      malformed += 1
      return
    }
    switch event {
    case .commandComplete(let opcode, let status, let parameters):
      answered(opcode, packet.index, status == .success ? .success(parameters) : .failure(.refused(status)))
    case .commandStatus(let opcode, let status):
      answered(opcode, packet.index, .failure(.refused(status)))
    default:
      for (id, handler) in handlers where handlers.contains(where: { $0.id == id }) { handler(event, packet.index) }
    }
  }

  /// Passes over an answer to no command of ours, and one that came too late.
  private func answered(_ opcode: UInt16, _ index: UInt16, _ result: Result<[UInt8], Failure>) {
    guard isAsking, let first = queue.first, first.packet.code == opcode, first.packet.index == index else { return }
    finish(result)
  }
}

extension ManagementSocket.Failure: CustomStringConvertible {
  public var description: String {
    switch self {
    case .refused(let status): "\(status)"
    case .timedOut: "no answer within \(ManagementSocket.timeLimit.components.seconds) s"
    case .tooMany: "too many commands wait already"
    case .malformed(let error): "an answer that makes no sense (\(error))"
    case .closed: "the management socket is closed"
    }
  }
}
