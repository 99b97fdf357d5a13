import Bytes
import Common
import Config
import Crypto
import HTTP
import Journal
import Loop
import Network
import Store
import TLS
import Thali

/// Private presence on this machine: the engine, the local network, the stored key and peers, and the streams of
/// programs.
@LoopActor
public final class PresenceService {
  enum Phase: Hashable {
    case stopped
    /// The key and the peers are being read.
    case opening
    case ready
    /// The key and the peers cannot be read.
    case failed(String)
  }

  /// Reason why a program's request is refused.
  enum Refusal: Error, Hashable {
    case notReady(String)
    case engine(PresenceError)
    case badName
    case nameTaken
    case unknownName(String)
    case store(String)
    /// The peer is known and not nearby, or no way to it can be used.
    case notNearby
    /// No stream could be opened; the reason is a sentence.
    case unreachable(String)
    case serviceNotRegistered
    case tooManyStreams
    case tooManyServices
    case badService
    case badAddress
    case serviceTaken

    var sentence: String {
      switch self {
      case .notReady(let sentence), .store(let sentence), .unreachable(let sentence): sentence
      case .engine(let error): error.sentence
      case .badName:
        "A name has 1 to \(StoredPeers.longestName) bytes of printable text. It does not begin with a hyphen or a slash, "
          + "and has no space at its ends."
      case .nameTaken: "Another known peer has this name."
      case .unknownName(let name): "There is no known peer named \(PrintableText.clean(name))."
      case .notNearby: "The peer is not nearby."
      case .serviceNotRegistered: "No program of the peer has registered this service."
      case .tooManyStreams:
        "\(PresenceStreams.limit) streams are open, or \(PresenceStreams.limitOfPeer) with this peer. Close one first."
      case .tooManyServices:
        "\(PresenceStreams.services) services are registered, and no more are possible."
      case .badService:
        "A service name has 1 to \(ServiceLabel.longest) letters, digits, dots, hyphens and underscores."
      case .badAddress:
        "An address is the absolute path of a Unix socket, or 127.0.0.1 or [::1] with a port, as in 127.0.0.1:8080."
      case .serviceTaken: "Another program has registered this service."
      }
    }
  }

  /// A known peer, as the D-Bus adaptor shows it.
  struct Peer: Hashable {
    let entry: StoredPeer
    let id: PeerID
  }

  private let scheduler: any Scheduler
  private let clock: any WallClock
  private let network: any PresenceNetwork
  private let bluetooth: any PresenceBluetooth
  private let book: KnownPeerStore
  private var settings: PresenceSettings
  private var engine: PresenceEngine?
  private var content = StoredPeers()
  private(set) var peers: [Peer] = []
  private(set) var phase = Phase.stopped
  private var damage = ""
  private var isVolatile = false
  private var isWriting = false
  /// The failure to renew the announcement that was logged last.
  private var renewalFailure: PresenceError?
  private var fetches: [Way: Registration] = [:]
  private var resumption: Registration?
  private lazy var deadline = Deadline(scheduler) { [weak self] in self?.handle(.timer) }
  private(set) lazy var streams = PresenceStreams(self, on: scheduler)
  /// The RFCOMM links with peers.
  private(set) lazy var links = makeLinks()
  private var bluetoothRequests = BeaconRequests()

  /// Notifies observers of a change of the state, the announcement or the reason.
  let changes = Observers<Void>()
  let added = Observers<Peer>()
  let removed = Observers<Peer>()
  /// Notifies observers of a peer that appeared, disappeared, or is reachable in other ways.
  let moved = Observers<PeerID>()

  init(
    settings: PresenceSettings, network: any PresenceNetwork, bluetooth: any PresenceBluetooth = NoBluetooth(),
    book: KnownPeerStore, scheduler: any Scheduler, clock: any WallClock
  ) {
    (self.settings, self.network, self.bluetooth, self.book) = (settings, network, bluetooth, book)
    (self.scheduler, self.clock) = (scheduler, clock)
  }

  // MARK: Start and stop

  /// Starts the service.
  ///
  /// - Parameter then: called once, when the stored state is read or cannot be read.
  func begin(then: @escaping @LoopActor () -> Void) {
    phase = .opening
    book.open { [weak self] result in
      guard let self, phase == .opening else { return then() }
      switch result {
      case .success(let stored): start(stored)
      case .failure(let error):
        Log.shared.error("\(error.sentence)", id: .presenceStoreFailed, .error(error))
        phase = .failed(error.sentence)
      }
      changes.call()
      then()
    }
  }

  private func start(_ stored: KnownPeerStore.Stored) {
    var engine = PresenceEngine(own: stored.own, configuration: settings.engine, random: SystemRandom())
    content = stored.content
    isVolatile = stored.isVolatile
    if let error = stored.damage {
      damage = error.sentence
      Log.shared.warning("\(error.sentence)", id: .presenceStoreFailed, .error(error))
    }
    for entry in stored.content.peers {
      do throws(PresenceError) {
        peers.append(Peer(entry: entry, id: try engine.addPeer(entry.key, at: scheduler.now, wall: wall).peer))
      } catch {
        damage = "A stored peer cannot be used. \(error.sentence)"
        Log.shared.error("A stored peer cannot be used. \(error.sentence)", id: .presenceStoreFailed, .error(error))
      }
    }
    self.engine = engine
    phase = .ready
    network.stock = { [weak self] in self?.engine?.stock(of: .network) ?? .nothing }
    network.onEvent = { [weak self] in self?.handle($0) }
    network.start()
    bluetooth.onEvent = { [weak self] in self?.handle($0) }
    bluetooth.start()
    handle(.foreground(settings.isForeground))
    for peer in peers { added.call(peer) }
    Log.shared.notice("Private presence is ready, \(peers.count) peers are known", id: .presenceReady)
  }

  func apply(_ settings: PresenceSettings) {
    self.settings = settings
    if engine != nil { handle(.foreground(settings.isForeground)) }
  }

  /// Withdraws the announcement and closes all streams.
  ///
  /// - Parameter then: called once, when writes to the disk have ended.
  func stop(then: @escaping @LoopActor () -> Void) {
    if var engine {
      let intents = engine.silence(at: scheduler.now)
      self.engine = engine
      carryOut(intents)
    }
    phase = .stopped
    engine = nil
    (fetches, resumption) = ([:], nil)
    deadline.set(nil)
    streams.close()
    links.close()
    bluetooth.stop()
    network.stop()
    book.whenIdle(then: then)
  }

  var wall: WallTime { WallTime(milliseconds: UInt64(clamping: clock.milliseconds)) }

  // MARK: State for programs

  var publicKey: Secp256k1.PublicKey? { engine?.known.own.publicKey }
  var dialects: [Dialect] { Dialect.allCases.filter(settings.reads.contains) }
  var isServing: Bool { engine?.isAnnouncing ?? false }
  /// The peers to which this machine announces itself.
  var announcing: [PeerID] { engine?.recipients ?? [] }
  /// Whether the network or Bluetooth can be used.
  var isUsable: Bool { network.isUsable || bluetooth.isUsable }
  /// The names of the media over which peers can reach this machine at present, for D-Bus.
  var reachable: [String] {
    guard isServing else { return [] }
    return (bluetooth.isReachable ? ["bluetooth"] : []) + (network.isUsable ? ["network"] : [])
  }

  /// Description of the missing parts and the remedy; empty if everything works.
  var reason: String {
    switch phase {
    case .stopped, .opening: return "The key and the known peers are being read."
    case .failed(let sentence): return sentence
    case .ready: break
    }
    let network =
      network.isUsable ? "" : "No network interface can be used. Connect one, or check Interfaces= of [Presence]."
    let volatile = "Without a state directory, the key and the known peers are lost when the service stops."
    let store = isVolatile ? volatile : ""
    let renewal = engine?.renewalFailure.map { "The announcement cannot be renewed. \($0.sentence)" } ?? ""
    return [network, bluetooth.reason, renewal, store, damage].filter { !$0.isEmpty }.joined(separator: " ")
  }

  /// The status line. Every user can read it, so it neither names nor counts peers.
  var statusLine: String {
    guard phase == .ready else { return reason }
    return [reason, isServing ? "This machine is announced." : "Nothing is announced."].filter { !$0.isEmpty }
      .joined(separator: " ")
  }

  var tallies: [Tally] { (engine?.tallies ?? []) + network.tallies + links.tallies + streams.tallies }

  func isNearby(_ peer: PeerID) -> Bool { engine?.peersNearby.contains(peer) ?? false }

  func ways(to peer: PeerID) -> [Way] { engine?.ways(to: peer, at: wall).map(\.way) ?? [] }

  func peer(_ id: PeerID) -> Peer? { peers.first { $0.id == id } }

  // MARK: Requests of programs

  /// Adds a peer.
  ///
  /// - Parameter key: base64, base64url or hexadecimal digits of a public key in either form.
  func addPeer(
    _ name: String, key text: String, then: @escaping @LoopActor (Result<Peer, Refusal>) -> Void
  ) {
    do throws(Refusal) {
      try checkWritable()
      guard StoredPeers.isName(name) else { throw .badName }
      guard !peers.contains(where: { $0.entry.name == name }) else { throw .nameTaken }
      guard var engine else { throw .notReady(reason) }
      let key: Secp256k1.PublicKey
      do throws(PresenceError) {
        key = try KnownPeers.key(reading: KeyText.bytes(text))
        // The peer is added to a copy of the engine first. It becomes known when it is stored.
        _ = try engine.addPeer(key, at: scheduler.now, wall: wall)
      } catch {
        throw .engine(error)
      }
      var content = content
      let entry = StoredPeer(number: content.next, name: name, key: key)
      content.next += 1
      content.peers.append(entry)
      write(content) { [weak self] error in
        guard let self, self.engine != nil else { return then(.failure(.notReady("The service stops."))) }
        then(error.map { .failure(.store($0.sentence)) } ?? learn(entry))
      }
    } catch {
      then(.failure(error))
    }
  }

  private func learn(_ entry: StoredPeer) -> Result<Peer, Refusal> {
    guard var engine else { return .failure(.notReady(reason)) }
    do throws(PresenceError) {
      let (id, intents) = try engine.addPeer(entry.key, at: scheduler.now, wall: wall)
      self.engine = engine
      let peer = Peer(entry: entry, id: id)
      peers.append(peer)
      added.call(peer)
      carryOut(intents)
      changes.call()
      return .success(peer)
    } catch {
      return .failure(.engine(error))
    }
  }

  func removePeer(_ peer: PeerID, then: @escaping @LoopActor (Refusal?) -> Void) {
    do throws(Refusal) {
      try checkWritable()
      guard let entry = self.peer(peer)?.entry else { throw .engine(.unknownPeer) }
      var content = content
      content.peers.removeAll { $0.number == entry.number }
      write(content) { [weak self] error in
        guard let self else { return then(.notReady("The service stops.")) }
        if let error { return then(.store(error.sentence)) }
        then(forget(peer))
      }
    } catch {
      then(error)
    }
  }

  private func forget(_ id: PeerID) -> Refusal? {
    guard var engine, let peer = peer(id) else { return .engine(.unknownPeer) }
    do throws(PresenceError) {
      let intents = try engine.removePeer(id, at: scheduler.now, wall: wall)
      self.engine = engine
      peers.removeAll { $0.id == id }
      streams.closeAll(of: id)
      removed.call(peer)
      carryOut(intents)
      changes.call()
      return nil
    } catch {
      return .engine(error)
    }
  }

  /// Begins an announcement.
  ///
  /// - Parameter seconds: duration; 0 means until `silence`.
  func announce(to names: [String], seconds: UInt32) throws(Refusal) {
    guard var engine else { throw .notReady(reason) }
    var ids: [PeerID] = []
    for name in names {
      guard let peer = peers.first(where: { $0.entry.name == name }) else { throw .unknownName(name) }
      ids.append(peer.id)
    }
    do throws(PresenceError) {
      let intents = try engine.announce(
        to: ids, for: seconds == 0 ? nil : .seconds(Int64(seconds)), at: scheduler.now, wall: wall)
      self.engine = engine
      carryOut(intents)
      changes.call()
    } catch {
      throw .engine(error)
    }
  }

  func silence() {
    guard var engine else { return }
    let intents = engine.silence(at: scheduler.now)
    self.engine = engine
    carryOut(intents)
    changes.call()
  }

  private func checkWritable() throws(Refusal) {
    guard phase == .ready else { throw .notReady(reason) }
    guard !isWriting else { throw .notReady("The known peers are being stored. Try again.") }
  }

  private func write(_ content: StoredPeers, then: @escaping @LoopActor (StoreError?) -> Void) {
    isWriting = true
    book.write(content) { [weak self] error in
      guard let self else { return then(error) }
      isWriting = false
      if let error {
        Log.shared.error("\(error.sentence)", id: .presenceStoreFailed, .error(error))
      } else {
        self.content = content
      }
      then(error)
    }
  }

  // MARK: The engine

  private func handle(_ event: PresenceNetworkEvent) {
    switch event {
    case .datagram(let bytes, let address, let port):
      handle(PresenceEngine.Event.datagram(bytes, from: address, port: port))
    case .joined: handle(PresenceEngine.Event.joinedNetwork)
    case .connected: handle(PresenceEngine.Event.connected)
    case .changed: changes.call()
    case .stream(let connection): streams.accept(connection)
    }
  }

  private func handle(_ event: PresenceBluetoothEvent) {
    switch event {
    case .sighted(let device, let generation):
      handle(PresenceEngine.Event.sighted(.bluetooth(device), .generation(generation)))
    case .link(let device, let descriptor): links.accept(descriptor, from: device)
    case .changed: changes.call()
    }
  }

  private func handle(_ event: PresenceEngine.Event) {
    guard var engine else { return }
    let wasAnnouncing = engine.isAnnouncing
    let intents = engine.handle(event, at: scheduler.now, wall: wall)
    self.engine = engine
    carryOut(intents)
    let hasFailed = noteRenewal()
    if wasAnnouncing != isServing || hasFailed { changes.call() }
  }

  /// Logs a failure to renew the announcement once.
  ///
  /// - Returns: whether `reason` has changed.
  private func noteRenewal() -> Bool {
    guard let engine, engine.renewalFailure != renewalFailure else { return false }
    renewalFailure = engine.renewalFailure
    if let renewalFailure {
      Log.shared.error(
        "The announcement cannot be renewed. \(renewalFailure.sentence)", id: .presenceRenewalFailed,
        .error(renewalFailure))
    }
    return true
  }

  private func carryOut(_ intents: [PresenceEngine.Intent]) {
    for intent in intents {
      switch intent {
      case .advertise(let generation):
        network.serve(true)
        bluetooth.advertise(generation: generation)
      case .silence:
        network.serve(false)
        bluetooth.silence()
      case .ssdp(let intent): network.send(intent, dialects: [settings.sends])
      case .fetch(let way): fetch(way)
      case .appeared(let peer), .changed(let peer), .disappeared(let peer): moved.call(peer)
      case .pauseDiscovery(let end): pause(until: end)
      }
    }
    deadline.set(engine?.deadline)
  }

  /// Time at which a peer was last discovered, in milliseconds since 1970-01-01 UTC; 0 means never.
  func lastHeard(_ id: PeerID) -> UInt64 {
    guard let sighted = engine?.lastSighted(id) else { return 0 }
    return wall.advanced(by: scheduler.now.duration(to: sighted)).milliseconds
  }

  private func fetch(_ way: Way) {
    let finish: @LoopActor (BeaconResponse?) -> Void = { [weak self] response in
      guard let self else { return }
      fetches[way] = nil
      handle(response.map { PresenceEngine.Event.fetched(way, $0) } ?? .fetchFailed(way))
    }
    switch way {
    case .network(let location): fetches[way] = network.fetch(location, then: finish)
    case .bluetooth(let device):
      links.open(to: device) { [weak self] stream in
        guard let self, engine != nil, let stream else {
          stream?.close()
          return finish(nil)
        }
        fetches[way] = HTTPClient.send(
          HTTPRequest.beacons(host: "localhost", path: HTTPRequest.beaconsPath), over: stream,
          reading: HTTPResponseReader(), within: Limits.networkFetchTime, on: scheduler
        ) { result in
          if case .success(let response) = result { finish(BeaconResponse(response)) } else { finish(nil) }
        }
      }
    }
  }

  private func makeLinks() -> RFCOMMLinks {
    RFCOMMLinks(
      RFCOMMLinks.Owner(
        hasBeacons: { [weak self] in self?.isServing ?? false },
        connect: { [weak self] device, then in
          guard let self else { return then(nil) }
          bluetooth.connect(to: device, then: then)
        },
        onBeacons: { [weak self] in self?.handle(PresenceEngine.Event.sighted(.bluetooth($0), .unknown)) },
        onTLS: { [weak self] stream, device in
          guard let self else { return stream.close() }
          streams.accept(stream, from: device)
        },
        answer: { [weak self] in self?.answer($0) ?? HTTPServerResponse(status: 503) }),
      on: scheduler)
  }

  /// The response to a request for beacons over Bluetooth.
  private func answer(_ request: HTTPServerRequest) -> HTTPServerResponse {
    bluetoothRequests.answer(request, with: engine?.stock(of: .bluetooth) ?? .nothing, at: scheduler.now)
  }

  private func pause(until end: Instant) {
    Log.shared.warning("Discovery is paused: too many announcements", id: .presencePaused)
    network.pauseReading(true)
    bluetooth.scan(false)
    resumption = scheduler.schedule(at: end) { [weak self] in
      self?.network.pauseReading(false)
      self?.bluetooth.scan(true)
    }
  }

  // MARK: Streams

  /// The peer and the key that belong to the identity of a TLS client.
  func credential(for identity: String) throws(IdentityRefusal) -> TLSCredential {
    guard let engine else { throw .failed }
    return try engine.credential(for: identity, at: wall)
  }

  /// The ways over which a stream to a peer can be opened, the best one first.
  func routes(to peer: PeerID) -> [PresenceStreams.Route] {
    guard let engine else { return [] }
    return engine.ways(to: peer, at: wall).compactMap { way, recognition in
      let target: PresenceStreams.Route.Target
      switch way {
      case .network(let location): target = .network(network.endpoint(of: location))
      case .bluetooth(let device):
        guard bluetooth.isUsable else { return nil }
        target = .bluetooth(device)
      }
      do throws(IdentityRefusal) {
        return PresenceStreams.Route(
          target: target, identity: recognition.identity, dialect: recognition.dialect,
          key: try engine.preSharedKey(for: recognition, at: wall))
      } catch {
        return nil
      }
    }
  }
}

/// Text forms of a public key.
enum KeyText {
  /// Maximum length of the text: 88 bytes in hexadecimal digits.
  private static let longest = 2 * Secp256k1.PublicKey.infoSize

  /// Decodes base64, base64url or hexadecimal digits; empty for any other text.
  static func bytes(_ text: String) -> [UInt8] {
    guard text.utf8.count <= longest else { return [] }
    let digits = text.utf8.prefix { $0 != UInt8(ascii: "=") }
    let isHex = [2 * Secp256k1.PublicKey.infoSize, 2 * Secp256k1.PublicKey.pointSize].contains(text.utf8.count)
    do throws(WireError) {
      if isHex { return try Hex.decode(text) }
      let safe = digits.map { digit in
        digit == UInt8(ascii: "+") ? UInt8(ascii: "-") : digit == UInt8(ascii: "/") ? UInt8(ascii: "_") : digit
      }
      return try Base64URL.decode(String(decoding: safe, as: UTF8.self))
    } catch {
      return []
    }
  }

  /// Encodes the key in base64url without padding, 118 characters.
  static func text(_ key: Secp256k1.PublicKey) -> String { Base64URL.encode(key.info) }

  /// The first 16 bytes of the SHA-256 of the key, in hexadecimal digits.
  static func fingerprint(_ key: Secp256k1.PublicKey) -> String { Hex.encode(Dialect.spec.keyID(of: key).bytes) }
}
