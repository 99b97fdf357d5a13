import Common
import DBus
import HCI
import Loop
import Network
import Radio

/// Opens RFCOMM streams to peers, by sockets of the kernel.
///
/// It asks the peer's service discovery server for the channel of the profile, and connects to that channel.
/// `ConnectProfile` of bluetoothd is not used: its `NewConnection` does not name the end that opened the stream
/// (docs/bluez.md, "Streams").
@LoopActor
final class StreamClient {
  /// Time for the whole attempt. The kernel pages a peer for 5 s.
  static let limit = Duration.seconds(10)

  private let sockets: any ClassicSockets
  private let scheduler: any Scheduler
  private let counters: BlueZCounters
  private let streams: OpenStreams
  private let safety: ClassicSafety
  /// Attempts under way, by number. A number is never used again, so that an old registration cannot end a new attempt.
  private var attempts: [UInt64: StreamAttempt] = [:]
  private var lastAttempt: UInt64 = 0
  private var lastTransaction: UInt16 = 0

  init(
    _ sockets: any ClassicSockets, scheduler: any Scheduler, counters: BlueZCounters, streams: OpenStreams,
    safety: ClassicSafety
  ) {
    (self.sockets, self.scheduler, self.counters) = (sockets, scheduler, counters)
    (self.streams, self.safety) = (streams, safety)
  }

  /// The reason why this program opens no streams; nil if it does.
  var shortfall: String? { safety.shortfall }

  /// Opens a stream to a peer of the adapter.
  ///
  /// - Parameter then: called once, later, unless the registration is dropped before.
  /// - Throws: `notSupported` on a kernel where this is not safe.
  func connect(
    to peer: BluetoothAddress, on profile: StreamProfile, from adapter: BluetoothAddress, at place: Place,
    then: @escaping @LoopActor (Result<any RadioStream, RadioError>) -> Void
  ) throws(RadioError) -> Registration {
    if safety.shortfall != nil { throw .notSupported("open streams to peers with this kernel") }
    lastTransaction &+= UInt16(StreamProfile.serviceLimit)
    let attempt = StreamAttempt(
      sockets, peer, from: adapter, profile, transaction: lastTransaction, on: scheduler)
    lastAttempt += 1
    let id = lastAttempt
    attempts[id] = attempt
    attempt.begin(within: Self.limit) { [weak self] result in
      guard let self, attempts.removeValue(forKey: id) != nil else { return }
      switch result {
      case .success(let descriptor):
        let stream = SocketRadioStream(SocketStream(owning: descriptor), peer, on: scheduler)
        streams.add(stream, of: Device.path(of: peer, at: place.adapter))
        then(.success(stream))
      case .failure(let failure):
        if case .malformed = failure { counters.malformed += 1 }
        then(.failure(failure.error))
      }
    }
    return Registration { [weak self] in self?.attempts.removeValue(forKey: id)?.close() }
  }

  /// Ends all attempts, because the adapter is gone.
  func endAttempts() {
    for attempt in attempts.values { attempt.fail(.adapterGone) }
  }
}

/// One attempt to open a stream.
@LoopActor
private final class StreamAttempt {
  enum Failure: Error {
    case adapterGone
    case timedOut
    /// The kernel could not make a connection, for this reason.
    case socket(HCIError)
    case notServed
    case malformed
    case discoveryEnded

    var error: RadioError {
      switch self {
      case .adapterGone: .notReady("The Bluetooth adapter is gone.")
      case .timedOut: .peerLost("The peer did not answer in time.")
      case .socket(let error): .peerLost("The peer cannot be reached by RFCOMM (\(error)).")
      case .notServed: .peerLost("The peer does not serve the profile.")
      case .malformed: .peerLost("The peer's service discovery server sent a malformed answer.")
      case .discoveryEnded: .peerLost("The peer closed the connection.")
      }
    }
  }

  private let sockets: any ClassicSockets
  private let peer: BluetoothAddress
  private let adapter: BluetoothAddress
  private let scheduler: any Scheduler
  private var services: ArraySlice<BluetoothUUID>
  private var transaction: UInt16
  private var then: (@LoopActor (Result<Int32, Failure>) -> Void)?
  private var timer: Registration?
  private var opening: OpeningSocket?
  /// The connection to the discovery server. It stays until the stream is open, so that the link does.
  private var discovery: HCISocket?
  private var watch: Registration?
  private var query: ChannelQuery?
  private var answers = 0
  private var retryTimer: Registration?
  private var hasRetried = false

  /// Maximum bytes of one answer: the largest MTU that the kernel offers by default is smaller.
  private static let answerLimit = 2048
  /// Pause before the second attempt, which follows if the peer refused the first one for security.
  private static let retryTime = Duration.milliseconds(200)
  /// Maximum number of answers into which the peer may split the result for one UUID.
  private static let answersLimit = 64

  init(
    _ sockets: any ClassicSockets, _ peer: BluetoothAddress, from adapter: BluetoothAddress, _ profile: StreamProfile,
    transaction: UInt16, on scheduler: any Scheduler
  ) {
    (self.sockets, self.peer, self.adapter, self.scheduler) = (sockets, peer, adapter, scheduler)
    (services, self.transaction) = (profile.services[...], transaction)
  }

  /// - Parameter then: called once, later.
  func begin(within limit: Duration, _ then: @escaping @LoopActor (Result<Int32, Failure>) -> Void) {
    self.then = then
    timer = scheduler.schedule(after: limit) { [weak self] in self?.fail(.timedOut) }
    do throws(HCIError) {
      wait(
        try sockets.discovery(of: peer, from: adapter), orElse: { [weak self] in self?.fail(.socket($0)) },
        then: { [weak self] in self?.discover($0) })
    } catch {
      scheduler.soon { [weak self] in self?.fail(.socket(error)) }
    }
  }

  /// Ends the attempt without a report.
  func close() {
    then = nil
    release()
  }

  func fail(_ failure: Failure) { end(.failure(failure)) }

  private func end(_ result: Result<Int32, Failure>) {
    guard let report = then else { return }
    then = nil
    release()
    report(result)
  }

  private func release() {
    (timer, retryTimer, watch, discovery) = (nil, nil, nil, nil)
    opening?.close()
    opening = nil
  }

  /// Waits until a socket is connected.
  private func wait(
    _ descriptor: Int32, orElse: @escaping @LoopActor (HCIError) -> Void, then: @escaping @LoopActor (Int32) -> Void
  ) {
    let socket = OpeningSocket(owning: descriptor)
    opening = socket
    socket.whenOver { [weak self] failure in
      guard let self, opening === socket else { return }
      if let failure { return orElse(failure) }
      opening = nil
      then(socket.take())
    }
  }

  // MARK: Service discovery

  private func discover(_ descriptor: Int32) {
    let socket = HCISocket(owning: descriptor)
    discovery = socket
    watch = socket.watch { [weak self] in self?.read() }
    askNext()
  }

  /// Asks for the next UUID of the profile.
  private func askNext() {
    guard let service = services.popFirst() else { return fail(.notServed) }
    transaction &+= 1
    answers = 0
    query = ChannelQuery(service, transaction: transaction)
    ask()
  }

  private func ask() {
    guard let query, let discovery else { return }
    do throws(HCIError) {
      try discovery.send(query.request)
    } catch {
      fail(.discoveryEnded)
    }
  }

  private func read() {
    guard let discovery else { return }
    switch discovery.receive(limit: Self.answerLimit) {
    case .nothing: break
    case .tooLong: fail(.malformed)
    case .broken:
      // The link has ended, or the peer has closed the connection. A stream that is being opened fails by itself.
      guard opening == nil else {
        watch = nil
        return
      }
      fail(.discoveryEnded)
    case .packet(let bytes): handle(bytes)
    }
  }

  private func handle(_ answer: [UInt8]) {
    // An answer without a request is ignored.
    guard opening == nil, query != nil else { return }
    answers += 1
    guard answers <= Self.answersLimit, let progress = try? query?.handle(answer) else { return fail(.malformed) }
    switch progress {
    case .unfinished: ask()
    case .notServed: askNext()
    case .channel(let channel):
      query = nil
      open(channel)
    }
  }

  private func open(_ channel: UInt8) {
    do throws(HCIError) {
      wait(
        try sockets.stream(to: peer, channel: channel, from: adapter),
        orElse: { [weak self] in self?.retry(channel, after: $0) }, then: { [weak self] in self?.end(.success($0)) })
    } catch {
      retry(channel, after: error)
    }
  }

  /// Opens the channel a second time after a refusal for security. A peer that has not yet noticed that the new link is
  /// encrypted refuses the first time.
  private func retry(_ channel: UInt8, after failure: HCIError) {
    guard case .denied = failure, !hasRetried else { return fail(.socket(failure)) }
    hasRetried = true
    retryTimer = scheduler.schedule(after: Self.retryTime) { [weak self] in self?.open(channel) }
  }
}
