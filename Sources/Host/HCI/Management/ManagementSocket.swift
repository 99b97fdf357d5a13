import Bytes
import Common
import Glibc
import Journal
import Loop

/// A management socket of the kernel: it executes one command at a time, and distributes events.
///
/// A socket that was bound with CAP_NET_ADMIN has its privileges while it is open, even if the process drops the
/// capability.
@LoopActor
public final class ManagementSocket {
  public enum Failure: Error, Hashable, Sendable {
    /// The kernel refused the command with this status code.
    case refused(ManagementStatus)
    /// The kernel did not answer within 10 seconds.
    case timedOut
    /// Too many commands already wait.
    case tooMany
    /// The reply cannot be decoded.
    case malformed(WireError)
    /// The socket is closed or has failed.
    case closed
  }

  private struct Waiting {
    let packet: ManagementPacket
    let then: @LoopActor (Result<[UInt8], Failure>) -> Void
  }

  /// Number of packets that could not be decoded.
  public private(set) var malformed: UInt64 = 0
  /// Whether the socket is usable.
  public private(set) var isOpen = true

  /// Decides, from the AD structures and the controller's index, whether a report of an advertiser is delivered. An
  /// unwanted report is dropped before memory is allocated for it, because many advertisers cause thousands of reports
  /// a second. Nil delivers all reports.
  public var wantsReport: (@LoopActor (ArraySlice<UInt8>, _ index: UInt16) -> Bool)?

  private let socket: HCISocket
  /// The buffer for received packets.
  private var buffer = [UInt8](repeating: 0, count: ManagementPacket.limit)
  private let scheduler: any Scheduler
  /// The commands in order. While `isAsking`, the kernel executes the first one.
  private var queue: [Waiting] = []
  private var isAsking = false
  private var timer: Registration?
  private var watch: Registration?
  private let events = Observers<(event: ManagementEvent, index: UInt16)>()

  public nonisolated static let timeLimit = Duration.seconds(10)
  /// Maximum commands in the queue, including the one that the kernel executes.
  public nonisolated static let queueLimit = 64
  /// Maximum packets that are received in one loop iteration, so that many reports do not block other work.
  private nonisolated static let turnLimit = 64
  /// Maximum number of batches of `turnLimit` packets that `takeWaiting` receives: somewhat more than the socket's
  /// buffer holds.
  private nonisolated static let waitingTurns = 8

  public init(_ socket: HCISocket, scheduler: any Scheduler) {
    self.socket = socket
    self.scheduler = scheduler
    watch = socket.watch { [weak self] in _ = self?.takeTurn() }
  }

  /// Opens a privileged socket on the management channel. Call it while the process has CAP_NET_ADMIN.
  ///
  /// - Throws: `denied` without the capability. The kernel binds an unprivileged socket as well, so the function sends
  ///   a command that requires privileges.
  public nonisolated static func bind() throws(HCIError) -> HCISocket {
    let socket = try HCISocket(.control)
    let question = ManagementPacket(code: ReadAdvertisingFeatures.opcode, index: HCISocket.noIndex, parameters: [])
    try socket.send(question.bytes)
    // The kernel replies while it receives the command; other events may arrive first.
    for _ in 0..<turnLimit {
      guard case .packet(let bytes) = socket.receive(limit: ManagementPacket.limit) else { break }
      guard let packet = try? ManagementPacket(reading: bytes), let event = try? ManagementEvent(reading: packet),
        case .commandStatus(ReadAdvertisingFeatures.opcode, let status) = event
      else { continue }
      // The kernel checks privileges before the index, which is invalid here.
      if status == .invalidIndex { return socket }
      if status == .permissionDenied { throw .denied("CAP_NET_ADMIN is missing") }
      throw .failed("the kernel answered the management command with \(status)")
    }
    throw .failed("the kernel does not answer on the management socket")
  }

  /// Closes the socket. Waiting commands fail with `closed`.
  public func close() {
    guard isOpen else { return }
    isOpen = false
    watch = nil
    timer = nil
    events.removeAll()
    let waiting = queue
    queue = []
    for entry in waiting { entry.then(.failure(.closed)) }
  }

  /// Calls `handler` for each event except replies to commands, with the index of the event's controller, for the
  /// lifetime of the registration.
  public func onEvent(_ handler: @escaping @LoopActor (ManagementEvent, UInt16) -> Void) -> Registration {
    events.add { handler($0.event, $0.index) }
  }

  /// Sends `command` after earlier commands. `then` is called once, never from within this call.
  ///
  /// - Parameter isNext: whether the command precedes all waiting ones, as the second part of an advertisement does
  ///   after the reply to the first.
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

  // MARK: Command queue

  private func send() {
    guard !isAsking, let first = queue.first else { return }
    isAsking = true
    do throws(HCIError) {
      try socket.send(first.packet.bytes)
    } catch {
      Log.shared.debug("Sending on the management socket failed: \(error)")
      // The command fails in another loop iteration, so that no caller is called from within its own call.
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

  // MARK: Receiving

  /// Delivers events that have already arrived, without waiting for the next loop iteration. Consequences of an event
  /// that arrive on another path, such as a signal of bluetoothd, must not be handled before the event.
  public func takeWaiting() {
    for _ in 0..<Self.waitingTurns { guard takeTurn() else { return } }
  }

  /// Receives at most `turnLimit` packets and handles them.
  ///
  /// - Returns: whether more may be waiting.
  private func takeTurn() -> Bool {
    for _ in 0..<Self.turnLimit where isOpen {
      switch socket.receive(into: &buffer) {
      case .packet(let count): take(count)
      case .tooLong: malformed += 1
      case .nothing: return false
      case .broken(let error):
        Log.shared.debug("The management socket failed: \(error)")
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
    default: events.call((event, packet.index))
    }
  }

  /// Completes the command that the kernel executes. Replies to commands of other programs, and replies after the time
  /// limit, are ignored.
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
    case .tooMany: "too many commands are pending"
    case .malformed(let error): "a malformed answer (\(error))"
    case .closed: "the management socket is closed"
    }
  }
}
