import Common
import Crypto
import Loop
import Network
import TLS
import Thali

/// The streams between local programs and peers: those that peers open, and those that programs open.
///
/// A stream is TLS over TCP on one side and a socket of the program on the other. `ServiceLabel.request` names the
/// program's service.
@LoopActor
final class PresenceStreams {
  /// A way to a peer, with the parameters of TLS.
  struct Route {
    enum Target {
      case network(Endpoint)
      case bluetooth(DeviceAddress)
    }

    let target: Target
    let identity: String
    let dialect: Dialect
    let key: SecretBytes
  }

  /// The origin of a peer's stream.
  private enum Source: Hashable, Sendable {
    case network(IPAddress)
    case bluetooth(DeviceAddress)
  }

  /// A service that a local program has registered.
  private struct Registered {
    let address: LocalAddress
    /// The bus name of the program's connection.
    let owner: String
    /// The user ID of the program.
    let user: UInt32
  }

  /// Maximum number of streams, open ones and those being opened.
  nonisolated static let limit = 64
  /// Maximum number of open streams of one peer.
  nonisolated static let limitOfPeer = 16
  /// Maximum number of registered services.
  nonisolated static let services = 64
  private static let connectTime = Duration.seconds(5)
  /// Maximum time in which a stream is opened for a program, over all ways to the peer together.
  private static let openTime = Duration.seconds(20)
  /// Maximum time until a peer's first message of TLS.
  private static let firstFlightTime = Duration.seconds(3)
  /// Maximum time for the request and its answer, after the handshake.
  private static let requestTime = Duration.seconds(10)

  private weak var service: PresenceService?
  private let scheduler: any Scheduler
  private let server: TLSContext?
  private let client: TLSContext?
  private let oldClient: TLSContext?
  private var registered: [ServiceLabel: Registered] = [:]
  private var open: [Int: (peer: PeerID?, end: @LoopActor () -> Void)] = [:]
  private var last = 0
  private var handshakes = ConnectionLimit<Source>.tlsHandshakes
  /// The numbers of the streams whose handshake is under way, the oldest first.
  private var halfOpen: [Int] = []
  private var evictedHandshakes: UInt64 = 0
  private var silentHandshakes: UInt64 = 0
  private var tls = TLSCounters()
  private var refusals: [ConnectionRefusal: UInt64] = [:]
  private var incoming: UInt64 = 0
  private var outgoing: UInt64 = 0
  private var staleIdentities: UInt64 = 0
  private var malformedRequests: UInt64 = 0
  private var unknownServices: UInt64 = 0
  private var unavailableServices: UInt64 = 0
  private var tooMany: UInt64 = 0
  /// Number of bytes from peers and to peers, in streams that have ended.
  private var bytes: [UInt64] = [0, 0]

  init(_ service: PresenceService, on scheduler: any Scheduler) {
    (self.service, self.scheduler) = (service, scheduler)
    server = TLSContext(
      isServer: true, suites: service.dialects.contains(.node) ? [.ephemeral, .plain] : [.ephemeral])
    client = TLSContext(isServer: false)
    oldClient = TLSContext(isServer: false, suites: [.plain])
  }

  var count: Int { open.count }

  var tallies: [Tally] {
    tls.tallies + ConnectionRefusal.allCases.map { Tally("TLS\($0.name)", refusals[$0, default: 0]) }
      + [
        Tally("IncomingStreams", incoming), Tally("OutgoingStreams", outgoing),
        Tally("EvictedHandshakes", evictedHandshakes), Tally("SilentHandshakes", silentHandshakes),
        Tally("StaleIdentities", staleIdentities), Tally("MalformedServiceRequests", malformedRequests),
        Tally("UnknownServices", unknownServices), Tally("UnavailableServices", unavailableServices),
        Tally("TooManyStreams", tooMany), Tally("BytesFromPeers", bytes[0]), Tally("BytesToPeers", bytes[1]),
      ]
  }

  /// Ends all streams of a peer.
  func closeAll(of peer: PeerID) {
    for stream in open.values where stream.peer == peer { stream.end() }
  }

  func close() {
    for stream in open.values { stream.end() }
    registered = [:]
  }

  /// Adds a stream to those that count against the limit.
  ///
  /// - Returns: its number; nil if the limit is reached.
  private func reserve(_ peer: PeerID?, _ end: @escaping @LoopActor () -> Void) -> Int? {
    guard open.count < Self.limit, peer.map({ count(of: $0) < Self.limitOfPeer }) ?? true else {
      tooMany += 1
      return nil
    }
    last += 1
    open[last] = (peer, end)
    return last
  }

  private func count(of peer: PeerID) -> Int { open.values.count { $0.peer == peer } }

  private func join(_ number: Int, _ secure: SecureStream, _ local: SocketStream, _ box: JointBox) {
    let joint = StreamJoint(secure, local, on: scheduler) { [weak self] in
      guard let self else { return }
      if let joint = box.joint { for index in 0...1 { bytes[index] += joint.received[index] } }
      box.joint = nil
      open[number] = nil
    }
    box.joint = joint
    open[number]?.end = { box.joint?.close() }
  }

  // MARK: Services of local programs

  func register(
    _ label: ServiceLabel, at address: LocalAddress, by owner: String, user: UInt32
  ) throws(PresenceService.Refusal) {
    if let other = registered[label], other.owner != owner { throw .serviceTaken }
    guard registered.count < Self.services || registered[label] != nil else { throw .tooManyServices }
    registered[label] = Registered(address: address, owner: owner, user: user)
  }

  /// Removes the services of a program that has left the bus.
  func unregister(all owner: String) { registered = registered.filter { $0.value.owner != owner } }

  var serviceNames: [String] { registered.keys.map(\.text).sorted() }

  // MARK: Streams that peers open

  func accept(_ connection: IncomingConnection) {
    accept(SocketStream(connection), from: .network(connection.peer.address))
  }

  /// Handles a stream of an RFCOMM link.
  func accept(_ stream: SocketStream, from device: DeviceAddress) { accept(stream, from: .bluetooth(device)) }

  private func accept(_ transport: SocketStream, from address: Source) {
    guard let server, let service else { return transport.close() }
    do throws(ConnectionRefusal) {
      try openHandshake(address)
    } catch {
      refusals[error, default: 0] += 1
      return transport.close()
    }
    let slot = Locked(Registration { [weak self] in self?.handshakes.close(address) } as Registration?)
    func endHandshake() {
      let registration = slot.withLock { slot in
        defer { slot = nil }
        return slot
      }
      registration?.cancel()
    }
    let stream = IncomingStream(self, service, on: scheduler)
    guard let number = reserve(nil, { stream.end() }) else {
      transport.close()
      return endHandshake()
    }
    halfOpen.append(number)
    stream.begin(
      server, transport, firstFlight: Self.firstFlightTime,
      onTLS: { [weak self] event in
        endHandshake()
        self?.halfOpen.removeAll { $0 == number }
        self?.tls.count(event)
      },
      onEnd: { [weak self] in
        endHandshake()
        self?.halfOpen.removeAll { $0 == number }
        self?.open[number] = nil
      },
      onRequest: { [weak self] peer, label, isAnswered, rest in
        if case .bluetooth(let device) = address { self?.service?.links.prove(device) }
        self?.connect(number, stream, peer, label, isAnswered: isAnswered, rest)
      })
  }

  /// Counts a handshake. At the limit the oldest one ends, because stalled handshakes of strangers must not exclude a
  /// known peer, whose handshake needs much less than a second.
  private func openHandshake(_ source: Source) throws(ConnectionRefusal) {
    do throws(ConnectionRefusal) {
      try handshakes.open(source, at: scheduler.now)
    } catch {
      guard error == .tooMany, let oldest = halfOpen.first, let stream = open[oldest] else { throw error }
      evictedHandshakes += 1
      stream.end()
      try handshakes.open(source, at: scheduler.now)
    }
  }

  fileprivate func noteSilentHandshake() { silentHandshakes += 1 }

  /// The key for the identity of a TLS client.
  fileprivate func key(
    _ identity: String, _ suite: TLSSuite, _ service: PresenceService
  ) -> (key: SecretBytes, peer: PeerID)? {
    do throws(IdentityRefusal) {
      let credential = try service.credential(for: identity)
      // Only dialect `node` may use the suite without ephemeral keys. Otherwise an attacker could force a peer to the
      // weaker suite.
      guard suite == .ephemeral || credential.dialect == .node else { return nil }
      return (credential.preSharedKey, credential.peer)
    } catch {
      if error == .stale { staleIdentities += 1 }
      return nil
    }
  }

  fileprivate func noteMalformedRequest() { malformedRequests += 1 }

  private func connect(
    _ number: Int, _ stream: IncomingStream, _ peer: PeerID, _ label: ServiceLabel, isAnswered: Bool, _ rest: [UInt8]
  ) {
    // The peer may have been removed after its handshake, before this stream counted as one of its streams.
    guard service?.peer(peer) != nil else { return stream.end() }
    guard count(of: peer) < Self.limitOfPeer else {
      tooMany += 1
      return stream.refuse(isAnswered ? .unavailable : nil)
    }
    open[number]?.peer = peer
    guard let registered = registered[label] else {
      unknownServices += 1
      return stream.refuse(isAnswered ? .unknownService : nil)
    }
    connectLocal(registered) { [weak self] local, activate in
      guard let self, open[number] != nil, let local, let secure = stream.release() else {
        self?.unavailableServices += 1
        local?.close()
        return stream.refuse(isAnswered ? .unavailable : nil)
      }
      incoming += 1
      let box = JointBox()
      join(number, secure, local, box)
      activate { box.joint?.handle($0, of: 1) }
      if isAnswered { _ = secure.send([ServiceAnswer.accepted.rawValue]) }
      if !rest.isEmpty { box.joint?.handle(.received(rest), of: 0) }
      stream.handOver(to: { box.joint?.handle($0, of: 0) })
    }
  }

  /// Connects to a program.
  ///
  /// - Parameter then: called once; with nil if the program does not accept the connection. `activate` starts to report
  ///   events.
  private func connectLocal(
    _ registered: Registered,
    then:
      @escaping @LoopActor (
        SocketStream?, _ activate: @LoopActor (@escaping @LoopActor (SocketStreamEvent) -> Void) -> Void
      ) -> Void
  ) {
    switch registered.address {
    case .socket(let path):
      do throws(NetworkError) {
        let local = try SocketStream.connect(toSocket: path)
        // Otherwise a program could make this service connect, with the service's own permissions, to sockets of other
        // users.
        guard local.peerUser == registered.user else {
          local.close()
          return then(nil) { _ in }
        }
        then(local) { body in local.start(onEvent: body) }
      } catch {
        then(nil) { _ in }
      }
    case .loopback(let endpoint):
      let relay = EventRelay()
      let box = StreamBox()
      // The stream retains the relay, so the relay must not retain itself.
      relay.onEvent = { [weak relay] event in
        switch event {
        case .connected: then(box.stream) { body in relay?.onEvent = body }
        case .closed: then(nil) { _ in }
        case .received, .writable, .ended, .hungUp: break
        }
      }
      box.stream = SocketStream.connect(to: endpoint, within: Self.connectTime, on: scheduler) { event in
        relay.onEvent?(event)
      }
    }
  }

  // MARK: Streams that programs open

  /// Opens a stream to a service of a peer.
  ///
  /// - Parameter then: called once, later, with the descriptor of the program's end, which the receiver owns.
  func connect(
    to peer: PeerID, _ label: ServiceLabel, then: @escaping @LoopActor (Result<Int32, PresenceService.Refusal>) -> Void
  ) {
    guard let service else { return then(.failure(.notReady("The service stops."))) }
    let routes = service.routes(to: peer)
    guard !routes.isEmpty else { return then(.failure(.notNearby)) }
    let attempt = OutgoingStream(
      label, routes, within: Self.connectTime, request: Self.requestTime, total: Self.openTime, links: service.links,
      on: scheduler)
    guard let number = reserve(peer, { attempt.end() }) else { return then(.failure(.tooManyStreams)) }
    attempt.begin(
      context: { [client, oldClient] dialect in dialect == .spec ? client : oldClient },
      onTLS: { [weak self] in self?.tls.count($0) },
      then: { [weak self] result in
        guard let self else { return }
        switch result {
        case .failure(let refusal):
          open[number] = nil
          then(.failure(refusal))
        case .success(let secure):
          do throws(NetworkError) {
            let (local, other) = try SocketStream.pair()
            outgoing += 1
            let box = JointBox()
            join(number, secure, local, box)
            local.start { box.joint?.handle($0, of: 1) }
            attempt.handOver(to: { box.joint?.handle($0, of: 0) })
            then(.success(other))
          } catch {
            secure.close()
            open[number] = nil
            then(.failure(.unreachable(error.sentence)))
          }
        }
      })
  }
}

/// Holds the `StreamJoint` of a stream, for callbacks that are created before it.
@LoopActor
private final class JointBox {
  var joint: StreamJoint?
}

@LoopActor
private final class StreamBox {
  var stream: SocketStream?
}

/// Forwards the events of a stream to a receiver that can be replaced during the stream's life.
@LoopActor
private final class EventRelay {
  var onEvent: (@LoopActor (SocketStreamEvent) -> Void)?
}

/// A stream of a peer until its service is known: the handshake and the request.
@LoopActor
private final class IncomingStream {
  private static let time = Duration.seconds(20)

  private weak var owner: PresenceStreams?
  private weak var service: PresenceService?
  private let scheduler: any Scheduler
  private let relay = EventRelay()
  private var secure: SecureStream?
  private var reader = ServiceRequestReader()
  private var peer: PeerID?
  private var timer: Registration?
  private var firstFlight: Registration?
  private var onEnd: (@LoopActor () -> Void)?
  /// Whether the request has been read. Later events wait until the program has the stream.
  private var isRequested = false
  private var later: [SocketStreamEvent] = []

  init(_ owner: PresenceStreams, _ service: PresenceService, on scheduler: any Scheduler) {
    (self.owner, self.service, self.scheduler) = (owner, service, scheduler)
  }

  func begin(
    _ context: TLSContext, _ transport: SocketStream, firstFlight: Duration,
    onTLS: @escaping @LoopActor (TLSEvent) -> Void, onEnd: @escaping @LoopActor () -> Void,
    onRequest: @escaping @LoopActor (PeerID, ServiceLabel, _ isAnswered: Bool, _ rest: [UInt8]) -> Void
  ) {
    self.onEnd = onEnd
    timer = scheduler.schedule(after: Self.time) { [weak self] in self?.end() }
    self.firstFlight = scheduler.schedule(after: firstFlight) { [weak self] in
      guard let self, self.secure?.hasSent == false else { return }
      owner?.noteSilentHandshake()
      end()
    }
    relay.onEvent = { [weak self] event in self?.handle(event, onRequest) }
    let secure = SecureStream(
      context, .server(key: { [weak self] identity, suite in self?.key(identity, suite) }), on: scheduler,
      onTLS: onTLS, onEvent: { [relay] in relay.onEvent?($0) })
    self.secure = secure
    secure.start(on: transport)
  }

  private func key(_ identity: String, _ suite: TLSSuite) -> SecretBytes? {
    guard let owner, let service, let found = owner.key(identity, suite, service) else { return nil }
    peer = found.peer
    return found.key
  }

  private func handle(
    _ event: SocketStreamEvent, _ onRequest: @LoopActor (PeerID, ServiceLabel, Bool, [UInt8]) -> Void
  ) {
    switch event {
    case .connected, .writable: break
    // Reading is paused, so these events come from bytes that were already read. They wait for the program.
    case .received where isRequested, .ended where isRequested, .hungUp where isRequested: later.append(event)
    case .received(let bytes):
      switch reader.receive(bytes[...]) {
      case .incomplete: break
      case .service(let label, let isAnswered, let rest):
        guard let peer else { return end() }
        isRequested = true
        secure?.pauseReading(true)
        onRequest(peer, label, isAnswered, rest)
      case .malformed:
        owner?.noteMalformedRequest()
        end()
      }
    case .ended, .hungUp, .closed: end()
    }
  }

  /// Transfers ownership of the stream; nil if it has ended.
  func release() -> SecureStream? {
    guard onEnd != nil else { return nil }
    (timer, firstFlight, onEnd) = (nil, nil, nil)
    return secure
  }

  /// Passes all further events to `body`, and continues to read.
  func handOver(to body: @escaping @LoopActor (SocketStreamEvent) -> Void) {
    relay.onEvent = body
    secure?.pauseReading(false)
    for event in later { body(event) }
    (later, secure) = ([], nil)
  }

  /// Sends an answer, and then ends the stream.
  func refuse(_ answer: ServiceAnswer?) {
    guard let secure, onEnd != nil else { return end() }
    if let answer { _ = secure.send([answer.rawValue]) }
    relay.onEvent = { [weak self] event in
      switch event {
      case .ended, .hungUp, .closed: self?.end()
      case .connected, .received, .writable: break
      }
    }
    secure.finish()
    secure.pauseReading(false)
  }

  func end() {
    let report = onEnd
    (onEnd, timer, firstFlight, relay.onEvent) = (nil, nil, nil, nil)
    secure?.close()
    secure = nil
    report?()
  }
}

/// A stream to a peer until the peer's program has accepted it. The ways to the peer are tried one after the other.
@LoopActor
private final class OutgoingStream {
  private let label: ServiceLabel
  private var routes: [PresenceStreams.Route]
  private let connectTime: Duration
  private let requestTime: Duration
  private let totalTime: Duration
  private let links: RFCOMMLinks
  private let scheduler: any Scheduler
  private let relay = EventRelay()
  private var secure: SecureStream?
  private var timer: Registration?
  private var totalTimer: Registration?
  private var then: (@LoopActor (Result<SecureStream, PresenceService.Refusal>) -> Void)?
  private var context: @LoopActor (Dialect) -> TLSContext? = { _ in nil }
  private var onTLS: @LoopActor (TLSEvent) -> Void = { _ in }
  private var failure = "The peer does not answer."

  init(
    _ label: ServiceLabel, _ routes: [PresenceStreams.Route], within connectTime: Duration, request: Duration,
    total: Duration, links: RFCOMMLinks, on scheduler: any Scheduler
  ) {
    (self.label, self.routes, self.connectTime, requestTime, totalTime) = (label, routes, connectTime, request, total)
    (self.links, self.scheduler) = (links, scheduler)
  }

  func begin(
    context: @escaping @LoopActor (Dialect) -> TLSContext?, onTLS: @escaping @LoopActor (TLSEvent) -> Void,
    then: @escaping @LoopActor (Result<SecureStream, PresenceService.Refusal>) -> Void
  ) {
    (self.context, self.onTLS, self.then) = (context, onTLS, then)
    totalTimer = scheduler.schedule(after: totalTime) { [weak self] in
      self?.routes = []
      self?.next()
    }
    next()
  }

  /// Passes all further events to `body`.
  func handOver(to body: @escaping @LoopActor (SocketStreamEvent) -> Void) {
    relay.onEvent = body
    secure = nil
  }

  /// Abandons the attempt.
  func end() {
    let report = then
    (then, totalTimer) = (nil, nil)
    takeDown()
    report?(.failure(.unreachable("The stream was closed before it was established.")))
  }

  private func takeDown() {
    secure?.close()
    (secure, timer, relay.onEvent) = (nil, nil, nil)
  }

  private func next() {
    takeDown()
    guard !routes.isEmpty else {
      let report = then
      (then, totalTimer) = (nil, nil)
      report?(.failure(.unreachable(failure)))
      return
    }
    let route = routes.removeFirst()
    guard let context = context(route.dialect) else {
      failure = "The TLS library does not have the cipher suite of Thali."
      return next()
    }
    let secure = SecureStream(
      context, .client(identity: route.identity, key: route.key), on: scheduler,
      onTLS: { [weak self] event in self?.note(event) }, onEvent: { [relay] in relay.onEvent?($0) })
    self.secure = secure
    relay.onEvent = { [weak self] in self?.handle($0) }
    switch route.target {
    case .network(let endpoint): secure.connect(to: endpoint, within: connectTime)
    case .bluetooth(let device):
      links.open(to: device) { [weak self] stream in
        guard let self, self.secure === secure else {
          stream?.close()
          return
        }
        if let stream { secure.start(on: stream) } else { next() }
      }
    }
  }

  private func note(_ event: TLSEvent) {
    onTLS(event)
    switch event {
    case .failed(.refusedByPeer(.unknownIdentity)):
      failure = "The peer no longer knows this machine; its announcement may have changed."
    case .failed(.refused), .failed(.refusedByPeer): failure = "The peer could not be authenticated."
    case .failed, .established, .received, .ended: break
    }
  }

  private func handle(_ event: SocketStreamEvent) {
    guard let secure, let then else { return }
    switch event {
    case .connected:
      guard label != .unnamed else { return succeed(secure, then) }
      _ = secure.send(label.request[...])
      timer = scheduler.schedule(after: requestTime) { [weak self] in
        self?.failure = "The peer does not answer the request for the service."
        self?.next()
      }
    case .received(let bytes):
      // The answer is the first byte. Bytes of the stream may follow it in the same TLS record.
      guard let first = bytes.first, let answer = ServiceAnswer(rawValue: first) else {
        failure = "The peer's answer to the request for the service is invalid."
        return next()
      }
      switch answer {
      case .accepted:
        succeed(secure, then)
        if bytes.count > 1 { relay.onEvent?(.received(Array(bytes.dropFirst()))) }
      case .unknownService: refuse(.serviceNotRegistered)
      case .unavailable: refuse(.unreachable("The peer's program does not accept connections."))
      }
    case .writable: break
    case .ended, .hungUp, .closed: next()
    }
  }

  private func succeed(
    _ secure: SecureStream, _ then: @LoopActor (Result<SecureStream, PresenceService.Refusal>) -> Void
  ) {
    (timer, totalTimer, self.then) = (nil, nil, nil)
    then(.success(secure))
  }

  private func refuse(_ refusal: PresenceService.Refusal) {
    let report = then
    (then, totalTimer) = (nil, nil)
    takeDown()
    report?(.failure(refusal))
  }
}
