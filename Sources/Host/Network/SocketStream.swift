import Common
import Glibc
import Loop

/// An event of a stream.
public enum SocketStreamEvent: Sendable, Equatable {
  /// The connection that was asked for exists.
  case connected
  /// The peer sent these bytes, at least one.
  case received([UInt8])
  /// There is buffer space again, after `send` accepted less than it was given.
  case writable
  /// The peer sends no more. It may still receive.
  case ended
  /// The peer has closed its end: it does not receive any more, and what is sent is lost. It comes after `ended`, or
  /// before it while reading is paused.
  case hungUp
  /// The stream is over, and its descriptor closed. This is the last event. Nil: both sides have sent everything.
  case closed(NetworkError?)
}

/// A connected stream socket: TCP, or any descriptor of a stream that was handed over.
///
/// It holds at most 256 KiB that the peer has not taken yet. It holds nothing that was received: the owner gets bytes
/// as they come, and pauses reading while it cannot use them. The kernel's buffers then fill, and the peer has to wait.
@LoopActor
public final class SocketStream {
  /// Bytes to be sent that are held at most.
  public nonisolated static let bufferSize = 256 << 10
  /// Bytes that are read or written in one iteration of the loop.
  private static let slice = 64 << 10

  private enum Sending: Equatable {
    case open
    /// The sending side is shut down when the buffer is empty.
    case finishing
    case finished
  }

  private var descriptor: Int32
  /// The one watch of the descriptor: sd-event takes no second one.
  private var watch: Registration?
  /// Nil: the descriptor is not watched.
  private var watched: Readiness?
  private var hasHungUp = false
  private var onEvent: (@LoopActor (SocketStreamEvent) -> Void)?
  private var isConnecting = false
  private var connectTimer: Registration?
  private var unsent = SendBuffer()
  private var sending = Sending.open
  private var wasShort = false
  private var hasEnded = false
  /// Released when the stream closes: the connection counts against a limit until then.
  private var slot: Registration?

  /// Whether the owner takes no more bytes for now.
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
  /// - Parameter limit: how long the peer has to answer.
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

  /// Begins to read. For a stream that was taken over; call it once.
  ///
  /// - Parameter onEvent: called on the loop, never from within a call of this stream.
  public func start(onEvent: @escaping @LoopActor (SocketStreamEvent) -> Void) {
    self.onEvent = onEvent
    update()
  }

  /// -1 if the stream is closed.
  var rawDescriptor: Int32 { descriptor }

  /// How many bytes `send` accepts at this moment.
  public var room: Int { sending == .open && descriptor >= 0 ? Self.bufferSize - unsent.count : 0 }

  /// Whether all bytes that were accepted are with the kernel.
  public var isDrained: Bool { unsent.count == 0 }

  /// Sends bytes, as many as the buffer has space for.
  ///
  /// - Returns: how many bytes were accepted. After fewer than all, `writable` follows.
  @discardableResult
  public func send(_ bytes: ArraySlice<UInt8>) -> Int {
    let count = min(bytes.count, room)
    if count < bytes.count, sending == .open { wasShort = true }
    guard count > 0 else { return 0 }
    unsent.append(bytes.prefix(count))
    update()
    return count
  }

  /// Sends what is buffered, and then the end of the stream. The peer may go on sending.
  public func finish() {
    guard sending == .open, descriptor >= 0 else { return }
    sending = .finishing
    update()
  }

  /// Stops and starts reading.
  public func pauseReading(_ isPaused: Bool) {
    guard isReadingPaused != isPaused else { return }
    isReadingPaused = isPaused
    update()
  }

  /// Lets the kernel ask an idle peer whether it is still there: after a minute, and three times more, 15 s apart. A
  /// peer that does not answer ends the stream with `timedOut`.
  public func detectLoss() {
    Socket.set(descriptor, SOL_SOCKET, SO_KEEPALIVE, 1)
    let tcp = Int32(IPPROTO_TCP)
    for (option, value) in [(TCP_KEEPIDLE, Int32(60)), (TCP_KEEPINTVL, 15), (TCP_KEEPCNT, 4)] {
      Socket.set(descriptor, tcp, option, value)
    }
  }

  /// Closes the stream at once, without an event. What is buffered is lost.
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

  /// Watches the descriptor for what is wanted now. The kernel reports a hang-up always, also to a watch for nothing.
  /// After a hang-up there is no watch for nothing: the kernel would report the hang-up again and again.
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
    // A reset comes after everything that was sent before it, so that reading comes first.
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
    // After our own end the kernel reports the peer's end as a hang-up.
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
    // Half of the buffer: a writer that is woken for each byte would send bytes one by one.
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

/// Bytes that wait to be sent, in the order in which they came. Taking some out does not move the rest each time.
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

  /// Lends the first bytes, at most `limit`.
  func withFirst<Result>(_ limit: Int, _ body: (UnsafeRawBufferPointer) -> Result) -> Result {
    bytes[start...].prefix(limit).withUnsafeBytes(body)
  }
}
