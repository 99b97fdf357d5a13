import BitchatWire
import Common
import Crypto

/// Known peers, and their pinned signing keys. Facts: bitchat.md section 4.
///
/// Both are limited. Peers known for over a minute are acquaintances, which strangers do not evict; otherwise invented
/// identities could displace them. Within a class, the peer that was silent for longest is evicted first. Favourites
/// and verified peers are evicted last.
///
/// Keys of absent peers are evicted in ascending order of the time for which the peer was known. An invented identity
/// is known only while an attacker maintains it.
struct PeerTable: Sendable {
  static let acquaintance = Duration.seconds(60)

  /// Number of changed announces of one peer that are relayed without a pause.
  private static let newsInARow: UInt8 = 3

  static let peerLimit = 1024
  static let pinLimit = 4096
  /// Time for which a peer counts as known if an earlier run persisted its key.
  static let restored = Duration.seconds(24 * 3600)

  /// Reason why an announce is ignored.
  enum Refusal: Error, Hashable, Sendable {
    /// The signing key differs from the pinned one.
    case otherSigningKey
    /// The announce is older than an earlier one.
    case older
  }

  /// Effect of an accepted announce on the table.
  enum Novelty: Hashable, Sendable {
    case newPeer
    /// Nickname, capabilities, link properties or distance have changed.
    case changed
    case same
  }

  /// Signing key and history of a peer that is no longer in the table.
  private struct Pin: Sendable {
    var signingKey: Ed25519.PublicKey
    var isProven: Bool
    var heardAt: Instant
    /// Total time for which the peer was in the table.
    var knownFor = Duration.zero
    /// Noise key, for messages sealed while the peer is away; nil if unknown.
    var noiseKey: X25519.PublicKey?
    /// Timestamp of the leave, milliseconds since 1970 by the peer's clock. Older announces do not bring the peer back.
    var leftAt: UInt64 = 0
  }

  private(set) var peers = DenseTable<PeerID, Peer>()
  /// Pins of peers outside the table. Entries of the table contain their keys.
  private var pins = DenseTable<PeerID, Pin>()
  /// Favourites and verified peers, which are evicted last.
  private(set) var precious: Set<PeerID> = []

  subscript(id: PeerID) -> Peer? { peers[id] }
  var count: Int { peers.count }
  var pinCount: Int { peers.count + pins.count }

  /// Time of the last packet of a peer, whether or not it is in the table; nil if unknown.
  func heardAt(of id: PeerID) -> Instant? { peers[id]?.heardAt ?? pins[id]?.heardAt }

  /// Returns the total time for which a peer was in the table, over all its stays.
  func knownFor(_ id: PeerID) -> Duration { peers[id]?.knownFor ?? pins[id]?.knownFor ?? .zero }

  /// Pinned signing key; nil if unknown.
  func pin(of id: PeerID) -> Ed25519.PublicKey? { signingKey(of: id) ?? pins[id]?.signingKey }

  /// Whether a peer has proven its pinned signing key inside Noise. Otherwise the key is provisional.
  func isProven(_ id: PeerID) -> Bool {
    peers.place(of: id).map { peers.values[$0].isKeyProven } ?? pins[id]?.isProven ?? false
  }

  /// Noise key of a peer, whether or not it is in the table; nil if unknown.
  func noiseKey(of id: PeerID) -> X25519.PublicKey? { peers[id]?.noiseKey ?? pins[id]?.noiseKey }

  /// Whether a peer is an Earshot peer. Called for each packet of a file, so it avoids copying the peer.
  func isEarshot(_ id: PeerID) -> Bool { peers.place(of: id).map { peers.values[$0].isEarshot } ?? false }

  /// Whether a peer stores fragments for others, and honours fragment IDs in requests. An Earshot relay, which
  /// announces no capabilities, stores none.
  func keepsFragments(_ id: PeerID) -> Bool {
    peers.place(of: id).map {
      let peer = peers.values[$0]
      return peer.isEarshot ? !peer.capabilities.isEmpty : peer.capabilities.contains(.privateMediaReceipts)
    } ?? false
  }

  /// Whether a peer is in the table.
  func has(_ id: PeerID) -> Bool { peers.holds(id) }

  /// Handles an announce with a valid signature.
  ///
  /// - Returns: what is new, and the peers that were evicted.
  mutating func learn(
    _ announcement: Announcement, at time: UInt64, hops: Int, now: Instant
  ) throws(Refusal) -> (novelty: Novelty, forgotten: [PeerID]) {
    let id = announcement.peerID
    if let pinned = pin(of: id), pinned != announcement.signingKey { throw .otherSigningKey }
    guard let known = peers[id] else {
      guard time >= pins[id]?.leftAt ?? 0 else { throw .older }
      var peer = Peer(announcement, at: time, hops: hops, now: now)
      peer.knownBefore = pins[id]?.knownFor ?? .zero
      peer.isKeyProven = pins[id]?.isProven ?? false
      // A peer that repeatedly leaves and returns is relayed no more often.
      if let pin = pins[id], pin.leftAt > 0 { (peer.passedOnAt, peer.newsPassedOn) = (pin.heardAt, Self.newsInARow) }
      pins[id] = nil
      peers[id] = peer
      let forgotten = dropPeers(but: id)
      dropPins()
      return (.newPeer, forgotten)
    }
    guard time >= known.announcedAt else { throw .older }
    var peer = Peer(announcement, at: time, hops: hops, now: now)
    // A copy over a longer path does not change the distance.
    if time == known.announcedAt { peer.hops = min(known.hops, hops) }
    if announcement.neighbours == nil { (peer.neighbours, peer.neighboursAt) = (known.neighbours, known.neighboursAt) }
    (peer.version, peer.metAt) = (known.version, known.metAt)
    (peer.passedOnAt, peer.newsPassedOn, peer.heldBack) = (known.passedOnAt, known.newsPassedOn, known.heldBack)
    (peer.knownBefore, peer.isPinKept, peer.farHops) = (known.knownBefore, known.isPinKept, known.farHops)
    peer.isKeyProven = known.isKeyProven
    peers[id] = peer
    let isSame =
      peer.nickname == known.nickname && peer.capabilities == known.capabilities && peer.hops == known.hops
      && peer.dialect == known.dialect && peer.isEarshot == known.isEarshot
      && peer.longestWrite == known.longestWrite
    return (isSame ? .same : .changed, [])
  }

  /// Signing key of a peer in the table; nil if it is not there.
  func signingKey(of id: PeerID) -> Ed25519.PublicKey? { peers.place(of: id).map { peers.values[$0].signingKey } }

  /// Handles a verified announce with the payload of the peer's latest one.
  ///
  /// - Returns: whether the distance has changed, and whether an announce of the peer was relayed within `burst`; nil
  ///   if the peer is not in the table.
  mutating func refresh(
    _ id: PeerID, at time: UInt64, hops: Int, burst: Duration, now: Instant
  ) -> (isChanged: Bool, isBurst: Bool)? {
    guard let place = peers.place(of: id) else { return nil }
    var (isChanged, isBurst) = (false, false)
    peers.update(at: place) { peer in
      isChanged = peer.hops != hops
      isBurst = peer.passedOnAt.map { $0.duration(to: now) < burst } ?? false
      (peer.announcedAt, peer.heardAt, peer.hops) = (time, now, hops)
      if peer.saysNeighbours { peer.neighboursAt = now }
      if !isBurst { peer.passedOnAt = now }
    }
    return (isChanged, isBurst)
  }

  /// Records the number of hops of an announce that arrived through a relay.
  mutating func noteFar(_ id: PeerID, hops: Int) { peers.update(id) { $0.farHops = UInt8(clamping: hops) } }

  /// Decides whether a changed announce, or a leave, of a peer is relayed.
  ///
  /// - Returns: true for three in a row, then for one per `burst`. The count restarts when none was relayed for three
  ///   times `burst`.
  mutating func passOn(_ id: PeerID, burst: Duration, at now: Instant) -> Bool {
    guard let place = peers.place(of: id) else { return true }
    var mayGoOn = true
    peers.update(at: place) { peer in
      let pause = peer.passedOnAt.map { $0.duration(to: now) }
      if pause.map({ $0 >= burst * Int(Self.newsInARow) }) ?? true { peer.newsPassedOn = 0 }
      mayGoOn = peer.newsPassedOn < Self.newsInARow || pause.map { $0 >= burst } ?? true
      guard mayGoOn else { return }
      peer.newsPassedOn = min(peer.newsPassedOn + 1, Self.newsInARow)
      peer.passedOnAt = now
    }
    return mayGoOn
  }

  /// Maximum announces of a peer in a row that are not relayed because of copies from two neighbours.
  private static let mostHeldBack: UInt8 = 4

  /// Records that an announce of a peer was not relayed because copies were received from other neighbours.
  mutating func holdBack(_ id: PeerID) { peers.update(id) { $0.heldBack = min($0.heldBack + 1, Self.mostHeldBack) } }

  mutating func sentOn(_ id: PeerID) { peers.update(id) { $0.heldBack = 0 } }

  /// Whether the next announce needs copies from more neighbours to be cancelled.
  func isHeldBack(_ id: PeerID) -> Bool {
    peers.place(of: id).map { peers.values[$0].heldBack >= Self.mostHeldBack } ?? false
  }

  /// Records a verified or decrypted packet of a peer.
  mutating func handlePacket(of id: PeerID, version: PacketVersion? = nil, at now: Instant) {
    peers.update(id) { peer in
      peer.heardAt = now
      if version == .v2 { peer.version = .v2 }
    }
  }

  /// Pins the signing key that a peer has proven inside Noise, instead of any other.
  ///
  /// - Returns: whether the peer was in the table with another key. It is removed then, because its announces are an
  ///   attacker's.
  mutating func prove(_ id: PeerID, _ signingKey: Ed25519.PublicKey, at now: Instant) -> Bool {
    if self.signingKey(of: id) == signingKey {
      peers.update(id) { ($0.isKeyProven, $0.isPinKept) = (true, $0.isPinKept && $0.isKeyProven) }
      return false
    }
    let wasHere = peers.holds(id)
    if wasHere { forget(id) }
    pins[id] = Pin(
      signingKey: signingKey, isProven: true, heardAt: now, knownFor: pins[id]?.knownFor ?? .zero,
      noiseKey: noiseKey(of: id))
    dropPins(but: id)
    return wasHere
  }

  /// Whether a peer's key must be persisted: it is an acquaintance or matters to the user, and was not persisted since
  /// it arrived. For an absent peer the latter is unknown.
  func isPinDue(_ id: PeerID) -> Bool {
    guard let place = peers.place(of: id) else { return precious.contains(id) && pins.place(of: id) != nil }
    // The key that an earlier run persisted may differ.
    let isOld = peers.values[place].isAcquaintance || peers.values[place].knownBefore >= Self.acquaintance
    return !peers.values[place].isPinKept && (isOld || precious.contains(id))
  }

  mutating func keptPin(of id: PeerID) { peers.update(id) { $0.isPinKept = true } }

  /// Restores the pinned key of a peer. A peer in the table with another key is removed as an impostor.
  mutating func restorePin(_ id: PeerID, _ signingKey: Ed25519.PublicKey, isProven: Bool, at now: Instant) {
    if let here = self.signingKey(of: id) {
      guard here != signingKey else { return }
      peers[id] = nil
    }
    pins[id] = Pin(signingKey: signingKey, isProven: isProven, heardAt: now, knownFor: Self.restored)
    dropPins(but: id)
  }

  /// Restores the Noise key of a peer that has a pin.
  mutating func restoreNoiseKey(_ id: PeerID, _ key: X25519.PublicKey) { pins.update(id) { $0.noiseKey = key } }

  /// Sets whether a peer is a favourite or verified, so that it is evicted last.
  mutating func hold(_ id: PeerID, _ isPrecious: Bool) {
    if isPrecious { precious.insert(id) } else { precious.remove(id) }
  }

  /// Timestamp of the newest announce or leave of a peer; 0 if unknown.
  func newest(of id: PeerID) -> UInt64 {
    if let place = peers.place(of: id) { return peers.values[place].announcedAt }
    return pins.place(of: id).map { pins.values[$0].leftAt } ?? 0
  }

  /// Removes a peer that has sent a leave.
  mutating func leave(_ id: PeerID, at time: UInt64) {
    forget(id)
    pins.update(id) { $0.leftAt = time }
  }

  /// Removes a peer; its pin stays unless `withPin`.
  mutating func forget(_ id: PeerID, withPin: Bool = false) {
    if let peer = peers[id] {
      peers[id] = nil
      pins[id] = Pin(
        signingKey: peer.signingKey, isProven: peer.isKeyProven, heardAt: peer.heardAt, knownFor: peer.knownFor,
        noiseKey: peer.noiseKey)
    }
    if withPin { pins[id] = nil }
  }

  /// Removes the peers that have been silent since `moment`.
  ///
  /// - Returns: IDs of the removed peers.
  mutating func forget(notHeardSince moment: Instant) -> [PeerID] {
    let silent = peers.values.filter { $0.heardAt < moment }.map(\.id).sorted()
    for id in silent { forget(id) }
    return silent
  }

  private mutating func dropPeers(but newcomer: PeerID) -> [PeerID] {
    guard peers.count > Self.peerLimit else { return [] }
    var least: Peer?
    for peer in peers.values where peer.id != newcomer {
      if least.map({ goesSooner(peer, $0) }) ?? true { least = peer }
    }
    guard let least else { return [] }
    forget(least.id)
    return [least.id]
  }

  private func goesSooner(_ left: Peer, _ right: Peer) -> Bool {
    (worth(of: left), left.heardAt, left.id) < (worth(of: right), right.heardAt, right.id)
  }

  private func worth(of peer: Peer) -> Int { precious.contains(peer.id) ? 2 : peer.isAcquaintance ? 1 : 0 }

  /// Priority of a peer: 2 for favourites and verified peers, 1 for acquaintances, 0 for strangers.
  func worth(of id: PeerID) -> Int { self[id].map { worth(of: $0) } ?? (precious.contains(id) ? 2 : 0) }

  private mutating func dropPins(but newcomer: PeerID? = nil) {
    guard pinCount > Self.pinLimit else { return }
    let others = zip(pins.keys, pins.values).filter { $0.0 != newcomer }
    if let least = others.min(by: { goesSooner($0, $1) }) { pins[least.0] = nil }
  }

  private func goesSooner(_ left: (id: PeerID, pin: Pin), _ right: (id: PeerID, pin: Pin)) -> Bool {
    func rank(_ id: PeerID) -> Int { precious.contains(id) ? 1 : 0 }
    return (rank(left.id), left.pin.knownFor, left.pin.heardAt, left.id)
      < (rank(right.id), right.pin.knownFor, right.pin.heardAt, right.id)
  }
}

extension Peer {
  fileprivate var isAcquaintance: Bool { metAt.duration(to: heardAt) >= PeerTable.acquaintance }
  fileprivate var knownFor: Duration { knownBefore + metAt.duration(to: heardAt) }

  fileprivate init(_ announcement: Announcement, at time: UInt64, hops: Int, now: Instant) {
    self.init(
      id: announcement.peerID,
      noiseKey: announcement.noiseKey, signingKey: announcement.signingKey, nickname: announcement.nickname,
      capabilities: announcement.capabilities ?? [], dialect: announcement.dialect,
      neighbours: announcement.neighbours ?? [], neighboursAt: announcement.neighbours == nil ? nil : now,
      announcedAt: time, heardAt: now, metAt: now, hops: hops)
    (isEarshot, saysNeighbours) = (announcement.isEarshot, announcement.neighbours != nil)
    (longestWrite, courierPlaces) = (announcement.longestWrite, announcement.courierPlaces)
  }
}
