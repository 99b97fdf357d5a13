import Bytes
import Journal
import Loop

/// One controller's raw socket: packets that wait for room in the controller, and what it says of that room.
///
/// The kernel counts the controller's buffers for its own packets and does not know of these: no more are sent than fit, and
/// the next when the controller is through with one, or has said nothing for a while.
@LoopActor
final class RawController {
  let socket: HCISocket
  private(set) var buffers = LEBuffers.least
  private let index: UInt16
  private let scheduler: any Scheduler
  private var queue: [[UInt8]] = []
  /// Packets that the controller has, and the handle of their link.
  private var inFlight = 0
  private var link: UInt16 = 0
  private var watch: Registration?
  private var timer: Registration?

  // HCIGETDEVINFO of <bluetooth/hci.h>.
  private static let getDeviceInformation: UInt = 0x8004_48D3
  private static let packetLimit = 260
  /// A few of the longest values in the smallest packets.
  private static let queueLimit = 128
  /// A connection interval is 4 s at most, and 50 ms on phones.
  private static let patience = Duration.milliseconds(200)

  /// Asks it for the size of its buffers.
  init(_ socket: HCISocket, _ index: UInt16, _ scheduler: any Scheduler) throws(HCIError) {
    self.socket = socket
    self.index = index
    self.scheduler = scheduler
    listen(to: .buffers)
    try put(LEBuffers.question)
  }

  func send(_ packets: [[UInt8]]) throws(HCIError) {
    guard queue.count + packets.count <= Self.queueLimit else { throw .failed("too many packets wait") }
    if queue.isEmpty { inFlight = 0 }
    queue += packets
    try pump()
  }

  private func pump() throws(HCIError) {
    while inFlight < buffers.count, let packet = queue.first {
      queue.removeFirst()
      inFlight += 1
      if packet.count > 2 { link = UInt16(packet[1]) | UInt16(packet[2]) << 8 }
      do throws(HCIError) {
        try put(packet)
      } catch {
        queue = []
        rest()
        throw error
      }
    }
    guard !queue.isEmpty else { return rest() }
    listen(to: .completions)
    timer = scheduler.schedule(after: Self.patience) { [weak self] in
      self?.inFlight = 0
      self?.goOn()
    }
  }

  /// There is nothing to send, and so nothing to listen to.
  private func rest() {
    timer = nil
    if listening == .completions { listen(to: .nothing) }
  }

  private func goOn() {
    do throws(HCIError) {
      try pump()
    } catch {
      Log.shared.debug("The rest of a value is not sent: \(error)")
    }
  }

  private func put(_ packet: [UInt8]) throws(HCIError) {
    try Capabilities.using(.netRaw) { () throws(HCIError) in try socket.send(packet) }
  }

  // MARK: What the controller says

  private enum Listening { case nothing, buffers, completions }
  private var listening = Listening.nothing

  /// Nothing else is let through to the socket; an answer about the buffers that did not come yet is given up.
  private func listen(to listening: Listening) {
    guard listening != self.listening else { return }
    self.listening = listening
    switch listening {
    case .nothing: _ = socket.filter(events: [])
    case .buffers: _ = socket.filter(events: [LEBuffers.completeEvent], opcode: LEBuffers.opcode)
    case .completions: _ = socket.filter(events: [LEBuffers.completedEvent])
    }
    // A descriptor has one watch at a time.
    watch = nil
    watch =
      listening == .nothing
      ? nil
      : socket.watch { [weak self] in self?.readable() }
  }

  private func readable() {
    switch (socket.receive(limit: Self.packetLimit), listening) {
    case (.packet(let bytes), .buffers): answered(bytes)
    case (.packet(let bytes), .completions): completed(bytes)
    case (.broken, _): listen(to: .nothing)
    default: break
    }
  }

  private func answered(_ bytes: [UInt8]) {
    listen(to: .nothing)
    let own = try? LEBuffers.answer(reading: bytes)
    buffers = own ?? shared() ?? .least
    Log.shared.debug("hci\(index) takes \(buffers.count) LE packets of \(buffers.length) bytes")
  }

  private func shared() -> LEBuffers? {
    var bytes = LEBuffers.deviceQuestion(index)
    do throws(HCIError) {
      try socket.control(Self.getDeviceInformation, &bytes)
    } catch {
      return nil
    }
    return try? LEBuffers.shared(reading: bytes)
  }

  private func completed(_ bytes: [UInt8]) {
    guard let count = try? LEBuffers.completed(on: link, reading: bytes), count > 0 else { return }
    inFlight = max(0, inFlight - count)
    goOn()
  }
}
