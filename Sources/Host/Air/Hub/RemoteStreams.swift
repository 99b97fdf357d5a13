import Common
import Loop
import Radio

/// The streams of a node whose simulated radio is at the other end of the hub's socket.
@LoopActor
final class RemoteStreams {
  typealias Opened = @LoopActor (Result<any RadioStream, RadioError>) -> Void

  private let send: @LoopActor (NodeFrame) -> Void
  private var streams: [UInt32: RemoteStream] = [:]
  private var attempts: [UInt32: (address: BluetoothAddress, then: Opened)] = [:]
  private var handlers: [BluetoothUUID: @LoopActor (any RadioStream) -> Void] = [:]
  private var last: UInt32 = 0

  init(send: @escaping @LoopActor (NodeFrame) -> Void) { self.send = send }

  /// Whether peers can open streams to this node.
  var isAccepting: Bool { !handlers.isEmpty }

  /// Registers the profiles at a hub that has accepted the node.
  func enter() {
    for service in handlers.keys.sorted(by: { $0.isBefore($1) }) { send(.listenStreams(service, true)) }
  }

  /// Handles the end of the connection to the hub.
  func lose(_ reason: String) {
    let (streams, attempts) = (streams, attempts)
    (self.streams, self.attempts) = ([:], [:])
    for (_, stream) in streams.sorted(by: { $0.key < $1.key }) { stream.ended(reason) }
    for (_, attempt) in attempts.sorted(by: { $0.key < $1.key }) { attempt.then(.failure(.peerLost(reason))) }
  }

  func listen(
    on profile: StreamProfile, isIn: Bool, _ handler: @escaping @LoopActor (any RadioStream) -> Void,
    onEnd: @escaping @LoopActor () -> Void
  ) throws(RadioError) -> Registration {
    let service = profile.registered
    guard handlers[service] == nil else { throw .refused("The profile is registered already.") }
    handlers[service] = handler
    if isIn { send(.listenStreams(service, true)) }
    return Registration { [weak self] in
      self?.handlers[service] = nil
      self?.send(.listenStreams(service, false))
      onEnd()
    }
  }

  func connect(to address: BluetoothAddress, on profile: StreamProfile, then: @escaping Opened) -> Registration {
    last = (last &+ 1) & 0x7FFF_FFFF
    let number = last
    attempts[number] = (address, then)
    send(.connectStream(stream: number, address, profile.services))
    return Registration { [weak self] in
      guard let self, attempts.removeValue(forKey: number) != nil else { return }
      send(.closeStream(stream: number))
    }
  }

  func handle(_ frame: HubFrame) {
    switch frame {
    case .streamOpened(let number, let address, let service):
      let stream = add(number, address)
      if let handler = handlers[service] { handler(stream) } else { stream.close() }
    case .streamConnected(let number):
      guard let attempt = attempts.removeValue(forKey: number) else { return send(.closeStream(stream: number)) }
      attempt.then(.success(add(number, attempt.address)))
    case .streamData(let number, let bytes): streams[number]?.take(bytes)
    case .streamTaken(let number, let count): streams[number]?.acknowledged(Int(count))
    case .streamClosed(let number, let reason):
      if let attempt = attempts.removeValue(forKey: number) { attempt.then(.failure(.peerLost(reason))) }
      streams.removeValue(forKey: number)?.ended(reason)
    default: break
    }
  }

  private func add(_ number: UInt32, _ address: BluetoothAddress) -> RemoteStream {
    let stream = RemoteStream(number, address, send: send) { [weak self] in self?.streams[number] = nil }
    streams[number] = stream
    return stream
  }
}

/// A stream over the hub's socket.
@LoopActor
final class RemoteStream: RadioStream {
  let address: BluetoothAddress
  private let number: UInt32
  private let transmit: @LoopActor (NodeFrame) -> Void
  private let onClose: @LoopActor () -> Void
  private var handler: (@LoopActor (RadioStreamEvent) -> Void)?
  private var arrived: [UInt8] = []
  private var isPaused = false
  private var isReportDue = false
  private var unacknowledged = 0
  private var wasShort = false
  private var isClosed = false
  private var end: String?

  init(
    _ number: UInt32, _ address: BluetoothAddress, send: @escaping @LoopActor (NodeFrame) -> Void,
    onClose: @escaping @LoopActor () -> Void
  ) {
    (self.number, self.address, transmit, self.onClose) = (number, address, send, onClose)
  }

  func start(_ handler: @escaping @LoopActor (RadioStreamEvent) -> Void) {
    guard !isClosed else { return }
    self.handler = handler
    reportSoon()
  }

  func send(_ bytes: ArraySlice<UInt8>) -> Int {
    guard !isClosed, end == nil else { return 0 }
    let count = min(bytes.count, AirWire.streamWindow - unacknowledged)
    if count < bytes.count { wasShort = true }
    var rest = bytes.prefix(count)
    while !rest.isEmpty {
      transmit(.streamData(stream: number, Array(rest.prefix(AirWire.valueLimit))))
      rest = rest.dropFirst(AirWire.valueLimit)
    }
    unacknowledged += count
    return count
  }

  func pauseReading(_ isPaused: Bool) {
    guard isPaused != self.isPaused else { return }
    self.isPaused = isPaused
    if !isPaused { reportSoon() }
  }

  func close() {
    guard !isClosed else { return }
    isClosed = true
    handler = nil
    if end == nil { transmit(.closeStream(stream: number)) }
    onClose()
  }

  // MARK: The hub

  func take(_ bytes: [UInt8]) {
    arrived += bytes
    report()
  }

  func acknowledged(_ count: Int) {
    unacknowledged = max(0, unacknowledged - count)
    guard wasShort, unacknowledged <= AirWire.streamWindow / 2 else { return }
    wasShort = false
    handler?(.writable)
  }

  func ended(_ reason: String) {
    end = reason
    reportSoon()
  }

  private func reportSoon() {
    guard !isReportDue else { return }
    isReportDue = true
    EventLoop.shared.soon { [self] in
      isReportDue = false
      report()
    }
  }

  private func report() {
    guard let handler, !isPaused else { return }
    if !arrived.isEmpty {
      let bytes = arrived
      arrived = []
      if end == nil { transmit(.streamTaken(stream: number, count: UInt32(bytes.count))) }
      handler(.received(bytes))
    }
    guard let end, !isPaused, let handler = self.handler else { return }
    self.handler = nil
    handler(.closed(reason: end))
  }
}
