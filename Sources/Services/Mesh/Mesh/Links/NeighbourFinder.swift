import BitchatWire
import Common
import Radio

/// Selects advertisers of the mesh to connect to. A value: scan results and time in, an address out. Facts: bitchat.md
/// section 1.
struct NeighbourFinder: Sendable {
  /// Maximum remembered advertisers, and also maximum addresses with a pause.
  static let limit = 256
  /// Pause before the next attempt to reach an address whose link was lost.
  static let pauseAfterLoss = Duration.seconds(3)
  /// First pause after a failed attempt to reach an address. It doubles with each failure.
  static let pauseAfterFailure = Duration.seconds(15)
  /// Maximum pause between attempts to reach one address, when it no longer doubles.
  static let longestPause = Duration.seconds(300)
  /// Time for which the node with the larger ID leaves the first attempt to the node with the smaller ID. On a busy
  /// machine a link may take this long. Two nodes that connect to each other at once stay without a link for long, and
  /// kernel 6.1 was seen to break.
  static let courtesy = Duration.seconds(5)
  /// Minimum time between two connection attempts to any addresses.
  static let attemptPause = Duration.milliseconds(500)
  /// Time after its last report for which an advertiser counts as present while the node scans. A discovery reports
  /// each advertiser in range at least once in 10.24 s.
  static let presence = Duration.seconds(12)
  /// Maximum age of a report that makes an advertiser preferred to those with older reports.
  static let recently = Duration.seconds(3)
  /// Pause of all attempts after a failed one, while the node scans. Meanwhile advertisers in range are reported
  /// again.
  static let lookAround = Duration.seconds(2)
  /// Time after which an attempt may be abandoned for another advertiser, if its own advertiser was not reported
  /// since the attempt began.
  static let attemptPatience = Duration.seconds(3)
  /// Weakest signal that is worth an attempt while there are neighbours, in dBm.
  static let weakest = -90
  /// Weakest signal that is worth an attempt without neighbours, in dBm.
  static let weakestAlone = -95
  /// Weakest signal that is worth an attempt after `longAlone` without neighbours, in dBm.
  static let weakestLongAlone = -100
  /// Time without neighbours after which the weakest advertisers are tried.
  static let longAlone = Duration.seconds(30)

  private struct Advertiser {
    var peer: PeerID?
    /// Signal strength in dBm; nil if the radio does not report it.
    var rssi: Int?
    /// Time of the advertiser's first report.
    let since: Instant
    /// Time at which the last attempt began.
    var triedAt: Instant?
    var heardAt: Instant

    var waitsSince: Instant { triedAt ?? since }
  }

  private struct Pause {
    var until: Instant
    /// Length of the pause, doubled at the next failure.
    var length: Duration
    /// Whether the pause was set because of the peer's behaviour, and not after a failure.
    var isDeserved = false
  }

  /// ID of this node, which waits for nodes with smaller IDs; nil if it never waits.
  var own: PeerID?
  private var advertisers: [BluetoothAddress: Advertiser] = [:]
  private var pauses: [BluetoothAddress: Pause] = [:]
  private var aloneSince: Instant?
  private var nextAttempt = Instant.zero
  /// Whether the last connection attempt, to any address, failed.
  private var hasFailed = false
  /// When the last failed connection attempt ended.
  private var failedAt: Instant?
  /// Whether the node scans, so that an advertiser in range is reported repeatedly.
  var isScanning = true

  /// Number of advertisers and pauses that are remembered now.
  var remembered: (advertisers: Int, pauses: Int) { (advertisers.count, pauses.count) }

  /// Signal strength of an advertiser, in dBm; nil if unknown.
  func rssi(of address: BluetoothAddress) -> Int? { advertisers[address]?.rssi }

  /// Peer ID in an address's advertisements; nil if unknown.
  func peer(at address: BluetoothAddress) -> PeerID? { advertisers[address]?.peer }

  /// Signal strength of a peer's advertiser, in dBm; nil if unknown.
  func rssi(of peer: PeerID) -> Int? { advertisers.values.first { $0.peer == peer }?.rssi }

  mutating func sighted(_ scanResult: ScanResult, at now: Instant) {
    advertisers[scanResult.address] = Advertiser(
      peer: BitchatGATT.peer(in: scanResult) ?? advertisers[scanResult.address]?.peer, rssi: scanResult.rssi,
      since: advertisers[scanResult.address]?.since ?? now, triedAt: advertisers[scanResult.address]?.triedAt,
      heardAt: now)
    if advertisers.count > Self.limit, let oldest = advertisers.min(by: { $0.value.heardAt < $1.value.heardAt }) {
      advertisers[oldest.key] = nil
    }
  }

  mutating func lost(_ address: BluetoothAddress) { advertisers[address] = nil }

  /// Drops all advertisers, because losses are no longer reported.
  mutating func forgetAdvertisers() { advertisers = [:] }

  /// Drops the advertisers without a report since `moment`, because the radio does not report losses on battery.
  mutating func forget(notHeardSince moment: Instant) {
    advertisers = advertisers.filter { $0.value.heardAt >= moment }
  }

  /// Resets the finder after an absence of the radio: no advertiser is known, and failures during the absence do not
  /// count.
  mutating func loseAll() {
    forgetAdvertisers()
    forgive()
  }

  /// Removes pauses after failures, which are not due to the peers' behaviour.
  mutating func forgive() {
    pauses = pauses.filter { $0.value.isDeserved }
    failedAt = nil
  }

  /// Sets the pause after the end of a link. A longer pause, for behaviour or failure, stays.
  mutating func ended(_ address: BluetoothAddress, at now: Instant) {
    let until = now.advanced(by: Self.pauseAfterLoss)
    if let pause = pauses[address], pause.until >= until { return }
    pauses[address] = Pause(until: until, length: .zero)
    forgetOldPauses(at: now)
  }

  /// Records a failed attempt.
  ///
  /// - Parameter first: pause after the first failure.
  mutating func failed(_ address: BluetoothAddress, first: Duration = pauseAfterFailure, at now: Instant) {
    if let pause = pauses[address], pause.isDeserved, pause.until > now { return }
    (hasFailed, failedAt) = (true, now)
    let before = pauses[address]?.length ?? .zero
    let length = Backoff(from: first, upTo: Self.longestPause).pause(after: before)
    pauses[address] = Pause(until: now.advanced(by: length), length: length)
    forgetOldPauses(at: now)
  }

  /// Pauses attempts to reach an address because of its peer's behaviour, such as malformed packets.
  mutating func avoid(_ address: BluetoothAddress, for time: Duration, at now: Instant) {
    pauses[address] = Pause(until: now.advanced(by: time), length: time, isDeserved: true)
    forgetOldPauses(at: now)
  }

  /// Clears the failures of an address after its peer has announced itself. A link alone does not prove that the peer
  /// works: bluetoothd may show cached services of another machine.
  mutating func met(_ address: BluetoothAddress) {
    hasFailed = false
    if pauses[address]?.isDeserved == false { pauses[address] = nil }
  }

  /// Chooses the advertiser to connect to now: the strongest in range that was reported within `recently`, otherwise
  /// the strongest of all. After a failed attempt it is the one that has waited longest. A strong advertiser that never
  /// answers and changes its address therefore cannot block all others.
  ///
  /// While the node scans, an advertiser without a report for `presence`, or since the last failed attempt, counts as
  /// gone and is not tried.
  ///
  /// - Parameters:
  ///   - linked: addresses with a link.
  ///   - peers: this node and its neighbours.
  mutating func next(linked: Set<BluetoothAddress>, peers: Set<PeerID>, at now: Instant) -> BluetoothAddress? {
    noteCompany(linked, at: now)
    guard earliest <= now else { return nil }
    let present = candidates(linked, peers, at: now).filter { freeAt($0.key, $0.value) <= now }
    let seen = present.filter { $0.value.heardAt.advanced(by: Self.recently) >= now }
    let ready = seen.isEmpty ? present : seen
    let chosen = (hasFailed ? ready.values.map(\.waitsSince).min() : nil).map { longest in
      ready.filter { $0.value.waitsSince == longest }
    }
    guard let address = Self.strongest(of: chosen ?? ready) else { return nil }
    nextAttempt = now.advanced(by: Self.attemptPause)
    advertisers[address]?.triedAt = now
    return address
  }

  /// Whether to abandon an attempt, because its advertiser was not reported since the attempt began, and another
  /// suitable advertiser was.
  func isOutdone(
    _ address: BluetoothAddress, since began: Instant, linked: Set<BluetoothAddress>, peers: Set<PeerID>,
    at now: Instant
  ) -> Bool {
    guard isScanning, now >= began.advanced(by: Self.attemptPatience) else { return false }
    if let own = advertisers[address], own.heardAt > began { return false }
    return candidates(linked, peers, at: now).contains { other, advertiser in
      other != address && advertiser.heardAt > began && advertiser.heardAt.advanced(by: Self.recently) >= now
        && freeAt(other, advertiser) <= now
    }
  }

  private static func strongest(of advertisers: [BluetoothAddress: Advertiser]) -> BluetoothAddress? {
    advertisers.max { ($0.value.rssi ?? 0, $1.key.value) < ($1.value.rssi ?? 0, $0.key.value) }?.key
  }

  /// Next time at which `next` may change its result without a new report; nil if there is none.
  func deadline(linked: Set<BluetoothAddress>, peers: Set<PeerID>, at now: Instant) -> Instant? {
    let ready = candidates(linked, peers, at: now).map { max(freeAt($0.key, $0.value), earliest) }.min()
    // After `longAlone`, weak advertisers count too.
    let weakest = weakest(at: now)
    let areWeakThere = advertisers.values.contains { $0.rssi.map { $0 < weakest } ?? false }
    let patience = areWeakThere ? aloneSince?.advanced(by: Self.longAlone) : nil
    return [ready, patience].compactMap(\.self).filter { $0 > now || $0 == ready }.min()
  }

  /// Earliest time of the next connection attempt to any address.
  private var earliest: Instant {
    guard isScanning, hasFailed, let failedAt else { return nextAttempt }
    return max(nextAttempt, failedAt.advanced(by: Self.lookAround))
  }

  /// Whether an advertiser counts as being in range.
  private func isPresent(_ advertiser: Advertiser, at now: Instant) -> Bool {
    guard isScanning else { return true }
    if let failedAt, advertiser.heardAt < failedAt { return false }
    return advertiser.heardAt.advanced(by: Self.presence) >= now
  }

  /// Earliest time at which an advertiser may be connected to.
  private func freeAt(_ address: BluetoothAddress, _ advertiser: Advertiser) -> Instant {
    let free = pauses[address]?.until ?? .zero
    guard let own, let peer = advertiser.peer, peer < own else { return free }
    return max(free, advertiser.since).advanced(by: Self.courtesy)
  }

  private func candidates(
    _ linked: Set<BluetoothAddress>, _ peers: Set<PeerID>, at now: Instant
  ) -> [BluetoothAddress: Advertiser] {
    let weakest = weakest(at: now)
    return advertisers.filter { address, advertiser in
      guard !linked.contains(address), isPresent(advertiser, at: now), advertiser.rssi.map({ $0 >= weakest }) ?? true
      else { return false }
      return advertiser.peer.map { !peers.contains($0) } ?? true
    }
  }

  private func weakest(at now: Instant) -> Int {
    guard let aloneSince else { return Self.weakest }
    return aloneSince.advanced(by: Self.longAlone) <= now ? Self.weakestLongAlone : Self.weakestAlone
  }

  private mutating func noteCompany(_ linked: Set<BluetoothAddress>, at now: Instant) {
    if linked.isEmpty { aloneSince = aloneSince ?? now } else { aloneSince = nil }
  }

  private mutating func forgetOldPauses(at now: Instant) {
    guard pauses.count > Self.limit else { return }
    pauses = pauses.filter { $0.value.until > now }
    while pauses.count > Self.limit, let first = pauses.min(by: { $0.value.until < $1.value.until }) {
      pauses[first.key] = nil
    }
  }
}

/// Scan times on battery: 2 s of every 30 s, and continuously for 10 s after traffic.
struct ScanDuty: Sendable {
  static let window = Duration.seconds(2)
  static let period = Duration.seconds(30)
  static let afterTraffic = Duration.seconds(10)

  /// Time at which the first scan window began; nil before it.
  private var beganAt: Instant?
  private var busyUntil = Instant.zero

  /// Records a message, so that the node on battery scans longer for a while.
  mutating func traffic(at now: Instant) { busyUntil = max(busyUntil, now.advanced(by: Self.afterTraffic)) }

  /// Whether to scan now, and when that may change.
  mutating func look(at now: Instant) -> (isListening: Bool, next: Instant) {
    let began = beganAt ?? now
    beganAt = began
    // Start of the current period.
    let elapsed = began.duration(to: now).wholeNanoseconds
    let start = began.advanced(by: Self.period * Int(elapsed / Self.period.wholeNanoseconds))
    let end = start.advanced(by: Self.window)
    if now < end { return (true, max(end, busyUntil)) }
    if now < busyUntil { return (true, busyUntil) }
    return (false, start.advanced(by: Self.period))
  }
}
