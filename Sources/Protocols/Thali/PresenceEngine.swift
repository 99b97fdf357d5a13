import Common
import Crypto

/// Private presence: this engine announces this machine to chosen peers, and finds known peers that announce themselves
/// to this machine. The owner has the radio, the sockets and TLS. Facts: thali.md sections 1 to 8.
///
/// Bluetooth and the network have separate announcements, so that an observer cannot link the device address and the
/// network address of a machine.
public struct PresenceEngine: Sendable {
  public struct Configuration: Hashable, Sendable {
    /// The dialects of received announcements that are read.
    public var dialects: Set<Dialect> = [.spec]
    /// The dialect of sent announcements.
    public var sends: Dialect = .spec

    public init() {}
  }

  public enum Event: Hashable, Sendable {
    /// A BLE advertisement was received, or an RFCOMM client with beacons has connected (`BeaconVersion.unknown`).
    case sighted(Way, BeaconVersion)
    /// A response to the request of `Intent.fetch` has arrived.
    case fetched(Way, BeaconResponse)
    /// The request of `Intent.fetch` failed without a response.
    case fetchFailed(Way)
    /// A datagram of SSDP has arrived.
    case datagram([UInt8], from: NetworkAddress, port: UInt16)
    /// A network interface has a new address.
    case joinedNetwork
    /// A peer has connected to this machine by TCP.
    case connected
    /// A person began to use the machine (true) or stopped (false), which changes the period of SSDP announcements.
    case foreground(Bool)
    /// `deadline` is reached.
    case timer
  }

  /// The output of the engine, in order.
  public enum Intent: Hashable, Sendable {
    /// Serve the new beacons that `PresenceEngine.stock` returns, and advertise their generation.
    case advertise(generation: UInt8)
    /// Stop advertising; the HTTP server has no beacons to serve.
    case silence
    /// Send by SSDP: `announce`, `withdraw`, `search` or `answer`.
    case ssdp(LocalDiscovery.Intent)
    /// Request `HTTPRequest.beaconsPath` at a way.
    case fetch(Way)
    case appeared(PeerID)
    case changed(PeerID)
    case disappeared(PeerID)
    /// Stop scanning and reading datagrams until this time, because there were too many announcements.
    case pauseDiscovery(until: Instant)
  }

  /// The medium of an announcement.
  public enum Medium: CaseIterable, Hashable, Sendable {
    case bluetooth, network
  }

  private struct Announcing: Sendable {
    let recipients: [PeerID]
    /// The end of the announcement; nil means until `silence`.
    let end: Instant?
    /// When this announcement was made.
    let start: Instant
    /// When the next announcement is made.
    var renewal: Instant
    /// The wall-clock time until which the announcements for both media are valid. The wall clock may be set.
    let expiration: WallTime
    let bytes: [Medium: [UInt8]]
  }

  public let configuration: Configuration
  public private(set) var known: KnownPeers
  private var recognizer: Recognizer
  private var announcer = Announcer()
  private var nearby: NearbyPeers
  private var discovery: LocalDiscovery
  private var gate = AnnouncementGate()
  private var announcing: Announcing?
  private var generation: UInt8
  private var random: any RandomSource & Sendable
  /// An announcement that expired before it could be renewed. The engine makes a new one as soon as that is possible.
  private var overdue: (recipients: [PeerID], end: Instant?, renewal: Instant)?
  private var announcements = TokenBucket(Limits.announcementsPerMinute, each: .seconds(60))
  /// Own announcements that could not be renewed.
  public private(set) var failedRenewals: UInt64 = 0
  /// The reason why the announcement could not be renewed; nil if none is to be renewed, or it was renewed.
  public private(set) var renewalFailure: PresenceError?

  /// - Parameters:
  ///   - own: this machine's long-term key.
  ///   - random: source of keys and names, and of the seeds of the generators for delays and the order of fetches.
  public init(
    own: Secp256k1.PrivateKey, configuration: Configuration = Configuration(), random: any RandomSource & Sendable
  ) {
    var random = random
    func seeded() -> SeededRandom {
      SeededRandom(seed: random.bytes(8).reduce(UInt64(0)) { $0 << 8 | UInt64($1) })
    }
    self.configuration = configuration
    known = KnownPeers(own: own)
    recognizer = Recognizer(dialects: configuration.dialects)
    nearby = NearbyPeers(random: seeded())
    discovery = LocalDiscovery(random: seeded())
    // A generation that always began at 0 would disclose that this machine has just started.
    generation = random.bytes(1)[0]
    self.random = random
  }

  /// When `Event.timer` is due; nil if nothing is timed.
  public var deadline: Instant? {
    [nearby.deadline, discovery.deadline, announcing?.renewal, overdue?.renewal].compactMap { $0 }.min()
  }

  /// All counters with their names.
  public var tallies: [Tally] {
    recognizer.tallies + discovery.counters.tallies + [
      Tally("DiscoveryPauses", gate.pauses), Tally("IgnoredAnnouncements", gate.ignored),
      Tally("IgnoredWays", nearby.ignoredWays), Tally("FailedRenewals", failedRenewals),
    ]
  }

  public var isAnnouncing: Bool { announcing != nil }
  /// The peers to which this machine announces itself now.
  public var recipients: [PeerID] { announcing?.recipients ?? [] }
  public var peersNearby: Set<PeerID> { nearby.peers }

  /// The ways to a peer, the best one first, each with the data for a TLS client.
  public func ways(to peer: PeerID, at wall: WallTime) -> [(way: Way, recognition: Recognition)] {
    nearby.ways(to: peer, at: wall)
  }

  public func lastSighted(_ peer: PeerID) -> Instant? { nearby.lastSighted(peer) }

  /// The content that HTTP serves over a medium.
  public func stock(of medium: Medium) -> HTTPAnswer.Stock {
    announcing?.bytes[medium].map { .announcement($0) } ?? .nothing
  }

  /// The peer that a TLS client claims to be by its `identity`, and the pre-shared key that proves the claim.
  ///
  /// - Throws: `unknown`, `stale` or `failed`.
  public func credential(for identity: String, at wall: WallTime) throws(IdentityRefusal) -> TLSCredential {
    try announcer.credential(for: identity, known: known, at: wall)
  }

  /// The key with which a TLS client authenticates.
  ///
  /// - Throws: `stale` or `failed`.
  public func preSharedKey(
    for recognition: Recognition, at wall: WallTime
  ) throws(IdentityRefusal) -> SecretBytes {
    try known.preSharedKey(for: recognition, at: wall)
  }

  // MARK: Requests of programs

  /// Adds a peer. If it has announced itself to this machine before, it is nearby at once.
  ///
  /// - Throws: `ownKey`, `knownKey`, `tooManyPeers`, `cryptoFailed`.
  public mutating func addPeer(
    _ key: Secp256k1.PublicKey, at now: Instant, wall: WallTime
  ) throws(PresenceError) -> (peer: PeerID, intents: [Intent]) {
    let peer = try known.add(key)
    var intents: [Intent] = []
    for (way, bytes) in nearby.unknownAnnouncements {
      guard let recognition = recognizer.judgeAgain(bytes, known: known, at: wall) else { continue }
      intents += nearby.handle(.recognized(way, recognition), at: now).map(Intent.init)
    }
    return (peer, intents)
  }

  /// Removes a peer. If it was the last recipient, the announcement ends; otherwise the others get a new one.
  ///
  /// - Throws: `unknownPeer`.
  public mutating func removePeer(
    _ peer: PeerID, at now: Instant, wall: WallTime
  ) throws(PresenceError) -> [Intent] {
    try known.remove(peer)
    var intents = nearby.handle(.forget(peer), at: now).map(Intent.init)
    overdue?.recipients.removeAll { $0 == peer }
    if overdue?.recipients.isEmpty == true { (overdue, renewalFailure) = (nil, nil) }
    guard let announcing, announcing.recipients.contains(peer) else { return intents }
    let others = announcing.recipients.filter { $0 != peer }
    guard !others.isEmpty else { return intents + silence(at: now) }
    do throws(PresenceError) {
      intents += try publish(others, end: announcing.end, at: now, wall)
    } catch {
      // The present announcement has a beacon for the removed peer, so it must end even if no new one can be made.
      intents += postpone(others, end: announcing.end, error, at: now)
    }
    return intents
  }

  /// Announces this machine to peers, and renews the announcement before it expires.
  ///
  /// - Parameter duration: at least `Limits.shortestLife`; nil means until `silence`.
  /// - Throws: `badRecipients`, `unknownPeer`, `badLife`, `clockNotSet`, `tooFast`, `tooManyAnnouncements`,
  ///   `cryptoFailed`; an earlier announcement then stays.
  public mutating func announce(
    to recipients: [PeerID], for duration: Duration?, at now: Instant, wall: WallTime
  ) throws(PresenceError) -> [Intent] {
    if let duration, duration < Limits.shortestLife { throw .badLife }
    // Each announcement needs an expiration of its own, and displaces one whose TLS identities are recognised.
    guard announcements.take(at: now) else { throw .tooFast }
    return try publish(recipients, end: duration.map { now.advanced(by: $0) }, at: now, wall)
  }

  /// Ends the announcement of this machine, over both media.
  public mutating func silence(at now: Instant) -> [Intent] {
    (overdue, renewalFailure) = (nil, nil)
    guard announcing != nil else { return [] }
    announcing = nil
    generation &+= 1
    return discovery.handle(.publish(nil), at: now).map { .ssdp($0) } + [.silence]
  }

  private mutating func publish(
    _ recipients: [PeerID], end: Instant?, at now: Instant, _ wall: WallTime
  ) throws(PresenceError) -> [Intent] {
    let left = end.map { now.duration(to: $0) } ?? Limits.announcementLife * 2
    let life = min(max(left, Limits.shortestLife), Limits.announcementLife)
    var bytes: [Medium: [UInt8]] = [:]
    for medium in Medium.allCases {
      bytes[medium] = try announcer.announce(
        to: recipients, life: life, dialect: configuration.sends, known: known, at: wall, randomFrom: &random
      ).bytes
    }
    let expiration = wall.advanced(by: life)
    // An announcement that is valid for the whole requested time is not renewed.
    let renewal = left <= life ? end ?? now : now.advanced(by: life - Limits.renewalLead)
    announcing = Announcing(
      recipients: recipients, end: end, start: now, renewal: renewal, expiration: expiration, bytes: bytes)
    (overdue, renewalFailure) = (nil, nil)
    generation &+= 1
    let name = ServiceName(
      generation: configuration.sends == .node ? UInt32(generation) : nil, randomFrom: &random)
    return [.advertise(generation: generation)] + discovery.handle(.publish(name), at: now).map { .ssdp($0) }
  }

  /// Makes the next announcement. A failed attempt is repeated each minute, and the present announcement stays until it
  /// expires.
  private mutating func renew(_ old: Announcing, at now: Instant, _ wall: WallTime) -> [Intent] {
    do throws(PresenceError) {
      return try publish(old.recipients, end: old.end, at: now, wall)
    } catch {
      let hasExpired = old.expiration <= wall || old.start.duration(to: now) >= Limits.announcementLife
      guard !hasExpired else { return postpone(old.recipients, end: old.end, error, at: now) }
      (failedRenewals, renewalFailure) = (failedRenewals + 1, error)
      announcing?.renewal = now.advanced(by: Limits.renewalPause)
      return []
    }
  }

  /// Ends an announcement that could not be renewed, until the next one can be made.
  private mutating func postpone(
    _ recipients: [PeerID], end: Instant?, _ error: PresenceError, at now: Instant
  ) -> [Intent] {
    let intents = silence(at: now)
    overdue = (recipients, end, now.advanced(by: Limits.renewalPause))
    (failedRenewals, renewalFailure) = (failedRenewals + 1, error)
    return intents
  }

  // MARK: Events

  public mutating func handle(_ event: Event, at now: Instant, wall: WallTime) -> [Intent] {
    // Expired announcements are detected at every event, because a way that is still being received has no timer.
    let expired: [Intent] =
      nearby.hasExpired(at: wall) ? nearby.handle(.clock(wall), at: now).map(Intent.init) : []
    return expired + react(to: event, at: now, wall)
  }

  private mutating func react(to event: Event, at now: Instant, _ wall: WallTime) -> [Intent] {
    switch event {
    case .sighted(let way, let version): return sight(way, version, at: now)
    case .fetched(let way, let response): return finish(way, response, at: now, wall)
    case .fetchFailed(let way):
      return note(way, false, at: now) + nearby.handle(.failed(way, retryAfter: nil), at: now).map(Intent.init)
    case .datagram(let bytes, let address, let port):
      guard gate.pausedUntil(at: now) == nil else { return [] }
      return carryOut(discovery.handle(.received(bytes, from: address, port: port), at: now), at: now)
    case .joinedNetwork:
      let own = renewForNetwork(at: now, wall)
      return own + carryOut(discovery.handle(.joined, at: now), at: now)
    case .connected: return carryOut(discovery.handle(.connected, at: now), at: now)
    case .foreground(let isForeground): return carryOut(discovery.handle(.foreground(isForeground), at: now), at: now)
    case .timer:
      let own = renewIfDue(at: now, wall)
      return own + nearby.handle(.timer, at: now).map(Intent.init)
        + carryOut(discovery.handle(.timer, at: now), at: now)
    }
  }

  /// Ends or renews the announcement. This precedes the timer of the network, which would otherwise announce the old
  /// name once more.
  private mutating func renewIfDue(at now: Instant, _ wall: WallTime) -> [Intent] {
    if let overdue { return catchUp(overdue, at: now, wall) }
    guard let announcing else { return [] }
    if let end = announcing.end, end <= now { return silence(at: now) }
    let isDue = announcing.renewal <= now || announcing.expiration <= wall
    return isDue ? renew(announcing, at: now, wall) : []
  }

  private mutating func catchUp(
    _ old: (recipients: [PeerID], end: Instant?, renewal: Instant), at now: Instant, _ wall: WallTime
  ) -> [Intent] {
    if let end = old.end, end <= now { return silence(at: now) }
    guard old.renewal <= now else { return [] }
    do throws(PresenceError) {
      return try publish(old.recipients, end: old.end, at: now, wall)
    } catch {
      return postpone(old.recipients, end: old.end, error, at: now)
    }
  }

  /// Makes another announcement after this machine has got a new address, because peers recognise an announcement only
  /// from the address that served it first. At most one is made in a minute.
  private mutating func renewForNetwork(at now: Instant, _ wall: WallTime) -> [Intent] {
    guard let old = announcing else { return [] }
    let earliest = old.start.advanced(by: Limits.renewalPause)
    guard now < earliest else { return renew(old, at: now, wall) }
    announcing?.renewal = min(earliest, old.renewal)
    return []
  }

  private mutating func sight(_ way: Way, _ version: BeaconVersion, at now: Instant) -> [Intent] {
    if nearby.accepts(way), nearby.isNew(way, version, at: now) {
      let wasPaused = gate.pausedUntil(at: now) != nil
      guard gate.admit(at: now) else {
        guard !wasPaused, let end = gate.pausedUntil(at: now) else { return [] }
        return nearby.handle(.paused(until: end), at: now).map(Intent.init) + [.pauseDiscovery(until: end)]
      }
    }
    return nearby.handle(.sighted(way, version), at: now).map(Intent.init)
  }

  private mutating func finish(
    _ way: Way, _ response: BeaconResponse, at now: Instant, _ wall: WallTime
  ) -> [Intent] {
    let own = note(way, true, at: now)
    switch response {
    case .announcement(let bytes):
      let verdict = recognizer.judge(bytes, from: way.source, known: known, at: wall)
      let intents = nearby.handle(.fetched(way, verdict), at: now).map(Intent.init)
      if verdict == .dropped(.unknownSender) { nearby.keepUnknown(bytes, of: way) }
      return own + intents
    case .nothing: return own + nearby.handle(.fetched(way, nil), at: now).map(Intent.init)
    case .busy(let seconds):
      return own + nearby.handle(.failed(way, retryAfter: .seconds(seconds)), at: now).map(Intent.init)
    case .refused: return own + nearby.handle(.failed(way, retryAfter: nil), at: now).map(Intent.init)
    }
  }

  private mutating func note(_ way: Way, _ succeeded: Bool, at now: Instant) -> [Intent] {
    guard case .network(let location) = way else { return [] }
    return carryOut(discovery.handle(.fetched(location.address, succeeded: succeeded), at: now), at: now)
  }

  private mutating func carryOut(_ found: [LocalDiscovery.Intent], at now: Instant) -> [Intent] {
    found.flatMap { intent -> [Intent] in
      switch intent {
      case .sighted(let location, let name): sight(.network(location), .name(name), at: now)
      case .left(let name, let address): nearby.handle(.left(name, address), at: now).map(Intent.init)
      case .announce, .withdraw, .search, .answer: [.ssdp(intent)]
      }
    }
  }
}

extension PresenceEngine.Intent {
  fileprivate init(_ intent: NearbyPeers.Intent) {
    switch intent {
    case .fetch(let way): self = .fetch(way)
    case .appeared(let peer): self = .appeared(peer)
    case .changed(let peer): self = .changed(peer)
    case .disappeared(let peer): self = .disappeared(peer)
    }
  }
}
