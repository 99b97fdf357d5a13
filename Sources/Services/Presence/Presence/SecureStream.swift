import Common
import Crypto
import Loop
import Network
import TLS

/// A stream that can be joined with another one.
@LoopActor
protocol JoinedStream: AnyObject {
  /// Sends bytes, up to the buffer's capacity. If not all are accepted, `SocketStreamEvent.writable` follows.
  func send(_ bytes: ArraySlice<UInt8>) -> Int
  /// Sends the buffered bytes, and then ends this side's direction.
  func finish()
  func pauseReading(_ isPaused: Bool)
  /// Closes the stream at once, without an event. A pending alert is still sent to the peer.
  func close()
  /// Whether the kernel has all accepted bytes.
  var isDrained: Bool { get }
}

extension SocketStream: JoinedStream {}

/// TLS over a TCP connection. Its events are those of a `SocketStream`; `connected` means that the handshake is
/// complete.
///
/// It buffers at most 64 KiB of ciphertext beyond the buffer of the connection.
@LoopActor
final class SecureStream: JoinedStream {
  /// The first byte that a TLS client sends: the type of a handshake record.
  static let firstByte: UInt8 = 0x16
  /// Maximum time for sending the last bytes and the alert of a failed connection.
  private static let lingerTime = Duration.seconds(2)
  /// Maximum time until the peer closes the connection after both sides have ended.
  private static let closeTime = Duration.seconds(10)
  /// Number of times that the connection gets this time while its last bytes are not sent: 2 min in total.
  private static let closeRounds = 12

  private let context: TLSContext
  private let role: TLSRole
  private let scheduler: any Scheduler
  private var onEvent: (@LoopActor (SocketStreamEvent) -> Void)?
  private let onTLS: @LoopActor (TLSEvent) -> Void
  private var transport: SocketStream?
  private var session: TLSSession?
  private lazy var deadline = Deadline(scheduler) { [weak self] in self?.timer() }
  private var linger: Registration?
  /// Number of times that `closeTime` has elapsed for this connection.
  private var rounds = 0
  private var unsent: [UInt8] = []
  private var wasShort = false
  private var hasFinished = false
  private var hasEnded = false
  private var hasFailed = false
  private var isTransportGone = false
  /// Whether TLS has sent any bytes. A server sends its first bytes after it has received the client's complete first
  /// message.
  private(set) var hasSent = false

  /// Makes a stream.
  ///
  /// - Parameters:
  ///   - onTLS: called for each event of TLS except received bytes, for counters.
  ///   - onEvent: called on the loop, never from within a call of this stream.
  init(
    _ context: TLSContext, _ role: TLSRole, on scheduler: any Scheduler,
    onTLS: @escaping @LoopActor (TLSEvent) -> Void, onEvent: @escaping @LoopActor (SocketStreamEvent) -> Void
  ) {
    (self.context, self.role, self.scheduler) = (context, role, scheduler)
    (self.onTLS, self.onEvent) = (onTLS, onEvent)
  }

  /// Connects by TCP, and begins the handshake.
  func connect(to endpoint: Endpoint, within limit: Duration) {
    transport = SocketStream.connect(to: endpoint, within: limit, on: scheduler) { [weak self] in self?.handle($0) }
  }

  /// Begins the handshake on an existing connection.
  func start(on transport: SocketStream) {
    self.transport = transport
    transport.start { [weak self] in self?.handle($0) }
    begin()
  }

  // MARK: Calls of the owner

  func send(_ bytes: ArraySlice<UInt8>) -> Int {
    guard let session, session.isEstablished, unsent.isEmpty, !hasFinished else {
      wasShort = true
      return 0
    }
    guard session.send(bytes) else { return 0 }
    flush()
    return bytes.count
  }

  func finish() {
    guard !hasFinished, let session else { return }
    hasFinished = true
    session.finish()
    flush()
    awaitClose()
  }

  var isDrained: Bool { unsent.isEmpty && transport?.isDrained ?? true }

  func pauseReading(_ isPaused: Bool) { transport?.pauseReading(isPaused) }

  func close() {
    onEvent = nil
    // After a failure the transport stays open until the alert is sent.
    if !hasFailed { takeDown() }
  }

  // MARK: Events of TLS and the transport

  private func begin() {
    transport?.detectLoss()
    do throws(TLSFailure) {
      session = try TLSSession(context, role, at: scheduler.now)
      deadline.set(session?.deadline)
      flush()
    } catch {
      scheduler.soon { [weak self] in self?.fail(.failed(error)) }
    }
  }

  private func handle(_ event: SocketStreamEvent) {
    switch event {
    case .connected: begin()
    case .received(let bytes):
      guard let session else { return }
      let events = session.receive(bytes[...])
      deadline.set(session.deadline)
      flush()
      for event in events { handle(event) }
    case .writable:
      flush()
      if unsent.isEmpty, wasShort, session?.isEstablished == true {
        wasShort = false
        onEvent?(.writable)
      }
    case .ended:
      for event in session?.receiveEnd() ?? [] { handle(event) }
      if isTransportGone { end(.reset) }
    case .hungUp:
      isTransportGone = true
      // While reading is paused the stream stays open, because data that the peer sent before the reset must be read
      // first.
      if transport?.isReadingPaused != true { end(.reset) }
    case .closed(let error): end(error)
    }
  }

  private func handle(_ event: TLSEvent) {
    switch event {
    case .established:
      onTLS(event)
      onEvent?(.connected)
      if wasShort {
        wasShort = false
        onEvent?(.writable)
      }
    case .received(let bytes): onEvent?(.received(bytes))
    case .ended:
      hasEnded = true
      onEvent?(.ended)
      awaitClose()
    case .failed: fail(event)
    }
  }

  private func timer() {
    guard let session else { return }
    for event in session.timer(at: scheduler.now) { handle(event) }
  }

  /// Ends the stream for its owner. An alert is still sent to the peer. Bytes of the peer are meanwhile read and
  /// dropped, because the kernel would answer unread bytes with a reset, which could overtake the alert.
  private func fail(_ event: TLSEvent) {
    guard !hasFailed else { return }
    hasFailed = true
    onTLS(event)
    let report = onEvent
    onEvent = nil
    deadline.set(nil)
    flush()
    transport?.pauseReading(false)
    transport?.finish()
    if transport != nil { linger = scheduler.schedule(after: Self.lingerTime) { self.takeDown() } }
    report?(.closed(.reset))
  }

  /// Closes a connection whose two sides have ended, if the peer does not.
  private func awaitClose() {
    guard hasFinished, hasEnded, !hasFailed, transport != nil else { return }
    linger = scheduler.schedule(after: Self.closeTime) { [weak self] in
      guard let self else { return }
      rounds += 1
      if isDrained { return end(nil) }
      if rounds >= Self.closeRounds { end(.timedOut) } else { awaitClose() }
    }
  }

  private func end(_ error: NetworkError?) {
    let report = onEvent
    onEvent = nil
    takeDown()
    report?(.closed(error))
  }

  private func flush() {
    guard let transport else { return }
    let bytes = session?.takeOutgoing() ?? []
    if !bytes.isEmpty { hasSent = true }
    unsent += bytes
    let count = transport.send(unsent[...])
    if count > 0 { unsent.removeFirst(count) }
    if hasFinished, unsent.isEmpty { transport.finish() }
  }

  private func takeDown() {
    deadline.set(nil)
    transport?.close()
    (transport, session, linger) = (nil, nil, nil)
    unsent = []
  }
}
