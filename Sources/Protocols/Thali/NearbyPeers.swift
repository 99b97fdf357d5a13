import Common
import Crypto

/// The path to a peer nearby.
public enum Way: Hashable, Sendable {
  /// The peer is reached over RFCOMM, at this Bluetooth address.
  case bluetooth(DeviceAddress)
  /// The peer is reached over TCP, at this location.
  case network(Location)

  var isBluetooth: Bool {
    if case .bluetooth = self { true } else { false }
  }

  /// The address from which the beacons of this way are fetched.
  var source: AnnouncementSource {
    switch self {
    case .bluetooth(let device): .device(device)
    case .network(let location): .network(location.address)
    }
  }

  /// Time for which the way is stored without being received again.
  var life: Duration { isBluetooth ? Limits.bluetoothLife : Limits.networkLife }
  var fetchTime: Duration { isBluetooth ? Limits.bluetoothFetchTime : Limits.networkFetchTime }
}

/// Identifies the set of beacons that a peer serves at a way. A different version means different beacons.
public enum BeaconVersion: Hashable, Sendable {
  /// The generation in a BLE advertisement.
  case generation(UInt8)
  /// The name (USN) in an SSDP datagram.
  case name(ServiceName)
  /// The peer is an RFCOMM client that reported beacons without a version.
  case unknown
}

/// The peers nearby, and the ways to reach them. This type decides when beacons are fetched: once for each version,
/// with a growing pause after failures, and few at a time. Facts: thali.md sections 4, 5, 7 and 8.
public struct NearbyPeers: Sendable {
  public enum Event: Hashable, Sendable {
    /// A way to a peer was discovered, by an advertisement, a datagram or an incoming link.
    case sighted(Way, BeaconVersion)
    /// Beacons were fetched; nil means that the peer announces nothing.
    case fetched(Way, AnnouncementVerdict?)
    /// A known peer was recognised in an announcement that a way served earlier, because its key was added since.
    case recognized(Way, Recognition)
    /// Beacons could not be fetched. The peer may have given the time until the next attempt.
    case failed(Way, retryAfter: Duration?)
    /// The sender of a name has left the network. The event counts only from the sender's own address.
    case left(ServiceName, NetworkAddress)
    /// A known peer was removed.
    case forget(PeerID)
    /// The wall clock shows this time. A way whose announcement has expired no longer leads to its peer, and its
    /// beacons are fetched again.
    case clock(WallTime)
    /// Discovery is paused until this time: the owner neither scans nor reads datagrams. Ways do not age meanwhile.
    case paused(until: Instant)
    /// `deadline` is reached.
    case timer
  }

  public enum Intent: Hashable, Sendable {
    /// Fetch the beacons at a way; `fetched` or `failed` follows.
    case fetch(Way)
    /// A known peer has appeared.
    case appeared(PeerID)
    /// The ways to a known peer have changed.
    case changed(PeerID)
    /// The last way to a known peer is lost.
    case disappeared(PeerID)
  }

  private enum Fetch: Hashable, Sendable {
    /// The beacons of the latest version were fetched.
    case done
    case wanted(notBefore: Instant)
    case running(since: Instant)
  }

  private struct Entry: Sendable {
    var version: BeaconVersion
    var sighted: Instant
    var fetch: Fetch
    var fetched: Instant?
    /// Whether another version was received during the fetch.
    var isOutdated = false
    var failures = 0
    var recognition: Recognition?
    /// The bytes of the last announcement, if it had a beacon for this machine from an unknown sender.
    var unknown: [UInt8]?

    /// Whether the way may be evicted for another one: it is a stranger's, and its beacons are not being fetched.
    var mayMakeRoom: Bool {
      if case .running = fetch { false } else { recognition == nil }
    }
  }

  private var entries: [Way: Entry] = [:]
  private var random: any RandomSource & Sendable
  /// The end of the last pause of discovery, from which the age of ways counts.
  private var agingStart: Instant?
  /// When each known peer that has no way any more was last received.
  private var lastScanResults: [PeerID: Instant] = [:]
  /// Newly discovered ways that were ignored because the table was full.
  public private(set) var ignoredWays: UInt64 = 0

  /// Makes an empty table.
  ///
  /// - Parameter random: source of the order in which beacons are fetched, so that no peer can always be first.
  public init(random: any RandomSource & Sendable) { self.random = random }

  /// Number of stored ways.
  public var count: Int { entries.count }

  /// The known peers to which at least one way leads.
  public var peers: Set<PeerID> { Set(entries.values.compactMap { $0.recognition?.peer }) }

  /// The ways to a peer whose announcements have not expired, with the data for a TLS client. Bluetooth is last,
  /// because it is slower.
  public func ways(to peer: PeerID, at now: WallTime) -> [(way: Way, recognition: Recognition)] {
    entries.compactMap { way, entry in
      entry.recognition.flatMap { $0.peer == peer && now < $0.expiration ? (way, $0) : nil }
    }.sorted { !$0.way.isBluetooth && $1.way.isBluetooth }
  }

  /// Announcements with a beacon for this machine from an unknown sender, with the ways that served them.
  public var unknownAnnouncements: [(way: Way, bytes: [UInt8])] {
    entries.compactMap { way, entry in entry.unknown.map { (way, $0) } }
  }

  /// Stores an announcement until its way serves another one, in case its sender becomes known.
  public mutating func keepUnknown(_ bytes: [UInt8], of way: Way) { entries[way]?.unknown = bytes }

  /// Whether an announcement of a peer nearby has expired.
  public func hasExpired(at now: WallTime) -> Bool {
    entries.values.contains { entry in entry.recognition.map { $0.expiration <= now } ?? false }
  }

  /// When a peer was last received on any way.
  public func lastSighted(_ peer: PeerID) -> Instant? {
    let present = entries.values.filter { $0.recognition?.peer == peer }.map(\.sighted)
    return (present + [lastScanResults[peer]].compactMap { $0 }).max()
  }

  /// Whether a way is stored, or may be stored. Other ways do not count against the limit of announcements.
  public func accepts(_ way: Way) -> Bool {
    guard entries[way] == nil else { return true }
    if case .network(let location) = way, isFull(location.address) { return false }
    let kind = entries.filter { $0.key.isBluetooth == way.isBluetooth }
    return kind.count < Limits.waysOfOneKind || kind.values.contains(where: \.mayMakeRoom)
  }

  /// Whether a received version was not fetched yet. Only such versions count against the limit of announcements.
  public func isNew(_ way: Way, _ version: BeaconVersion, at now: Instant) -> Bool {
    guard let entry = entries[way] else { return true }
    return isNew(version, entry, at: now)
  }

  /// When `Event.timer` is due; nil if nothing is timed.
  public var deadline: Instant? {
    let (isBluetoothBusy, isNetworkBusy) = (isBusy(bluetooth: true), isBusy(bluetooth: false))
    return entries.map { way, entry in
      let end = end(of: way, entry)
      switch entry.fetch {
      case .done: return end
      case .wanted(let notBefore):
        let isBusy = way.isBluetooth ? isBluetoothBusy : isNetworkBusy
        return isBusy ? end : min(end, notBefore)
      case .running(let since): return since.advanced(by: way.fetchTime)
      }
    }.min()
  }

  public mutating func handle(_ event: Event, at now: Instant) -> [Intent] {
    var intents: [Intent] = []
    switch event {
    case .sighted(let way, let version): sight(way, version, at: now)
    case .fetched(let way, let verdict): finish(way, verdict, at: now, &intents)
    case .recognized(let way, let recognition): recognize(way, recognition, &intents)
    case .failed(let way, let retryAfter): fail(way, retryAfter, at: now)
    case .left(let name, let address):
      for (way, entry) in entries where entry.version == .name(name) {
        if case .network(let location) = way, location.address == address { remove(way, &intents) }
      }
    case .forget(let peer):
      for (way, entry) in entries where entry.recognition?.peer == peer { entries[way]?.recognition = nil }
      lastScanResults[peer] = nil
    case .clock(let wall): expire(at: wall, now, &intents)
    case .paused(let end): agingStart = end
    case .timer: prune(at: now, &intents)
    }
    startFetches(at: now, &intents)
    return intents
  }

  // MARK: Discovered ways

  private func isNew(_ version: BeaconVersion, _ entry: Entry, at now: Instant) -> Bool {
    guard version == .unknown else { return version != entry.version }
    return entry.fetched.map { $0.duration(to: now) >= Limits.refetchPeriod } ?? false
  }

  private mutating func sight(_ way: Way, _ version: BeaconVersion, at now: Instant) {
    guard var entry = entries[way] else {
      guard makeRoom(for: way) else {
        ignoredWays += 1
        return
      }
      entries[way] = Entry(version: version, sighted: now, fetch: .wanted(notBefore: now))
      return
    }
    entry.sighted = now
    if isNew(version, entry, at: now) {
      switch entry.fetch {
      case .running: entry.isOutdated = true
      // A new version does not end the pause after failed fetches.
      case .wanted: break
      case .done: entry.fetch = .wanted(notBefore: now)
      }
    }
    if version != .unknown { entry.version = version }
    entries[way] = entry
  }

  /// Whether another way may be stored. If the table is full, it evicts a random way of a stranger, preferably one that
  /// failed, so that a flood cannot exclude a new peer for long. A known peer's way is never evicted.
  private mutating func makeRoom(for way: Way) -> Bool {
    if case .network(let location) = way, isFull(location.address) { return false }
    let kind = entries.filter { $0.key.isBluetooth == way.isBluetooth }
    guard kind.count >= Limits.waysOfOneKind else { return true }
    let strangers = kind.filter(\.value.mayMakeRoom)
    let failed = strangers.filter { $0.value.failures > 0 }
    let candidates = (failed.isEmpty ? strangers : failed).map(\.key)
    guard !candidates.isEmpty else { return false }
    entries[candidates[number(below: candidates.count)]] = nil
    return true
  }

  /// Whether a network address has its maximum number of ways.
  private func isFull(_ address: NetworkAddress) -> Bool {
    let same = entries.keys.count { way in
      if case .network(let location) = way { location.address == address } else { false }
    }
    return same >= Limits.waysOfOneAddress
  }

  // MARK: Fetches

  private mutating func finish(
    _ way: Way, _ verdict: AnnouncementVerdict?, at now: Instant, _ intents: inout [Intent]
  ) {
    guard var entry = entries[way], case .running = entry.fetch else { return }
    entry.fetch = entry.isOutdated ? .wanted(notBefore: now) : .done
    entry.isOutdated = false
    entry.failures = 0
    entry.fetched = now
    let before = entry.recognition
    entry.unknown = nil
    switch verdict {
    case .recognized(let recognition): entry.recognition = recognition
    // The way leads to the same peer as before, because it serves a known announcement.
    case .dropped(.replayed): break
    case .dropped, nil: entry.recognition = nil
    }
    let others = peers(except: way)
    entries[way] = entry
    noteScanResult(before?.peer, entry.sighted)
    report(from: before?.peer, to: entry.recognition?.peer, others, &intents)
  }

  private mutating func recognize(_ way: Way, _ recognition: Recognition, _ intents: inout [Intent]) {
    guard let entry = entries[way] else { return }
    let others = peers(except: way)
    entries[way]?.recognition = recognition
    entries[way]?.unknown = nil
    report(from: entry.recognition?.peer, to: recognition.peer, others, &intents)
  }

  private mutating func fail(_ way: Way, _ retryAfter: Duration?, at now: Instant) {
    guard var entry = entries[way], case .running = entry.fetch else { return }
    entry.failures += 1
    entry.isOutdated = false
    let backoff = Backoff(from: Limits.firstBackoff, upTo: Limits.longestBackoff)
    let pause = min(max(backoff.pause(afterFailures: entry.failures), retryAfter ?? .zero), Limits.longestBackoff)
    entry.fetch = .wanted(notBefore: now.advanced(by: pause))
    entries[way] = entry
  }

  /// Whether the maximum number of fetches is under way over Bluetooth, or over the network.
  private func isBusy(bluetooth isBluetooth: Bool) -> Bool {
    let running = entries.count { way, entry in
      if case .running = entry.fetch { way.isBluetooth == isBluetooth } else { false }
    }
    return running >= (isBluetooth ? Limits.bluetoothFetches : Limits.networkFetches)
  }

  /// Starts fetches up to the maximum: first from ways of known peers, then from those that failed least, in random
  /// order.
  private mutating func startFetches(at now: Instant, _ intents: inout [Intent]) {
    for isBluetooth in [false, true] {
      var ready = entries.filter { way, entry in
        guard way.isBluetooth == isBluetooth, case .wanted(let notBefore) = entry.fetch else { return false }
        return notBefore <= now
      }
      while !ready.isEmpty, !isBusy(bluetooth: isBluetooth) {
        let isKnown = ready.values.contains { $0.recognition != nil }
        let candidates = ready.filter { ($0.value.recognition != nil) == isKnown }
        let failures = candidates.values.map(\.failures).min()
        let best = candidates.filter { $0.value.failures == failures }.map(\.key)
        let way = best[number(below: best.count)]
        ready[way] = nil
        entries[way]?.fetch = .running(since: now)
        intents.append(.fetch(way))
      }
    }
  }

  private mutating func number(below bound: Int) -> Int {
    Int(random.bytes(4).reduce(UInt32(0)) { $0 << 8 | UInt32($1) }) % max(1, bound)
  }

  // MARK: Removal of ways

  private mutating func prune(at now: Instant, _ intents: inout [Intent]) {
    for (way, entry) in entries {
      if case .running(let since) = entry.fetch {
        if since.duration(to: now) >= way.fetchTime { fail(way, nil, at: now) }
      } else if end(of: way, entry) <= now {
        remove(way, &intents)
      }
    }
  }

  private mutating func expire(at wall: WallTime, _ now: Instant, _ intents: inout [Intent]) {
    for (way, entry) in entries {
      guard let recognition = entry.recognition, recognition.expiration <= wall else { continue }
      let others = peers(except: way)
      entries[way]?.recognition = nil
      if entry.fetch == .done { entries[way]?.fetch = .wanted(notBefore: now) }
      noteScanResult(recognition.peer, entry.sighted)
      report(from: recognition.peer, to: nil, others, &intents)
    }
  }

  /// The time at which a way is removed unless it is received again.
  private func end(of way: Way, _ entry: Entry) -> Instant {
    max(entry.sighted, agingStart ?? entry.sighted).advanced(by: way.life)
  }

  private mutating func noteScanResult(_ peer: PeerID?, _ instant: Instant) {
    guard let peer else { return }
    lastScanResults[peer] = max(instant, lastScanResults[peer] ?? instant)
  }

  private mutating func remove(_ way: Way, _ intents: inout [Intent]) {
    guard let entry = entries.removeValue(forKey: way) else { return }
    noteScanResult(entry.recognition?.peer, entry.sighted)
    report(from: entry.recognition?.peer, to: nil, peers, &intents)
  }

  private func peers(except way: Way) -> Set<PeerID> {
    Set(entries.compactMap { $0.key == way ? nil : $0.value.recognition?.peer })
  }

  /// Reports that a way leads to another peer than before, or to none.
  ///
  /// - Parameter others: the peers that other ways lead to.
  private func report(from old: PeerID?, to new: PeerID?, _ others: Set<PeerID>, _ intents: inout [Intent]) {
    if let old, old != new { intents.append(others.contains(old) ? .changed(old) : .disappeared(old)) }
    guard let new else { return }
    intents.append(old == new || others.contains(new) ? .changed(new) : .appeared(new))
  }
}
