import CPackets
import Glibc
import Loop

/// One end of a pair of connected sockets that keep packets apart (`SOCK_SEQPACKET`), on the event loop. The other end
/// goes to another program as a descriptor, so that the two exchange packets without the bus.
///
/// No call waits. Packets keep their order and their bounds; one of no bytes is a packet, too.
@LoopActor
public final class PacketSocket {
  /// What became of a packet that was to be sent.
  public enum Sending: Hashable, Sendable {
    /// The kernel has it, for the other end to take.
    case sent
    /// The other end has not taken enough of what was sent before; `onRoom` is called when it has.
    case full
    /// The other end is gone, or this one was closed.
    case closed
    /// The packet is longer than the kernel's buffer for all of them.
    case tooLong
  }

  /// What was found when a packet was asked for.
  public enum Arrival: Hashable, Sendable {
    case packet([UInt8])
    /// A packet over the limit came, and is thrown away.
    case tooLong
    case nothing
    /// The other end is gone and all that it sent is received, or this end was closed.
    case closed
  }

  /// Called while packets wait to be received, again in each turn of the loop (but see `gatheringTime`), and once before
  /// `onHangUp`. Without it packets wait in the kernel.
  public var onReadable: (@LoopActor () -> Void)? { didSet { watch() } }
  /// Called once after `.full`, however often that was said, when there is room again.
  public var onRoom: (@LoopActor () -> Void)?
  /// Called once, when every copy of the other end is closed. What it had sent can still be received.
  public var onHangUp: (@LoopActor () -> Void)?

  /// How long `onReadable` pauses after it received several packets: a program that wakes for each packet of many costs the machine
  /// more than one that wakes for several. After the pause it is called even where nothing came. No pause follows a single packet,
  /// or a `receive` that took as many as it asked for. Nil: never a pause.
  public var gatheringTime: Duration?

  private let end: FileDescriptor
  /// Whether the last `receive` took several packets, and fewer than were asked for: all that waited.
  private var tookSeveral = false
  /// Set while `onReadable` waits for the gathering time to pass.
  private var gathering: Registration?
  private var isWaitingForRoom = false
  private var isHungUp = false
  private var watched: Readiness = []
  private var registration: Registration?

  /// An end that was received from another program.
  ///
  /// - Parameter buffer: the bytes that may wait on their way to the other end, as with `pair`.
  /// - Throws: `Failed` where the descriptor is no socket.
  public init(owning end: FileDescriptor, buffer: Int? = nil) throws(DBusError) {
    self.end = end
    if let buffer { try Self.limit(end, to: buffer) }
    // With the sender's credentials beside each packet, one of no bytes differs from the end of them.
    var yes: Int32 = 1
    guard setsockopt(end.raw, SOL_SOCKET, SO_PASSCRED, &yes, socklen_t(MemoryLayout<Int32>.size)) == 0,
      fcntl(end.raw, F_SETFL, O_NONBLOCK) == 0
    else { throw .failed("The descriptor is not a socket for packets: \(reason(errno)).") }
    watch()
  }

  /// Makes a pair.
  ///
  /// - Parameters:
  ///   - buffer: the bytes that may wait in the kernel on their way to the other end, each packet with some hundred bytes of the
  ///     kernel's own; nil for what the machine has as its default (about 200 KiB). The kernel takes 4608 where less is asked for.
  ///   - otherBuffer: the same on their way from the other end. Where more is asked for than the machine allows
  ///     (`net.core.wmem_max`), the kernel takes that.
  /// - Returns: this end, and the other one, to be handed over and then dropped: an end is closed with its last copy.
  public static func pair(buffer: Int? = nil, otherBuffer: Int? = nil) throws(DBusError)
    -> (socket: PacketSocket, other: FileDescriptor)
  {
    var ends: [Int32] = [-1, -1]
    let kind = Int32(SOCK_SEQPACKET.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue)
    guard socketpair(AF_UNIX, kind, 0, &ends) == 0 else { throw .failed("No pair of sockets: \(reason(errno)).") }
    let (end, other) = (FileDescriptor(owning: ends[0]), FileDescriptor(owning: ends[1]))
    if let otherBuffer { try limit(other, to: otherBuffer) }
    return (try PacketSocket(owning: end, buffer: buffer), other)
  }

  /// Has more or fewer bytes wait from now on, as with `pair`; what waits already goes on. Does nothing for a closed end.
  public func limit(to buffer: Int) { try? Self.limit(end, to: buffer) }

  private static func limit(_ end: FileDescriptor, to buffer: Int) throws(DBusError) {
    // The kernel doubles the number, for its own part.
    var half = Int32(clamping: buffer / 2)
    guard setsockopt(end.raw, SOL_SOCKET, SO_SNDBUF, &half, socklen_t(MemoryLayout<Int32>.size)) == 0 else {
      throw .failed("The buffer of a socket cannot be set: \(reason(errno)).")
    }
  }

  /// Whether packets can still be sent: the other end is there, as far as is known, and this one was not closed.
  public var isOpen: Bool { !isHungUp && !isClosed }

  /// Whether this end was closed.
  public var isClosed: Bool { end.raw < 0 }

  /// Whether every copy of the other end is closed, as the kernel says now; `onHangUp` may not have been called yet.
  public var isOtherEndGone: Bool {
    var entry = pollfd(fd: end.raw, events: 0, revents: 0)
    return !isOpen || poll(&entry, 1, 0) > 0 && entry.revents & Int16(POLLHUP) != 0
  }

  /// Whether the other end was closed before it had taken all packets. To be asked once, when the other end is gone.
  public var hasLostPackets: Bool {
    var error: Int32 = 0
    var length = socklen_t(MemoryLayout<Int32>.size)
    return getsockopt(end.raw, SOL_SOCKET, SO_ERROR, &error, &length) == 0 && error == ECONNRESET
  }

  /// Closes this end; the other one hears of it. No closure is called any more.
  public func close() {
    // To take `onReadable` away has the end watched anew, so that comes before the watching ends.
    (onReadable, onRoom, onHangUp) = (nil, nil, nil)
    registration?.cancel()
    gathering?.cancel()
    (registration, gathering) = (nil, nil)
    end.close()
  }

  /// Sends one packet. After `.full` no packet is taken before `onRoom`.
  public func send(_ packet: [UInt8]) -> Sending {
    if isWaitingForRoom, isOpen { return .full }
    while true {
      if Glibc.send(end.raw, packet, packet.count, Int32(MSG_NOSIGNAL)) >= 0 { return .sent }
      switch errno {
      case EINTR: continue
      case EAGAIN, ENOBUFS, ENOMEM:
        isWaitingForRoom = true
        watch()
        return .full
      case EMSGSIZE: return .tooLong
      default: return .closed
      }
    }
  }

  /// Takes one packet.
  ///
  /// - Parameter limit: the most bytes that it may have.
  public func receive(limit: Int) -> Arrival { receive(limit: limit, upTo: 1).first ?? .nothing }

  /// Takes the packets that wait, in one call of the kernel.
  ///
  /// - Parameters:
  ///   - limit: the most bytes that each may have.
  ///   - count: how many are taken at most, up to 32.
  /// - Returns: in their order; none where none waits, and `.closed` as the last where the end has come.
  public func receive(limit: Int, upTo count: Int) -> [Arrival] {
    let arrivals = Self.packets(from: end.raw, limit: limit, upTo: count)
    tookSeveral = arrivals.count > 1 && arrivals.count < count
    return arrivals
  }

  /// `nonisolated`, for Swift checks the executor each time that a closure of the actor is entered, and this one is entered for every batch.
  private nonisolated static func packets(from descriptor: Int32, limit: Int, upTo count: Int) -> [Arrival] {
    let space = max(limit, 1)
    return withUnsafeTemporaryAllocation(byteCount: count * space, alignment: 1) { bytes in
      withUnsafeTemporaryAllocation(of: Int32.self, capacity: count) { lengths in
        var came: Int32
        repeat {
          came = earshot_receive_packets(descriptor, bytes.baseAddress, space, lengths.baseAddress, Int32(count))
          // The other end was closed before it took all that was sent to it; what it sent comes after that error.
        } while came < 0 && (errno == EINTR || errno == ECONNRESET)
        guard came >= 0 else { return errno == EAGAIN ? [] : [.closed] }
        var arrivals: [Arrival] = []
        arrivals.reserveCapacity(Int(came))
        for index in 0..<Int(came) {
          let length = Int(lengths[index])
          guard length >= 0 else { return arrivals + [.closed] }
          let packet = UnsafeRawBufferPointer(rebasing: bytes[(index * space)...].prefix(length))
          arrivals.append(length > limit ? .tooLong : .packet(Array(packet)))
        }
        return arrivals
      }
    }
  }

  // MARK: Watching

  /// Has the loop watch for what is wanted now. It always reports a hang-up.
  private func watch() {
    var wanted: Readiness = .hungUp
    if onReadable != nil, gathering == nil { wanted.insert(.readable) }
    if isWaitingForRoom { wanted.insert(.writable) }
    guard isOpen, wanted != watched else { return }
    watched = wanted
    registration?.cancel()
    let source = EventLoop.shared.watch(end.raw, for: wanted) { [weak self] in self?.handle($0) }
    // The source goes before the descriptor, whose number may be another one's right after.
    registration = Registration { [end] in
      source.cancel()
      withExtendedLifetime(end) {}
    }
  }

  /// Calls `onReadable`, and decides when to call it again.
  private func read() {
    let wasGathering = gathering != nil
    tookSeveral = false
    onReadable?()
    if let gatheringTime, isOpen, tookSeveral {
      let next = EventLoop.shared.now.advanced(by: gatheringTime)
      gathering = EventLoop.shared.schedule(at: next) { [weak self] in self?.read() }
    } else {
      gathering = nil
    }
    if wasGathering != (gathering != nil) { watch() }
  }

  private func handle(_ ready: Readiness) {
    let isEnd = !ready.isDisjoint(with: [.hungUp, .failed])
    if ready.contains(.readable) || isEnd && gathering != nil { read() }
    if ready.contains(.writable), isWaitingForRoom {
      isWaitingForRoom = false
      watch()
      if !isEnd { onRoom?() }
    }
    guard isEnd, isOpen else { return }
    // The loop would tell of it in each turn.
    isHungUp = true
    registration?.cancel()
    gathering?.cancel()
    (registration, gathering) = (nil, nil)
    onHangUp?()
  }
}
