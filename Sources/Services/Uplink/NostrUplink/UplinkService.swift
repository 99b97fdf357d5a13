import Bytes
import Calendar
import Common
import Crypto
import DBus
import Journal
import LocalSockets
import Loop
import Nostr
import Store
import Streams

/// Private messages over relays: the engine with its store, its connections, the proxy, and the node of the mesh.
@LoopActor
final class UplinkService {
  enum Status: String, CaseIterable, Sendable {
    /// The keys are not read yet.
    case starting
    /// The keys or the outbox cannot be read.
    case failed
    /// The mesh node passes no packets to the uplink.
    case noMesh
    /// There is no contact, so that nothing is connected.
    case idle
    /// The proxy does not accept connections. Nothing is sent.
    case waitingForProxy
    /// No relay is connected.
    case connecting
    case ready
  }

  /// A relay for status displays.
  struct Relay: Hashable, Sendable {
    let address: String
    let purpose: String
    let state: String
    let reason: String
  }

  /// The pause before the proxy is asked again, doubled after each attempt until a relay is reached.
  private static let (firstPause, longestPause) = (Duration.seconds(2), Duration.seconds(60))
  /// The pause before a text that the node could not handle is passed to it again.
  private static let deliveryPause = Duration.seconds(5)
  /// The time without a relay after which `Reason` names a proxy that may not be ready.
  private static let connectingTime = Duration.seconds(20)

  /// `status`, `reason`, `relays` or the key has changed.
  let changes = Observers<Void>()
  /// A text in a geohash channel has arrived.
  let channelArrivals = Observers<UInt32>()

  private let settings: UplinkSettings
  private let configuredRelays: [UplinkRelay]
  private let route: UplinkRoute
  private let store: UplinkStore
  private let connections: RelayConnections
  private let mesh: any MeshPort
  private let scheduler: any Scheduler
  private let clock: any WallClock
  private let dial: WebSocketClient.Dial
  private let makeRandom: @LoopActor () -> any RandomSource & Sendable
  /// Maximum received texts that wait for the node.
  private let arrivalLimit: Int
  private lazy var timer = Deadline(scheduler) { [weak self] in self?.handle(.timer) }

  private var engine: NostrEngine?
  private var identity: UplinkIdentity?
  private var trustProblem: String?
  private var storeProblem: String?
  private var isStopped = false
  private var hasContacts = false

  private var probe: ProxyProbe?
  private var probeTimer: Registration?
  private var probePause = UplinkService.firstPause
  /// Since when the proxy cannot be used, in seconds since 1970, and why; nil if it can.
  private var proxyProblem: (since: Int64, reason: String)?
  /// When the proxy has begun to accept connections, or the last relay went.
  private var waitingSince: Instant?
  private var connectingTimer: Registration?

  /// Received texts that the node has not handled.
  private var arrivals: [(text: String, key: String)] = []
  /// The number of the text that the node is handling, counted from 1; nil if there is none.
  private var delivering: UInt64?
  private var deliveries: UInt64 = 0
  private var deliveryTimer: Registration?
  private(set) var channelLog = ChannelLog()
  private var counts = Counts()
  private var shown = Shown()

  /// The values that `changes` reports.
  private struct Shown: Equatable {
    var status = Status.starting
    var relays: [Relay] = []
    var waiting = 0
  }

  private struct Counts {
    var delivered: UInt64 = 0
    var unsendableTexts: UInt64 = 0
    var proxyFailures: UInt64 = 0
    var storeFailures: UInt64 = 0
    var wipes: UInt64 = 0
  }

  /// - Parameters:
  ///   - arrivalLimit: maximum received texts that wait for the node. Further ones stay at their relays.
  ///   - dial: connects to the proxy.
  ///   - random: makes a source of keys, nonces and names.
  init(
    settings: UplinkSettings, route: UplinkRoute, store: UplinkStore, mesh: any MeshPort, scheduler: any Scheduler,
    clock: any WallClock, resolver: any HostResolving, arrivalLimit: Int = 1000,
    dial: @escaping WebSocketClient.Dial = { (host, port) throws(LocalStreamError) in
      try SocketStream(connectingToHost: host, port: port)
    },
    random: @escaping @LoopActor () -> any RandomSource & Sendable = { SystemRandom() }
  ) {
    (self.settings, self.route, self.store, self.mesh) = (settings, route, store, mesh)
    (self.scheduler, self.clock, self.dial, makeRandom) = (scheduler, clock, dial, random)
    self.arrivalLimit = arrivalLimit
    let relays = settings.parsedRelays(allowsPlain: route == .clearnet)
    configuredRelays = relays
    var servers: [RelayAddress: WebSocketAddress] = [:]
    for server in relays.compactMap(\.server) { servers[server.address] = server.socket }
    connections = RelayConnections(
      route, servers: servers, scheduler: scheduler, resolver: resolver, random: random(), dial: dial)
  }

  // MARK: Life

  /// - Parameter then: called once, when the keys and the outbox are read, or cannot be read.
  func begin(then: @escaping @LoopActor () -> Void) {
    connections.onEvent = { [weak self] in self?.handleConnection($0) }
    mesh.onRequest = { [weak self] in self?.handleRequest($0) }
    setTrust(settings.trustedCertificates)
    store.open { [weak self] result in
      self?.opened(result)
      then()
    }
  }

  func stop(then: @escaping @LoopActor () -> Void) {
    isStopped = true
    mesh.stop()
    probe?.close()
    (probe, probeTimer, deliveryTimer, connectingTimer) = (nil, nil, nil, nil)
    connections.closeAll()
    timer.set(nil)
    store.whenIdle(then: then)
  }

  /// Applies settings that can change at run time.
  func apply(_ settings: UplinkSettings) { setTrust(settings.trustedCertificates) }

  private func setTrust(_ file: String?) {
    if connections.setTrust(file: file) {
      trustProblem = nil
    } else {
      let problem = "The certificates \(file ?? "of the system") cannot be read"
      trustProblem =
        connections.hasTrust
        ? "\(problem). Those that were read before stay in use." : "\(problem), so that no relay is trusted."
    }
    changed()
  }

  private func opened(_ result: Result<UplinkStore.Stored, StoreError>) {
    guard !isStopped else { return }
    switch result {
    case .success(let stored):
      storeProblem = stored.problems.first
      for problem in stored.problems { Log.shared.error("\(problem)", id: .uplinkStoreFailed) }
      start(stored)
    case .failure(let error):
      storeProblem = error.sentence
      Log.shared.error("\(error.sentence)", id: .uplinkStoreFailed)
    }
    changed()
  }

  /// Begins with the keys that were read, or with new keys after a wipe.
  private func start(_ stored: UplinkStore.Stored) {
    identity = stored.identity
    var configuration = settings.engine(relays: configuredRelays.compactMap { $0.server?.address })
    configuration.channelSeed = stored.identity.seed
    do throws(NostrError) {
      engine = try NostrEngine(
        key: stored.identity.key, configuration: configuration, outbox: stored.outbox, at: scheduler.now,
        random: makeRandom())
    } catch {
      storeProblem = error.sentence
      Log.shared.error("\(error.sentence)", id: .uplinkStoreFailed)
      return
    }
    hasContacts = false
    findProxy()
    mesh.start(key: publicKey)
  }

  // MARK: The engine

  private var wall: UnixTime { UnixTime(seconds: clock.seconds) }

  private func handle(_ event: NostrEngine.Event) {
    guard !isStopped, let intents = engine?.handle(event, at: scheduler.now, wall: wall) else { return }
    carryOut(intents)
  }

  private func carryOut(_ intents: [NostrEngine.Intent], stored: @escaping @LoopActor (StoreError?) -> Void = { _ in })
  {
    for intent in intents {
      switch intent {
      case .connect(let link): connections.connect(link)
      case .send(let link, let text): connections.send(text, over: link)
      case .ping(let link): connections.ping(link)
      case .close(let link, _): connections.close(link)
      case .message(let message): arrived(message)
      case .channel(let event):
        guard let text = event.text else { break }
        channelArrivals.call(
          channelLog.add(
            text, in: event.geohash, by: event.author, nickname: event.nickname, at: event.time,
            isTeleported: event.isTeleported))
      case .store(let entry):
        store.put(entry) { [weak self] error in
          self?.noteStore(error)
          stored(error)
        }
      case .erase(let id): store.erase(id) { [weak self] in self?.noteStore($0) }
      case .accepted, .expired: break
      case .notice(let link, let text): Log.shared.debug("\(link.address.host): \(PrintableText.clean(text))")
      }
    }
    timer.set(engine?.deadline(at: scheduler.now, wall: wall))
    update()
  }

  private func noteStore(_ error: StoreError?) {
    guard let error else {
      guard storeProblem != nil else { return }
      storeProblem = nil
      return changed()
    }
    counts.storeFailures += 1
    if storeProblem == nil { Log.shared.error("\(error.sentence)", id: .uplinkStoreFailed) }
    storeProblem = error.sentence
    changed()
  }

  private func handleConnection(_ event: RelayConnectionEvent) {
    switch event {
    case .opened(let link):
      probePause = Self.firstPause
      handle(.opened(link))
    case .received(let link, let bytes): handle(.received(link, bytes))
    case .ponged(let link): handle(.ponged(link))
    case .ended(let link, let reason, let proxyProblem):
      handle(.ended(link, reason: reason))
      if let proxyProblem { loseProxy(proxyProblem) }
    }
  }

  // MARK: The proxy

  private func findProxy() {
    guard case .proxy(let proxy) = route else { return handle(.network(isReady: true)) }
    guard probe == nil, engine?.isNetworkReady != true else { return }
    probeTimer = nil
    probe = ProxyProbe(proxy, scheduler: scheduler, dial: dial) { [weak self] in self?.probed($0) }
  }

  private func probed(_ problem: String?) {
    probe = nil
    guard !isStopped else { return }
    guard let problem else {
      if proxyProblem != nil { Log.shared.notice("The proxy accepts connections", id: .uplinkProxyFound) }
      proxyProblem = nil
      return handle(.network(isReady: true))
    }
    counts.proxyFailures += 1
    noteProxy(problem)
    askProxyLater()
    update()
  }

  /// The pauses grow until a relay is reached. A proxy that answers the greeting and fails afterwards is not asked
  /// every 2 s.
  private func askProxyLater() {
    probeTimer = scheduler.schedule(after: probePause) { [weak self] in self?.findProxy() }
    probePause = min(probePause * 2, Self.longestPause)
  }

  private func loseProxy(_ reason: String) {
    guard engine?.isNetworkReady == true else { return }
    counts.proxyFailures += 1
    noteProxy(reason)
    handle(.network(isReady: false))
    askProxyLater()
  }

  private func noteProxy(_ reason: String) {
    if proxyProblem == nil {
      Log.shared.warning("The proxy \(settings.proxy.text) \(reason)", id: .uplinkProxyLost)
    }
    proxyProblem = (proxyProblem?.since ?? clock.seconds, reason)
  }

  // MARK: The node of the mesh

  private func handleRequest(_ request: MeshRequest) {
    switch request {
    case .contacts(let keys): setContacts(keys)
    case .send(let packet, let then): send(packet, then: then)
    case .cancel(let id): cancel(id)
    case .wipe(let then): wipe(then: then)
    case .changed: changed()
    case .attached(let node): attached(node)
    }
  }

  private func attached(_ node: String) {
    guard var identity else { return }
    if identity.node.isEmpty {
      identity.node = node
      self.identity = identity
      store.write(identity) { [weak self] in self?.noteStore($0) }
    } else if identity.node != node {
      // The node was wiped while this program was away.
      return wipe { error in
        if let error { Log.shared.error("\(error.message)", id: .uplinkStoreFailed) }
      }
    }
    deliver()
  }

  private func setContacts(_ keys: [String]) {
    let contacts = Set(keys.prefix(NostrLimits.contacts).compactMap { try? NostrKey(npub: $0) })
    hasContacts = !contacts.isEmpty
    guard let intents = engine?.setContacts(contacts, at: scheduler.now) else { return }
    carryOut(intents)
  }

  private func send(_ packet: MeshPacket, then: @escaping @LoopActor (DBusError?) -> Void) {
    guard engine != nil else { return then(.notReady(reason)) }
    guard let recipient = try? NostrKey(npub: packet.key) else {
      return then(.invalidArgs("The key is not a Nostr key in Bech32 (npub1…)."))
    }
    do throws(NostrError) {
      let time = UnixTime(seconds: Int64(clamping: packet.createdAt / 1000))
      let entry = try OutboxEntry(
        id: Self.outboxID(packet.id), kind: packet.kind == .message ? .message : .receipt, recipient: recipient,
        text: packet.text, sentAt: time)
      let intents = try engine?.send(entry, at: scheduler.now, wall: wall) ?? []
      var answer: (@LoopActor (DBusError?) -> Void)? = then
      carryOut(intents) { [weak self] error in
        guard let then = answer else { return }
        answer = nil
        guard let error else { return then(nil) }
        self?.cancel(packet.id)
        then(.failed(error.sentence))
      }
    } catch .knownMessage {
      // It is stored, or an earlier call stores it now, and may fail.
      guard let id = try? Self.outboxID(packet.id) else { return then(nil) }
      store.whenIdle { [weak self] in
        then(self?.engine?.holds(id) == true ? nil : .failed("The packet could not be stored."))
      }
    } catch {
      then(DBusError(error))
    }
  }

  private func cancel(_ text: String) {
    guard let id = try? Self.outboxID(text), let intents = engine?.cancel(id) else { return }
    carryOut(intents)
  }

  /// The ID of a message in the outbox. A text that is too long is replaced by its hash.
  private static func outboxID(_ text: String) throws(NostrError) -> OutboxID {
    guard text.utf8.count > NostrLimits.messageIDBytes else { return try OutboxID(text) }
    return try OutboxID("#" + Hex.encode(SHA256.hash(Array(text.utf8))))
  }

  private func arrived(_ message: OpenedMessage) {
    // An embedded packet is in ASCII. The node counts other texts.
    guard BusText.firstRefused(in: message.text.utf8) == nil else {
      counts.unsendableTexts += 1
      return
    }
    arrivals.append((message.text, message.sender.npub))
    limitArrivals()
    deliver()
  }

  /// Leaves further messages at the relays while too many wait for the node.
  private func limitArrivals() { engine?.isHolding = arrivals.count >= arrivalLimit }

  /// Passes received texts to the node, one at a time.
  private func deliver() {
    guard delivering == nil, !isStopped, mesh.isAttached, let first = arrivals.first else { return }
    deliveries += 1
    let number = deliveries
    (delivering, deliveryTimer) = (number, nil)
    mesh.deliver(first.text, from: first.key) { [weak self] isHandled in
      // A wipe drops the packets.
      guard let self, delivering == number else { return }
      delivering = nil
      guard isHandled else {
        deliveryTimer = scheduler.schedule(after: Self.deliveryPause) { [weak self] in self?.deliver() }
        return
      }
      arrivals.removeFirst()
      limitArrivals()
      counts.delivered += 1
      deliver()
    }
  }

  // MARK: Geohash channels

  /// Publishes a text in a geohash channel.
  ///
  /// - Returns: its number.
  func say(_ text: String, in name: String) throws(DBusError) -> UInt32 {
    guard let channel = try? Geohash(name), let key = engine?.publicKey(in: channel) else {
      throw DBusError(NostrError.unknownChannel)
    }
    let isLive = engine?.relays.contains { $0.link.purpose == .channel(channel) && $0.state == .live } ?? false
    guard isLive else {
      throw .notReady("No relay of the channel is connected. \(reason)")
    }
    do throws(NostrError) {
      carryOut(try engine?.say(text, in: channel, at: scheduler.now, wall: wall) ?? [])
    } catch {
      throw DBusError(error)
    }
    return channelLog.add(
      text, in: channel, by: key, nickname: settings.geohashName, at: wall, isTeleported: false)
  }

  // MARK: Wipe

  /// Destroys keys, outbox and received packets, closes all connections, and begins with new keys. The new key also
  /// gets other circuits of the proxy, so that no relay can link it to the former key by an address.
  private func wipe(then: @escaping @LoopActor (DBusError?) -> Void) {
    (engine, identity, hasContacts) = (nil, nil, false)
    (arrivals, delivering, channelLog) = ([], nil, ChannelLog())
    connections.closeAll()
    connections.renewSecret(randomFrom: makeRandom())
    timer.set(nil)
    store.wipe { [weak self] result in
      guard let self, !isStopped else { return then(.failed("The service stops.")) }
      counts.wipes += 1
      switch result {
      case .success:
        Log.shared.notice("The key and all messages are erased", id: .uplinkWiped)
        then(nil)
      case .failure(let error): then(.failed(error.sentence))
      }
      opened(result)
    }
  }

  // MARK: State

  /// This machine's key as `npub`; empty before it is read.
  var publicKey: String { engine.map { $0.publicKey.npub } ?? "" }

  var status: Status {
    guard let engine else { return storeProblem == nil ? .starting : .failed }
    guard mesh.isAttached else { return .noMesh }
    if proxyProblem != nil { return .waitingForProxy }
    if engine.relays.contains(where: { $0.state.isConnected }) { return .ready }
    return hasContacts || !(settings.geohashes ?? []).isEmpty ? .connecting : .idle
  }

  /// The missing parts and the remedy; empty if nothing is missing.
  var reason: String { reason(namesRelays: true) }

  private func reason(namesRelays: Bool) -> String {
    var sentences: [String] = []
    if route == .clearnet {
      sentences.append(
        "BITCHAT_DEV_ALLOW_CLEARNET is set: relays are reached without a proxy, and see this machine's address.")
    }
    sentences += [storeProblem, trustProblem].compactMap { $0 }
    if namesRelays { sentences += configuredRelays.compactMap(\.problem) }
    if let proxyProblem {
      sentences.append(
        "Nothing is sent since \(LocalTime.text(UInt64(max(0, proxyProblem.since)) * 1000)): the proxy \(settings.proxy.text) "
          + "\(proxyProblem.reason). Start it (Debian's package tor listens at 127.0.0.1:9050), or set Proxy= of "
          + "[Uplink].")
    }
    if !mesh.reason.isEmpty { sentences.append(mesh.reason) }
    if status == .connecting, let waitingSince, waitingSince.duration(to: scheduler.now) >= Self.connectingTime {
      sentences.append("No relay is reached. If the proxy is tor, it may still be connecting to its network.")
    }
    return sentences.joined(separator: " ")
  }

  var relays: [Relay] {
    let refused = configuredRelays.compactMap { relay in
      relay.problem.map { Relay(address: relay.text, purpose: "messages", state: "refused", reason: $0) }
    }
    let known = (engine?.relays ?? []).map { relay in
      let purpose =
        switch relay.link.purpose {
        case .messages: "messages"
        case .channel(let geohash): "channel \(geohash.text)"
        }
      return Relay(
        address: relay.link.address.text, purpose: purpose, state: relay.state.name,
        reason: PrintableText.clean(relay.reason ?? ""))
    }
    return known + refused
  }

  /// Messages that wait for a receipt, and receipts that no relay has accepted.
  var waiting: Int { engine?.outboxCount ?? 0 }

  var isVolatile: Bool { store.isVolatile }

  var tallies: [Tally] {
    [
      Tally("DeliveredTexts", counts.delivered), Tally("WaitingTexts", UInt64(arrivals.count)),
      Tally("UnsendableTexts", counts.unsendableTexts), Tally("ProxyFailures", counts.proxyFailures),
      Tally("StoreFailures", counts.storeFailures), Tally("Wipes", counts.wipes),
    ] + (engine?.tallies ?? [])
  }

  /// Sentences for `systemctl status`, which every user can read. They name no relay and no peer.
  var statusLine: String {
    let state: String
    switch status {
    case .starting: state = "The keys are being read."
    case .ready: state = route == .clearnet ? "Relays are connected WITHOUT a proxy." : "Relays are connected."
    case .idle: state = "No mutual favourite has a Nostr key: nothing is connected."
    case .connecting: state = "No relay is connected yet."
    case .failed, .noMesh, .waitingForProxy: return reason(namesRelays: false)
    }
    return trustProblem.map { "\(state) \($0)" } ?? state
  }

  private func update() {
    let status = status
    if status == .connecting, waitingSince == nil {
      waitingSince = scheduler.now
      connectingTimer = scheduler.schedule(after: Self.connectingTime) { [weak self] in self?.changed() }
    } else if status != .connecting {
      (waitingSince, connectingTimer) = (nil, nil)
    }
    let now = Shown(status: status, relays: relays, waiting: waiting)
    if now != shown {
      shown = now
      changed()
    }
  }

  private func changed() { changes.call() }
}

extension RelayState {
  /// Whether the relay is connected.
  fileprivate var isConnected: Bool {
    switch self {
    case .idle, .waiting, .connecting: false
    case .catchingUp, .live, .unsubscribed: true
    }
  }
}

extension DBusError {
  init(_ error: NostrError) {
    let sentence = error.sentence
    switch error {
    case .badAddress, .plainAddress, .badLength, .badMessageID: self = .invalidArgs(sentence)
    case .outboxFull: self = .limitExceeded(sentence)
    case .unknownRecipient, .unknownChannel: self = DBusError(.notFound, sentence)
    case .noRelay: self = .notReady(sentence)
    case .knownMessage, .cryptoFailed: self = .failed(sentence)
    }
  }
}
