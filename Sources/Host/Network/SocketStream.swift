import Common
import Glibc
import Loop

/// An event of a `SocketStream`.
public enum SocketStreamEvent: Sendable, Equatable {
  /// The requested connection is established.
  case connected
  /// The peer sent these bytes, at least one.
  case received([UInt8])
  /// There is buffer space again, after `send` accepted less than all bytes.
  case writable
  /// The peer has ended its direction of the stream. It may still receive.
  case ended
  /// The peer has closed its end: it no longer receives, and bytes that are sent are lost. The event follows `ended`,
  /// or precedes it while reading is paused.
  case hungUp
  /// The stream has ended, and its descriptor is closed. This is the last event. The error is nil if both sides have
  /// sent everything.
  case closed(NetworkError?)
}

/// A connected stream socket: TCP, or any stream descriptor that was passed to this process.
///
/// It stores at most 256 KiB that the peer has not received yet. It stores nothing that was received: the owner gets
/// bytes at once, and pauses reading while it cannot use them. The kernel's buffers then fill, and the peer has to
/// wait.
@LoopActor
public final class SocketStream {
  /// Maximum number of stored bytes to send.
  public nonisolated static let bufferSize = 256 << 10
  /// Maximum number of bytes that are read or written in one loop iteration.
  private static let slice = 64 << 10

  private enum Sending: Equatable {
    case open
    /// The owner has ended its direction, which is shut down when the buffer is empty.
    case finishing
    case finished
  }

  private var descriptor: Int32
  /// The only watch of the descriptor, because sd-event accepts just one.
  private var watch: Registration?
  /// The events for which the descriptor is watched; nil if it is not watched.
  private var watched: Readiness?
  private var hasHungUp = false
  private var onEvent: (@LoopActor (SocketStreamEvent) -> Void)?
  private var isConnecting = false
  private var connectTimer: Registration?
  private var unsent = SendBuffer()
  private var sending = Sending.open
  private var wasShort = false
  private var hasEnded = false
  /// The slot of the connection in a listener's limit. It is released when the stream closes.
  private var slot: Registration?

  /// Whether the owner accepts no bytes for now.
  public private(set) var isReadingPaused = false

  /// Takes over the descriptor of a connected stream socket. Nothing is read before `start`.
  public init(owning descriptor: Int32) {
    self.descriptor = descriptor
    let flags = fcntl(descriptor, F_GETFL)
    if flags >= 0 { _ = fcntl(descriptor, F_SETFL, flags | O_NONBLOCK) }
  }

  /// Takes over a connection that a listener has accepted.
  public convenience init(_ connection: IncomingConnection) {
    let (descriptor, slot) = connection.take()
    self.init(owning: descriptor)
    self.slot = slot
  }

  /// Connects by TCP. `connected` or `closed` follows, never from within this call.
  ///
  /// - Parameter limit: maximum time until the peer answers.
  public static func connect(
    to endpoint: Endpoint, within limit: Duration, on scheduler: any Scheduler = EventLoop.shared,
    onEvent: @escaping @LoopActor (SocketStreamEvent) -> Void
  ) -> SocketStream {
    let stream = SocketStream(owning: -1)
    stream.onEvent = onEvent
    stream.open(endpoint, within: limit, on: scheduler)
    return stream
  }

  deinit {
    if descriptor >= 0 { Glibc.close(descriptor) }
  }

  /// Begins to read from a stream whose descriptor was passed to it. It may be called once.
  ///
  /// - Parameter onEvent: called on the loop, never from within a call of this stream.
  public func start(onEvent: @escaping @LoopActor (SocketStreamEvent) -> Void) {
    self.onEvent = onEvent
    update()
  }

  /// The descriptor; -1 if the stream is closed.
  var rawDescriptor: Int32 { descriptor }

  /// Number of bytes that `send` accepts now.
  public var room: Int { sending == .open && descriptor >= 0 ? Self.bufferSize - unsent.count : 0 }

  /// Whether the kernel has all accepted bytes.
  public var isDrained: Bool { unsent.count == 0 }

  /// Sends bytes, up to the buffer's capacity.
  ///
  /// - Returns: number of accepted bytes. If it is not all, `writable` follows.
  @discardableResult
  public func send(_ bytes: ArraySlice<UInt8>) -> Int {
    let count = min(bytes.count, room)
    if count < bytes.count, sending == .open { wasShort = true }
    guard count > 0 else { return 0 }
    unsent.append(bytes.prefix(count))
    update()
    return count
  }

  /// Sends the buffered bytes, and then ends this side's direction. The peer may continue to send.
  public func finish() {
    guard sending == .open, descriptor >= 0 else { return }
    sending = .finishing
    update()
  }

  /// Stops reading (true) or resumes it (false). While reading is paused, the peer can send only until the kernel's
  /// buffers are full.
  public func pauseReading(_ isPaused: Bool) {
    guard isReadingPaused != isPaused else { return }
    isReadingPaused = isPaused
    update()
  }

  /// Makes the kernel check whether an idle peer is still present: after a minute, and then three times, 15 s apart. A
  /// peer that does not answer ends the stream with `timedOut`.
  public func detectLoss() {
    Socket.set(descriptor, SOL_SOCKET, SO_KEEPALIVE, 1)
    let tcp = Int32(IPPROTO_TCP)
    for (option, value) in [(TCP_KEEPIDLE, Int32(60)), (TCP_KEEPINTVL, 15), (TCP_KEEPCNT, 4)] {
      Socket.set(descriptor, tcp, option, value)
    }
  }

  /// Closes the stream at once, without an event. Buffered bytes are lost.
  public func close() {
    onEvent = nil
    takeDown()
  }

  // MARK: The descriptor

  private func open(_ endpoint: Endpoint, within limit: Duration, on scheduler: any Scheduler) {
    do throws(NetworkError) {
      descriptor = try Socket.make(.stream, for: endpoint.address)
    } catch {
      return endSoon(error)
    }
    Socket.set(descriptor, SOL_SOCKET, SO_RCVBUF, Socket.kernelBuffer)
    Socket.set(descriptor, SOL_SOCKET, SO_SNDBUF, Socket.kernelBuffer)
    Socket.set(descriptor, Int32(IPPROTO_TCP), TCP_NODELAY, 1)
    let result = endpoint.withSocketAddress { Glibc.connect(descriptor, $0, $1) }
    guard result == 0 || errno == EINPROGRESS else { return endSoon(NetworkError(errno: errno)) }
    isConnecting = true
    connectTimer = scheduler.schedule(after: limit) { [weak self] in self?.end(.timedOut) }
    update()
  }

  /// Watches the descriptor for the events that are wanted now. The kernel always reports a hang-up, even if no event
  /// is wanted. After a hang-up the descriptor is not watched without a wanted event, because the kernel would report
  /// the hang-up repeatedly.
  private func update() {
    guard descriptor >= 0, onEvent != nil else { return }
    var events: Readiness = []
    if isConnecting || unsent.count > 0 || sending == .finishing { events.insert(.writable) }
    if !isConnecting, !isReadingPaused, !hasEnded { events.insert(.readable) }
    let wanted: Readiness? = events.isEmpty && hasHungUp ? nil : events
    guard wanted != watched else { return }
    watched = wanted
    watch = nil
    guard !events.isEmpty || !hasHungUp else { return }
    watch = EventLoop.shared.watch(descriptor, for: events) { [weak self] in self?.handle($0) }
  }

  private func handle(_ ready: Readiness) {
    if isConnecting { return finishConnecting() }
    let isBroken = !ready.isDisjoint(with: [.hungUp, .failed])
    let watched = watched ?? []
    // Bytes that the peer sent before a reset are read first.
    if watched.contains(.readable), isBroken || ready.contains(.readable) { read() }
    if watched.contains(.writable), isBroken || ready.contains(.writable) { write() }
    if isBroken { handleHangUp(ready) }
    update()
  }

  /// Handles that the peer has closed its end. Bytes that it sent before are read first, unless reading is paused.
  private func handleHangUp(_ ready: Readiness) {
    guard descriptor >= 0, !hasHungUp, hasEnded || isReadingPaused else { return }
    // A TCP connection that was reset gives nothing more. A Unix socket still gives what was sent before.
    if ready.contains(.failed), !Socket.isLocal(descriptor) {
      return end(Socket.pendingError(descriptor) ?? .reset)
    }
    hasHungUp = true
    // After this side has ended its direction, the kernel reports the end of the peer's direction as a hang-up.
    if sending != .finished { onEvent?(.hungUp) }
  }

  private func finishConnecting() {
    if let error = Socket.pendingError(descriptor) { return end(error) }
    isConnecting = false
    connectTimer = nil
    onEvent?(.connected)
    update()
  }

  private func read() {
    guard descriptor >= 0 else { return }
    var received = 0
    var failure: Int32 = 0
    let bytes = [UInt8](unsafeUninitializedCapacity: Self.slice) { buffer, count in
      repeat { received = recv(descriptor, buffer.baseAddress, buffer.count, 0) } while received < 0 && errno == EINTR
      failure = errno
      count = max(0, received)
    }
    if received > 0 {
      onEvent?(.received(bytes))
    } else if received == 0 {
      hasEnded = true
      onEvent?(.ended)
      endIfDone()
    } else if failure != EAGAIN {
      end(NetworkError(errno: failure))
    }
  }

  private func write() {
    while descriptor >= 0, unsent.count > 0 {
      let count = unsent.withFirst(Self.slice) { Glibc.send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
      if count < 0, errno == EINTR { continue }
      if count < 0, errno == EAGAIN { break }
      guard count > 0 else { return end(NetworkError(errno: errno)) }
      unsent.removeFirst(count)
    }
    guard descriptor >= 0 else { return }
    if sending == .finishing, unsent.count == 0 {
      sending = .finished
      shutdown(descriptor, Int32(SHUT_WR))
      return endIfDone()
    }
    // `writable` is reported when half of the buffer is free. A writer that is woken for each byte would send bytes one
    // by one.
    guard wasShort, sending == .open, unsent.count <= Self.bufferSize / 2 else { return }
    wasShort = false
    onEvent?(.writable)
  }

  private func endIfDone() {
    if hasEnded, sending == .finished { end(nil) }
  }

  private func end(_ error: NetworkError?) {
    let report = onEvent
    onEvent = nil
    takeDown()
    report?(.closed(error))
  }

  private func endSoon(_ error: NetworkError) {
    EventLoop.shared.soon { [weak self] in self?.end(error) }
  }

  private func takeDown() {
    (watch, connectTimer, slot, watched) = (nil, nil, nil, nil)
    unsent.removeAll()
    if descriptor >= 0 { Glibc.close(descriptor) }
    descriptor = -1
  }
}

/// A queue of bytes that wait to be sent. Removing the first ones does not move the rest each time.
struct SendBuffer {
  private var bytes: [UInt8] = []
  private var start = 0

  var count: Int { bytes.count - start }

  mutating func append(_ more: ArraySlice<UInt8>) { bytes += more }

  mutating func removeFirst(_ count: Int) {
    start += min(count, self.count)
    guard start == bytes.count || start >= SocketStream.bufferSize / 2 else { return }
    if start == bytes.count { bytes = [] } else { bytes.removeFirst(start) }
    start = 0
  }

  mutating func removeAll() { (bytes, start) = ([], 0) }

  /// Passes the first bytes to `body`, at most `limit`.
  func withFirst<Result>(_ limit: Int, _ body: (UnsafeRawBufferPointer) -> Result) -> Result {
    bytes[start...].prefix(limit).withUnsafeBytes(body)
  }
}
