import Common
import Crypto

/// The peers that are known, and the signing key that each of them began with. Facts: bitchat.md section 4.
///
/// Both have a limit. Peers that have been heard over a minute are acquaintances: strangers give way to them, or whoever makes up
/// identities could push them out. Of either the one that was not heard for longest goes first; those that matter to the user go last.
/// Of peers that are away, the keys of those go first that were known for the shortest time: a made-up identity is known only for as long
/// as somebody keeps it in the table.
struct PeerTable: Sendable {
  static let acquaintance = Duration.seconds(60)

  /// So many announces of one peer that say something new go on in a row.
  private static let newsInARow: UInt8 = 3

  static let peerLimit = 1024
  static let pinLimit = 4096
  /// A peer whose key an earlier run has kept counts as one that is known for so long.
  static let restored = Duration.seconds(24 * 3600)

  /// Why an announce changes nothing.
  enum Refusal: Error, Hashable, Sendable {
    /// Another signing key than the first one.
    case otherSigningKey
    /// It is older than one that came before.
    case older
  }

  /// What an announce brought.
  enum Novelty: Hashable, Sendable {
    case newPeer
    /// The nickname, what the peer can do, or its distance is another one.
    case changed
    case same
  }

  /// What is remembered of a peer that is not in the table.
  private struct Pin: Sendable {
    var signingKey: Ed25519.PublicKey
    var isProven: Bool
    var heardAt: Instant
    /// For how long it was in the table, all times together.
    var knownFor = Duration.zero
    /// For what is sealed while the peer is away; nil where only an earlier run heard it.
    var noiseKey: X25519.PublicKey?
    /// When it said that it leaves, milliseconds since 1970 by its clock: it is not back by an older announce.
    var leftAt: UInt64 = 0
  }

  private(set) var peers = DenseTable<PeerID, Peer>()
  /// Of those that are not in the table: what is there says itself which key it has.
  private var pins = DenseTable<PeerID, Pin>()
  /// Favourites and verified peers.
  private(set) var precious: Set<PeerID> = []

  subscript(id: PeerID) -> Peer? { peers[id] }
  var count: Int { peers.count }
  var pinCount: Int { peers.count + pins.count }

  /// When something of a peer was heard last, near or not; nil for one of which nothing is known.
  func heardAt(of id: PeerID) -> Instant? { peers[id]?.heardAt ?? pins[id]?.heardAt }

  /// How long a peer has been in the table in all.
  func knownFor(_ id: PeerID) -> Duration { peers[id]?.knownFor ?? pins[id]?.knownFor ?? .zero }

  /// The signing key that a peer is held to; nil for one that was never heard.
  func pin(of id: PeerID) -> Ed25519.PublicKey? { signingKey(of: id) ?? pins[id]?.signingKey }

  /// Whether a peer has proven its pinned signing key inside Noise. Otherwise the key is provisional.
  func isProven(_ id: PeerID) -> Bool {
    peers.place(of: id).map { peers.values[$0].isKeyProven } ?? pins[id]?.isProven ?? false
  }

  /// The Noise key of a peer that was heard, near or not.
  func noiseKey(of id: PeerID) -> X25519.PublicKey? { peers[id]?.noiseKey ?? pins[id]?.noiseKey }

  /// Whether a peer is a node of this kind. Asked with each packet of a file: a peer is not copied for it.
  func isEarshot(_ id: PeerID) -> Bool { peers.place(of: id).map { peers.values[$0].isEarshot } ?? false }

  /// Whether a peer keeps fragments for others, and reads which ones it is asked for. A relay of this kind, which announces no
  /// capabilities, keeps none.
  func keepsFragments(_ id: PeerID) -> Bool {
    peers.place(of: id).map {
      let peer = peers.values[$0]
      return peer.isEarshot ? !peer.capabilities.isEmpty : peer.capabilities.contains(.privateMediaReceipts)
    } ?? false
  }

  /// Whether a peer is in the table.
  func has(_ id: PeerID) -> Bool { peers.holds(id) }

  /// Takes in an announce whose signature holds.
  ///
  /// - Returns: what is new, and the peers that were forgotten for want of room.
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
      // Who leaves and comes back all the time says no more for it.
      if let pin = pins[id], pin.leftAt > 0 { (peer.passedOnAt, peer.newsPassedOn) = (pin.heardAt, Self.newsInARow) }
      pins[id] = nil
      peers[id] = peer
      let forgotten = dropPeers(but: id)
      dropPins()
      return (.newPeer, forgotten)
    }
    guard time >= known.announcedAt else { throw .older }
    var peer = Peer(announcement, at: time, hops: hops, now: now)
    // A copy over a longer way says nothing about the distance.
    if time == known.announcedAt { peer.hops = min(known.hops, hops) }
    if announcement.neighbours == nil { (peer.neighbours, peer.neighboursAt) = (known.neighbours, known.neighboursAt) }
    (peer.version, peer.metAt) = (known.version, known.metAt)
    (peer.passedOnAt, peer.newsPassedOn, peer.heldBack) = (known.passedOnAt, known.newsPassedOn, known.heldBack)
    (peer.knownBefore, peer.isPinKept, peer.farHops) = (known.knownBefore, known.isPinKept, known.farHops)
    peer.isKeyProven = known.isKeyProven
    peers[id] = peer
    let isSame =
      peer.nickname == known.nickname && peer.capabilities == known.capabilities && peer.hops == known.hops
      && peer.speaksSeed == known.speaksSeed && peer.isEarshot == known.isEarshot
      && peer.longestWrite == known.longestWrite
    return (isSame ? .same : .changed, [])
  }

  /// The key that a peer's announces are signed with; nil for one that is not in the table.
  func signingKey(of id: PeerID) -> Ed25519.PublicKey? { peers.place(of: id).map { peers.values[$0].signingKey } }

  /// Takes in an announce whose signature holds and that says what the last one said.
  ///
  /// - Returns: whether the peer is at another distance than before, and whether an announce of it has gone on within
  ///   `burst`; nil for one that is not in the table.
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

  /// Notes the number of hops of a relayed announce.
  mutating func noteFar(_ id: PeerID, hops: Int) { peers.update(id) { $0.farHops = UInt8(clamping: hops) } }

  /// An announce of the peer that says something new is to go on.
  ///
  /// - Returns: whether it may: three of one peer in a row do, and then one in each `burst`, until no announce of it has gone on for
  ///   three times as long. That a peer leaves is news as well.
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

  /// Notes that an announce was not relayed because of copies.
  mutating func holdBack(_ id: PeerID) { peers.update(id) { $0.heldBack = min($0.heldBack + 1, Self.mostHeldBack) } }

  mutating func sentOn(_ id: PeerID) { peers.update(id) { $0.heldBack = 0 } }

  /// Whether the next announce needs copies from more neighbours to be cancelled.
  func isHeldBack(_ id: PeerID) -> Bool {
    peers.place(of: id).map { peers.values[$0].heldBack >= Self.mostHeldBack } ?? false
  }

  /// Something of a peer was heard, and its signature holds or its keys opened it.
  mutating func hear(_ id: PeerID, version: PacketVersion? = nil, at now: Instant) {
    peers.update(id) { peer in
      peer.heardAt = now
      if version == .v2 { peer.version = .v2 }
    }
  }

  /// Pins the signing key that a peer has proven inside Noise, instead of any other.
  ///
  /// - Returns: whether the peer was in the table with another key. It is removed then, because its announces are an attacker's.
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

  /// Whether a peer's key is to be kept for the next run: it is an acquaintance, or matters to the user, and has not been kept since
  /// the peer is here. Of one that is away nobody knows here whether it was.
  func isPinDue(_ id: PeerID) -> Bool {
    guard let place = peers.place(of: id) else { return precious.contains(id) && pins.place(of: id) != nil }
    // The one that an earlier run has kept may be another one.
    let isOld = peers.values[place].isAcquaintance || peers.values[place].knownBefore >= Self.acquaintance
    return !peers.values[place].isPinKept && (isOld || precious.contains(id))
  }

  mutating func keptPin(of id: PeerID) { peers.update(id) { $0.isPinKept = true } }

  /// Restores what an earlier run knew of a peer. Whoever is here under another key is not that peer.
  mutating func restorePin(_ id: PeerID, _ signingKey: Ed25519.PublicKey, isProven: Bool, at now: Instant) {
    if let here = self.signingKey(of: id) {
      guard here != signingKey else { return }
      peers[id] = nil
    }
    pins[id] = Pin(signingKey: signingKey, isProven: isProven, heardAt: now, knownFor: Self.restored)
    dropPins(but: id)
  }

  /// The same for the Noise key of a peer that has a pin.
  mutating func restoreNoiseKey(_ id: PeerID, _ key: X25519.PublicKey) { pins.update(id) { $0.noiseKey = key } }

  /// Says whether a peer matters to the user.
  mutating func hold(_ id: PeerID, _ isPrecious: Bool) {
    if isPrecious { precious.insert(id) } else { precious.remove(id) }
  }

  /// The time of the newest thing that a peer said of itself: its announce, or that it leaves; 0 for one that is not known.
  func newest(of id: PeerID) -> UInt64 {
    if let place = peers.place(of: id) { return peers.values[place].announcedAt }
    return pins.place(of: id).map { pins.values[$0].leftAt } ?? 0
  }

  /// A peer has said that it leaves.
  mutating func leave(_ id: PeerID, at time: UInt64) {
    forget(id)
    pins.update(id) { $0.leftAt = time }
  }

  /// Forgets a peer; its pin stays unless `withPin`.
  mutating func forget(_ id: PeerID, withPin: Bool = false) {
    if let peer = peers[id] {
      peers[id] = nil
      pins[id] = Pin(
        signingKey: peer.signingKey, isProven: peer.isKeyProven, heardAt: peer.heardAt, knownFor: peer.knownFor,
        noiseKey: peer.noiseKey)
    }
    if withPin { pins[id] = nil }
  }

  /// Forgets the peers that were not heard since then.
  ///
  /// - Returns: those.
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

  /// How much it is worth to have a peer at hand: favourites and verified peers come before acquaintances, and these before
  /// strangers.
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
      capabilities: announcement.capabilities ?? [], speaksSeed: announcement.speaksSeed,
      neighbours: announcement.neighbours ?? [], neighboursAt: announcement.neighbours == nil ? nil : now,
      announcedAt: time, heardAt: now, metAt: now, hops: hops)
    (isEarshot, saysNeighbours) = (announcement.isEarshot, announcement.neighbours != nil)
    (longestWrite, courierPlaces) = (announcement.longestWrite, announcement.courierPlaces)
  }
}
