import Bitchat
import Common
import Radio

/// Decides which advertisers of the mesh are connected to, and when. A value: events and time in, an address out. Facts:
/// bitchat.md section 1.
struct NeighbourFinder: Sendable {
  /// Advertisers that are remembered, and addresses that are left alone for a while.
  static let limit = 256
  /// An address is left alone for so long after its link was lost, and after an attempt that came to nothing; each time twice as
  /// long, up to the longest pause.
  static let pauseAfterLoss = Duration.seconds(3)
  static let pauseAfterFailure = Duration.seconds(15)
  static let longestPause = Duration.seconds(300)
  /// So long the node with the larger ID leaves it to the other one to begin: on a busy machine a link may need as long to come up. Two that begin
  /// with each other at the same moment come to no link for long, and kernel 6.1 was seen to break over it.
  static let courtesy = Duration.seconds(5)
  /// From an attempt to the next one.
  static let attemptPause = Duration.milliseconds(500)
  /// While the node scans, an advertiser counts as present for this time after its last report. A discovery reports
  /// each advertiser in range at least once in 10.24 s.
  static let presence = Duration.seconds(12)
  /// An advertiser that was reported within this time is preferred to the others.
  static let recently = Duration.seconds(3)
  /// Pause after a failed attempt, in which advertisers in range are reported again.
  static let lookAround = Duration.seconds(2)
  /// An attempt is abandoned for another advertiser after this time, if its own was not reported since the attempt
  /// began.
  static let attemptPatience = Duration.seconds(3)
  /// The weakest signal that is worth an attempt, in dBm: with neighbours, without any, and without any for so long.
  static let weakest = -90
  static let weakestAlone = -95
  static let weakestLongAlone = -100
  static let longAlone = Duration.seconds(30)

  private struct Advertiser {
    var peer: PeerID?
    /// In dBm; nil where the radio does not say.
    var rssi: Int?
    /// Since when it is near.
    let since: Instant
    /// When the last attempt began.
    var triedAt: Instant?
    var heardAt: Instant

    var waitsSince: Instant { triedAt ?? since }
  }

  private struct Pause {
    var until: Instant
    /// After the next failure it is twice as long.
    var length: Duration
    /// Whether it is for what the peer has done.
    var isDeserved = false
  }

  /// This node's ID, so that it can leave the first move to a smaller one; nil where it always begins itself.
  var own: PeerID?
  private var advertisers: [BluetoothAddress: Advertiser] = [:]
  private var pauses: [BluetoothAddress: Pause] = [:]
  private var aloneSince: Instant?
  private var nextAttempt = Instant.zero
  /// Whether the last attempt came to nothing.
  private var hasFailed = false
  /// The end of the last failed attempt.
  private var failedAt: Instant?
  /// Whether the node scans, so that an advertiser in range is reported repeatedly.
  var isScanning = true

  /// How many advertisers and pauses are held.
  var remembered: (advertisers: Int, pauses: Int) { (advertisers.count, pauses.count) }

  /// The signal of an advertiser in dBm; nil where none is known.
  func rssi(of address: BluetoothAddress) -> Int? { advertisers[address]?.rssi }

  /// The peer that advertises itself with an address; nil where none does, or without its ID.
  func peer(at address: BluetoothAddress) -> PeerID? { advertisers[address]?.peer }

  /// The signal of the advertiser that says it is this peer.
  func rssi(of peer: PeerID) -> Int? { advertisers.values.first { $0.peer == peer }?.rssi }

  mutating func sighted(_ sighting: Sighting, at now: Instant) {
    advertisers[sighting.address] = Advertiser(
      peer: BitchatGATT.peer(in: sighting) ?? advertisers[sighting.address]?.peer, rssi: sighting.rssi,
      since: advertisers[sighting.address]?.since ?? now, triedAt: advertisers[sighting.address]?.triedAt, heardAt: now)
    if advertisers.count > Self.limit, let oldest = advertisers.min(by: { $0.value.heardAt < $1.value.heardAt }) {
      advertisers[oldest.key] = nil
    }
  }

  mutating func lost(_ address: BluetoothAddress) { advertisers[address] = nil }

  /// Nobody tells any more which advertiser is lost.
  mutating func forgetAdvertisers() { advertisers = [:] }

  /// On a battery nobody tells that an advertiser is lost.
  mutating func forget(notHeardSince moment: Instant) {
    advertisers = advertisers.filter { $0.value.heardAt >= moment }
  }

  /// The radio was away: nobody is near, and what failed meanwhile shows nothing about a peer.
  mutating func loseAll() {
    forgetAdvertisers()
    forgive()
  }

  /// What failed so far shows nothing about a peer any more.
  mutating func forgive() {
    pauses = pauses.filter { $0.value.isDeserved }
    failedAt = nil
  }

  /// A link has ended. A longer pause, for what the peer has done or for a failure, stands: the end of the link follows from it.
  mutating func ended(_ address: BluetoothAddress, at now: Instant) {
    let until = now.advanced(by: Self.pauseAfterLoss)
    if let pause = pauses[address], pause.until >= until { return }
    pauses[address] = Pause(until: until, length: .zero)
    forgetOldPauses(at: now)
  }

  /// An attempt came to nothing.
  ///
  /// - Parameter first: the pause after the first one.
  mutating func failed(_ address: BluetoothAddress, first: Duration = pauseAfterFailure, at now: Instant) {
    if let pause = pauses[address], pause.isDeserved, pause.until > now { return }
    (hasFailed, failedAt) = (true, now)
    let before = pauses[address]?.length ?? .zero
    let length = before == .zero ? first : min(before * 2, Self.longestPause)
    pauses[address] = Pause(until: now.advanced(by: length), length: length)
    forgetOldPauses(at: now)
  }

  /// Nothing is begun with an address for a while.
  mutating func avoid(_ address: BluetoothAddress, for time: Duration, at now: Instant) {
    pauses[address] = Pause(until: now.advanced(by: time), length: time, isDeserved: true)
    forgetOldPauses(at: now)
  }

  /// A peer has said who it is, over a link that it may have made itself: what failed before shows nothing any more. That there was a
  /// link does not show as much: bluetoothd may know of another machine what that served before.
  mutating func met(_ address: BluetoothAddress) {
    hasFailed = false
    if pauses[address]?.isDeserved == false { pauses[address] = nil }
  }

  /// Chooses the advertiser to connect to now: the strongest of those in range that were reported within `recently`,
  /// otherwise the strongest of all; after a failed attempt, the one that has waited longest. An advertiser with a
  /// strong signal, a new address each time and no answer therefore cannot keep the node from all others.
  ///
  /// While the node scans, an advertiser without a report for `presence`, or since the last failed attempt, counts as
  /// gone and is not tried.
  ///
  /// - Parameters:
  ///   - linked: addresses with a link.
  ///   - peers: this node, and the peers that it has links with.
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

  /// Whether to abandon an attempt: its advertiser was not reported since it began, and another one to connect to was.
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

  /// When `next` may have another answer without anything being heard; nil if nothing is timed.
  func deadline(linked: Set<BluetoothAddress>, peers: Set<PeerID>, at now: Instant) -> Instant? {
    let ready = candidates(linked, peers, at: now).map { max(freeAt($0.key, $0.value), earliest) }.min()
    // After a while alone the weak ones count as well.
    let weakest = weakest(at: now)
    let areWeakThere = advertisers.values.contains { $0.rssi.map { $0 < weakest } ?? false }
    let patience = areWeakThere ? aloneSince?.advanced(by: Self.longAlone) : nil
    return [ready, patience].compactMap(\.self).filter { $0 > now || $0 == ready }.min()
  }

  /// When the next attempt may begin.
  private var earliest: Instant {
    guard isScanning, hasFailed, let failedAt else { return nextAttempt }
    return max(nextAttempt, failedAt.advanced(by: Self.lookAround))
  }

  /// Whether an advertiser counts as present.
  private func isPresent(_ advertiser: Advertiser, at now: Instant) -> Bool {
    guard isScanning else { return true }
    if let failedAt, advertiser.heardAt < failedAt { return false }
    return advertiser.heardAt.advanced(by: Self.presence) >= now
  }

  /// When an advertiser may be connected to.
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
