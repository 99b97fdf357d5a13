import Loop
import Network
import Thali

/// An RFCOMM link: first the handshake, then the multiplexer. Each of its streams is joined with a socket, whose other
/// end belongs to the HTTP server or to TLS.
@LoopActor
final class RFCOMMLink {
  enum Event {
    /// The handshake is complete.
    ///
    /// - Parameter hasBeacons: whether the client has beacons; nil on a link that this machine made.
    case established(hasBeacons: Bool?)
    /// A stream of the peer begins with a TLS handshake.
    case tls(SocketStream)
    /// A stream of the peer begins with any other octet. The receiver owns the descriptor.
    case http(Int32)
    /// A stream of the peer was destroyed because it sent nothing.
    case silent
    case refused(RFCOMMHandshake.Refusal)
    case failed(Multiplexer.LinkFailure)
    /// The link has ended. This is the last event.
    case ended
  }

  /// One stream of the link.
  @LoopActor
  private final class Local {
    /// The local socket of the stream; nil until the first byte of a peer's stream has arrived.
    var socket: SocketStream?
    let isHTTP: Bool
    /// Bytes of the program that the multiplexer has not accepted.
    var toPeer: ArraySlice<UInt8> = []
    var hasProgramEnded = false
    /// Bytes of the peer that the socket has not accepted.
    var fromPeer: ArraySlice<UInt8> = []
    var hasPeerEnded = false
    /// Whether the socket has closed after both directions had ended.
    var isClosed = false
    /// Whether the receiver has closed its end: bytes of the peer are dropped.
    var isAbandoned = false
    /// Timer that ends a stream whose receiver has closed its end.
    var timer: Registration?
    /// Number of times that `timer` was extended.
    var rounds = 0

    init(_ socket: SocketStream?, isHTTP: Bool) { (self.socket, self.isHTTP) = (socket, isHTTP) }
  }

  /// Maximum time for which a link without streams stays open: on the side that made it, and on the other side.
  private static let idleTime = (client: Duration.seconds(10), server: Duration.seconds(60))
  /// Maximum time after the last bytes for the peer until the peer ends a stream whose receiver has closed its end.
  private static let abandonedTime = Duration.seconds(10)
  /// Number of times that a stream, or a link without streams, gets this time again while its last bytes are not sent:
  /// 2 min in total.
  private static let abandonedRounds = 12
  private static let portion = 16 << 10

  private let transport: SocketStream
  private let isClient: Bool
  private let scheduler: any Scheduler
  private var onEvent: (@LoopActor (Event) -> Void)?
  private var handshake: RFCOMMHandshake
  private var multiplexer: Multiplexer
  private(set) var isEstablished = false
  private var locals: [Multiplexer.StreamID: Local] = [:]
  private var pending: [Multiplexer.StreamID: Registration] = [:]
  private var unsent: ArraySlice<UInt8> = []
  private var isFlushing = false
  private lazy var deadline = Deadline(scheduler) { [weak self] in self?.handle(.timer) }
  private var idleTimer: Registration?

  init(
    _ transport: SocketStream, _ role: RFCOMMHandshake.Role, on scheduler: any Scheduler,
    onEvent: @escaping @LoopActor (Event) -> Void
  ) {
    (self.transport, self.scheduler, self.onEvent) = (transport, scheduler, onEvent)
    isClient = role != .server
    handshake = RFCOMMHandshake(role: role)
    multiplexer = Multiplexer(role: role == .server ? .server : .client)
  }

  var counters: Multiplexer.Counters { multiplexer.counters }
  var isOver: Bool { onEvent == nil }

  func begin() {
    transport.start { [weak self] in self?.handle($0) }
    handle(.opened)
  }

  func close() { end() }

  /// Opens a stream. Nil if the link has the maximum number of streams, or has ended.
  func open() -> SocketStream? {
    guard isEstablished, !isOver, let id = multiplexer.open() else { return nil }
    guard let pair = pair() else {
      multiplexer.destroy(id)
      return nil
    }
    add(id, Local(pair.socket, isHTTP: false))
    flush()
    return SocketStream(owning: pair.other)
  }

  // MARK: The handshake

  private func handle(_ event: RFCOMMHandshake.Event) {
    for intent in handshake.handle(event, at: scheduler.now) {
      switch intent {
      case .send(let bytes): _ = transport.send(bytes[...])
      case .established(let hasBeacons, let rest):
        isEstablished = true
        watchIdleness()
        onEvent?(.established(hasBeacons: hasBeacons))
        if !rest.isEmpty { receive(rest) }
      case .close(let refusal):
        onEvent?(.refused(refusal))
        end()
      }
    }
    deadline.set(isOver ? nil : handshake.deadline)
  }

  private func handle(_ event: SocketStreamEvent) {
    switch event {
    case .connected: break
    case .received(let bytes):
      if isEstablished { receive(bytes[...]) } else { handle(RFCOMMHandshake.Event.received(bytes)) }
    case .writable: flush()
    // RFCOMM has no half-close, so the end of one direction ends the link.
    case .ended, .closed: end()
    // While reading is paused, bytes of ended streams still wait. The end comes behind them.
    case .hungUp: break
    }
  }

  private func end() {
    guard let report = onEvent else { return }
    onEvent = nil
    deadline.set(nil)
    (idleTimer, pending) = (nil, [:])
    transport.close()
    for local in locals.values { local.socket?.close() }
    locals = [:]
    report(.ended)
  }

  // MARK: The multiplexer

  private func receive(_ bytes: ArraySlice<UInt8>) {
    for intent in multiplexer.receive(bytes) where !isOver { carryOut(intent) }
    guard !isOver else { return }
    flush()
    transport.pauseReading(!multiplexer.isReading)
  }

  private func carryOut(_ intent: Multiplexer.Intent) {
    switch intent {
    case .opened(let id, _):
      add(id, Local(nil, isHTTP: false))
      pending[id] = scheduler.schedule(after: Limits.firstByteTime) { [weak self] in self?.dropSilent(id) }
    case .deliver(let id, let bytes):
      // Bytes for a destroyed stream, which were sent before its destruction, do not open it again.
      if let local = locals[id], local.socket == nil, let first = bytes.first { connect(id, first: first) }
      guard let local = locals[id], !local.isAbandoned else { return multiplexer.consumed(bytes.count, of: id) }
      local.fromPeer += bytes
      push(id, local)
    case .ended(let id):
      guard let local = locals[id] else { return }
      local.hasPeerEnded = true
      // A stream that ends before its first byte was not connected to a receiver, and is destroyed.
      if local.socket == nil { destroy(id) } else { push(id, local) }
    case .destroyed(let id, _): remove(id)
    case .fail(let failure):
      onEvent?(.failed(failure))
      end()
    }
  }

  /// Connects a peer's stream with HTTP or TLS.
  private func connect(_ id: Multiplexer.StreamID, first: UInt8) {
    pending[id] = nil
    let isHTTP = first != SecureStream.firstByte
    let requests = locals.values.count { $0.isHTTP && !$0.isAbandoned }
    guard !isHTTP || requests < Limits.httpConnectionsOfOneAddress, let pair = pair() else { return destroy(id) }
    add(id, Local(pair.socket, isHTTP: isHTTP))
    onEvent?(isHTTP ? .http(pair.other) : .tls(SocketStream(owning: pair.other)))
  }

  private func dropSilent(_ id: Multiplexer.StreamID) {
    guard locals[id] != nil else { return }
    onEvent?(.silent)
    destroy(id)
    flush()
  }

  private func pair() -> (socket: SocketStream, other: Int32)? {
    do throws(NetworkError) {
      let pair = try SocketStream.pair()
      return (pair.stream, pair.other)
    } catch {
      return nil
    }
  }

  private func add(_ id: Multiplexer.StreamID, _ local: Local) {
    locals[id] = local
    idleTimer = nil
    local.socket?.start { [weak self, weak local] event in
      guard let self, let local, locals[id] === local else { return }
      handle(event, id, local)
      flush()
    }
  }

  private func handle(_ event: SocketStreamEvent, _ id: Multiplexer.StreamID, _ local: Local) {
    switch event {
    case .connected: break
    case .received(let bytes):
      local.toPeer += bytes
      pull(id, local)
    case .writable: push(id, local)
    case .ended:
      local.hasProgramEnded = true
      pull(id, local)
    case .hungUp: abandon(id, local)
    case .closed(nil):
      local.isClosed = true
      if local.toPeer.isEmpty { remove(id) }
    case .closed: destroy(id)
    }
  }

  /// Passes bytes of the program to the multiplexer.
  private func pull(_ id: Multiplexer.StreamID, _ local: Local) {
    if !local.toPeer.isEmpty { local.toPeer = local.toPeer.dropFirst(multiplexer.write(local.toPeer, to: id)) }
    if !local.hasProgramEnded { local.socket?.pauseReading(!local.toPeer.isEmpty) }
    guard local.hasProgramEnded, local.toPeer.isEmpty else { return }
    multiplexer.end(id)
    if local.isClosed { remove(id) }
  }

  /// Passes bytes of the peer to the socket.
  private func push(_ id: Multiplexer.StreamID, _ local: Local) {
    guard let socket = local.socket else { return }
    if !local.fromPeer.isEmpty {
      let count = socket.send(local.fromPeer)
      local.fromPeer = local.fromPeer.dropFirst(count)
      multiplexer.consumed(count, of: id)
      transport.pauseReading(!multiplexer.isReading)
    }
    if local.hasPeerEnded, local.fromPeer.isEmpty { socket.finish() }
  }

  /// Waits for the peer's end of a stream whose receiver has closed its end. If the peer never ends the stream, it is
  /// destroyed, because it would occupy the link.
  private func abandon(_ id: Multiplexer.StreamID, _ local: Local) {
    local.isAbandoned = true
    if !local.fromPeer.isEmpty {
      multiplexer.consumed(local.fromPeer.count, of: id)
      local.fromPeer = []
      transport.pauseReading(!multiplexer.isReading)
    }
    local.timer = scheduler.schedule(after: Self.abandonedTime) { [weak self, weak local] in
      guard let self, let local, locals[id] === local else { return }
      local.rounds += 1
      // The time is extended while the last bytes are not sent, because the link may be slow.
      let isSent = local.hasProgramEnded && local.toPeer.isEmpty && multiplexer.isSent(id)
      guard isSent || local.rounds >= Self.abandonedRounds else { return abandon(id, local) }
      destroy(id)
      flush()
    }
  }

  private func destroy(_ id: Multiplexer.StreamID) {
    multiplexer.destroy(id)
    remove(id)
  }

  private func remove(_ id: Multiplexer.StreamID) {
    pending[id] = nil
    guard let local = locals.removeValue(forKey: id) else { return }
    if !local.fromPeer.isEmpty {
      multiplexer.consumed(local.fromPeer.count, of: id)
      transport.pauseReading(!multiplexer.isReading)
    }
    local.socket?.close()
    watchIdleness()
  }

  private func flush() {
    guard isEstablished, !isFlushing else { return }
    isFlushing = true
    defer { isFlushing = false }
    while !isOver {
      if unsent.isEmpty {
        guard multiplexer.hasOutput else { return }
        let output = multiplexer.output(limit: Self.portion)
        unsent = output.bytes[...]
        for id in output.resumed { if let local = locals[id] { pull(id, local) } }
      }
      guard !unsent.isEmpty else { continue }
      let count = transport.send(unsent)
      unsent = unsent.dropFirst(count)
      if !unsent.isEmpty { return }
    }
  }

  /// Ends a link without streams after `idleTime`, or later if the last bytes of streams are not sent then.
  ///
  /// - Parameter extensions: number of times that the time was extended.
  private func watchIdleness(extensions: Int = 0) {
    guard locals.isEmpty, !isOver, isEstablished else { return }
    let idleTime = isClient ? Self.idleTime.client : Self.idleTime.server
    idleTimer = scheduler.schedule(after: extensions == 0 ? idleTime : Self.abandonedTime) { [weak self] in
      guard let self else { return }
      let isSent = unsent.isEmpty && !multiplexer.hasOutput && transport.isDrained
      guard isSent || extensions >= Self.abandonedRounds else { return watchIdleness(extensions: extensions + 1) }
      end()
    }
  }
}
