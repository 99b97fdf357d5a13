import CPackets
import Glibc
import Loop

/// One end of a pair of connected packet sockets (`SOCK_SEQPACKET`) on the event loop. The other end is passed to
/// another program as a descriptor, so that the two exchange packets without the bus.
///
/// No call blocks. Order and boundaries of packets are preserved; an empty packet is valid.
@LoopActor
public final class PacketSocket {
  /// The result of sending a packet.
  public enum Sending: Hashable, Sendable {
    /// The kernel has accepted the packet for the other end.
    case sent
    /// The buffer is full; `onRoom` is called when the other end has read enough.
    case full
    /// The other end is closed, or this one.
    case closed
    /// The packet is longer than the kernel's send buffer.
    case tooLong
  }

  /// The result of receiving.
  public enum Arrival: Hashable, Sendable {
    case packet([UInt8])
    /// A packet longer than the limit arrived, and was discarded.
    case tooLong
    case nothing
    /// The other end is closed and all its packets were received, or this end is closed.
    case closed
  }

  /// Called while packets can be received, in each loop iteration (except during `gatheringTime`), and once before
  /// `onHangUp`. Without it packets wait in the kernel.
  public var onReadable: (@LoopActor () -> Void)? { didSet { watch() } }
  /// Called once after one or more `.full` results, when the buffer has capacity again.
  public var onRoom: (@LoopActor () -> Void)?
  /// Called once when every copy of the other end is closed. Its earlier packets can still be received.
  public var onHangUp: (@LoopActor () -> Void)?

  /// Time for which `onReadable` is not called after a `receive` of several packets, because waking once for several
  /// packets costs less than waking for each. After this time `onReadable` is called even if no packet has arrived. A
  /// `receive` of one packet, or of its maximum count, is followed by no pause. Nil means that there is never a pause.
  public var gatheringTime: Duration?

  private let end: FileDescriptor
  /// Whether the last `receive` returned more than one packet, and fewer than its maximum count.
  private var tookSeveral = false
  /// Set while `onReadable` pauses for the gathering time.
  private var gathering: Registration?
  private var isWaitingForRoom = false
  private var isHungUp = false
  private var watched: Readiness = []
  private var registration: Registration?

  /// Wraps an end that was received from another program.
  ///
  /// - Parameter buffer: maximum unread bytes for the other end, as in `pair`.
  /// - Throws: `Failed` if the descriptor is not a socket.
  public init(owning end: FileDescriptor, buffer: Int? = nil) throws(DBusError) {
    self.end = end
    if let buffer { try Self.limit(end, to: buffer) }
    // With the sender's credentials attached to each packet, an empty packet differs from the end of the stream.
    var yes: Int32 = 1
    guard setsockopt(end.raw, SOL_SOCKET, SO_PASSCRED, &yes, socklen_t(MemoryLayout<Int32>.size)) == 0,
      fcntl(end.raw, F_SETFL, O_NONBLOCK) == 0
    else { throw .failed("The descriptor is not a packet socket: \(reason(errno)).") }
    watch()
  }

  /// Creates a pair.
  ///
  /// - Parameters:
  ///   - buffer: maximum bytes in the kernel that the other end has not read, including some hundred bytes of overhead
  ///     for each packet. Nil for the system's default (about 200 KiB). The kernel's minimum is 4608.
  ///   - otherBuffer: the same limit for packets from the other end. The kernel limits it to `net.core.wmem_max`.
  /// - Returns: this end, and the other one, which the caller passes on and then releases: an end is closed with its
  ///   last copy.
  public static func pair(buffer: Int? = nil, otherBuffer: Int? = nil) throws(DBusError)
    -> (socket: PacketSocket, other: FileDescriptor)
  {
    var ends: [Int32] = [-1, -1]
    let kind = Int32(SOCK_SEQPACKET.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue)
    guard socketpair(AF_UNIX, kind, 0, &ends) == 0 else {
      throw .failed("A pair of sockets cannot be created: \(reason(errno)).")
    }
    let (end, other) = (FileDescriptor(owning: ends[0]), FileDescriptor(owning: ends[1]))
    if let otherBuffer { try limit(other, to: otherBuffer) }
    return (try PacketSocket(owning: end, buffer: buffer), other)
  }

  /// Changes the limit of unread bytes, as in `pair`; packets already sent are not affected. It has no effect on a
  /// closed end.
  public func limit(to buffer: Int) { try? Self.limit(end, to: buffer) }

  private static func limit(_ end: FileDescriptor, to buffer: Int) throws(DBusError) {
    // The kernel doubles the number to include its overhead.
    var half = Int32(clamping: buffer / 2)
    guard setsockopt(end.raw, SOL_SOCKET, SO_SNDBUF, &half, socklen_t(MemoryLayout<Int32>.size)) == 0 else {
      throw .failed("The buffer of a socket cannot be set: \(reason(errno)).")
    }
  }

  /// Whether packets can still be sent: the other end is open, as far as known, and this one is not closed.
  public var isOpen: Bool { !isHungUp && !isClosed }

  /// Whether this end is closed.
  public var isClosed: Bool { end.raw < 0 }

  /// Whether every copy of the other end is closed according to the kernel; `onHangUp` may not have been called yet.
  public var isOtherEndGone: Bool {
    var entry = pollfd(fd: end.raw, events: 0, revents: 0)
    return !isOpen || poll(&entry, 1, 0) > 0 && entry.revents & Int16(POLLHUP) != 0
  }

  /// Whether the other end was closed before it had read all packets. Call it only once, after the other end was
  /// closed.
  public var hasLostPackets: Bool {
    var error: Int32 = 0
    var length = socklen_t(MemoryLayout<Int32>.size)
    return getsockopt(end.raw, SOL_SOCKET, SO_ERROR, &error, &length) == 0 && error == ECONNRESET
  }

  /// Closes this end, which the other end detects. No closure is called afterwards.
  public func close() {
    // Setting `onReadable` changes the watch, so it must happen before the watch ends.
    (onReadable, onRoom, onHangUp) = (nil, nil, nil)
    registration?.cancel()
    gathering?.cancel()
    (registration, gathering) = (nil, nil)
    end.close()
  }

  /// Sends one packet. After `.full` no packet is accepted before `onRoom`.
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

  /// Receives one packet.
  ///
  /// - Parameter limit: maximum bytes of the packet.
  public func receive(limit: Int) -> Arrival { receive(limit: limit, upTo: 1).first ?? .nothing }

  /// Receives waiting packets in one system call.
  ///
  /// - Parameters:
  ///   - limit: maximum bytes of each packet.
  ///   - count: maximum packets, at most 32.
  /// - Returns: the packets in order; empty if none waits, and `.closed` as the last element at the end.
  public func receive(limit: Int, upTo count: Int) -> [Arrival] {
    let arrivals = Self.packets(from: end.raw, limit: limit, upTo: count)
    tookSeveral = arrivals.count > 1 && arrivals.count < count
    return arrivals
  }

  /// Receives several packets in one system call. The function is `nonisolated` because Swift checks the executor on
  /// each entry of an actor's closure, and this one is entered for every batch.
  private nonisolated static func packets(from descriptor: Int32, limit: Int, upTo count: Int) -> [Arrival] {
    let space = max(limit, 1)
    return withUnsafeTemporaryAllocation(byteCount: count * space, alignment: 1) { bytes in
      withUnsafeTemporaryAllocation(of: Int32.self, capacity: count) { lengths in
        var came: Int32
        repeat {
          came = earshot_receive_packets(descriptor, bytes.baseAddress, space, lengths.baseAddress, Int32(count))
          // ECONNRESET: the other end was closed before it had read everything. Its packets follow this error.
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

  /// Updates the events that the loop watches for. It always reports a hang-up.
  private func watch() {
    var wanted: Readiness = .hungUp
    if onReadable != nil, gathering == nil { wanted.insert(.readable) }
    if isWaitingForRoom { wanted.insert(.writable) }
    guard isOpen, wanted != watched else { return }
    watched = wanted
    registration?.cancel()
    let source = EventLoop.shared.watch(end.raw, for: wanted) { [weak self] in self?.handle($0) }
    // The source is removed before the descriptor is closed, because its number may be reused immediately.
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
    // Otherwise the loop would report it in each iteration.
    isHungUp = true
    registration?.cancel()
    gathering?.cancel()
    (registration, gathering) = (nil, nil)
    onHangUp?()
  }
}
