import Bitchat
import Common
import Crypto
import DBus
import Journal
import Loop
import MeshStore

/// Known peers: those active recently, and those with stored marks.
extension MeshService {
  /// Maximum peers with stored marks.
  static let marksLimit = 1024
  /// Maximum notices per peer that wait for the store.
  private static let noticesLimit = 4
  /// Minimum interval, in milliseconds, between writes of a peer's nickname and time of last contact.
  private static let seenMilliseconds: UInt64 = 60_000
  /// Minimum interval, in milliseconds, for peers without marks of the user, which are many.
  private static let contactMilliseconds: UInt64 = 600_000
  private static let newsMilliseconds: UInt64 = 1000

  /// Known properties of a peer.
  struct View {
    let id: PeerID
    var nickname: String
    var fingerprint: Fingerprint?
    var isDirect: Bool
    /// Number of hops; 0 if the peer is not in range.
    var hops: Int
    /// Milliseconds since 1970; 0 if unknown.
    var seenAt: UInt64
    var hasSession: Bool
    var marks: PeerMarks
    /// Whether a person has compared the fingerprint, and the peer has proven its signing key.
    var isVerified = false
  }

  /// All peers, sorted by ID.
  var knownPeers: [PeerID] {
    let near = engine?.peers.map(\.id) ?? []
    return Set(near).union(marks.keys).union(troubles.peers(at: scheduler.now)).sorted()
  }

  func view(of id: PeerID) -> View? {
    let marks = marks[id]
    guard let peer = engine?.peer(id) else {
      if marks == nil, let trouble = troubles.entry(of: id, at: scheduler.now) {
        return View(
          id: id, nickname: trouble.nickname, fingerprint: nil, isDirect: false, hops: 0, seenAt: 0, hasSession: false,
          marks: PeerMarks(peer: id))
      }
      return marks.map {
        View(
          id: id, nickname: $0.nickname, fingerprint: $0.noiseKey.map { Fingerprint(noiseKey: $0) }, isDirect: false,
          hops: 0, seenAt: $0.seenAt, hasSession: false, marks: $0, isVerified: isVerified(id))
      }
    }
    let isDirect = engine?.isNeighbour(id) ?? false
    let age = peer.heardAt.duration(to: scheduler.now) / .milliseconds(1)
    return View(
      id: id, nickname: peer.nickname, fingerprint: peer.fingerprint, isDirect: isDirect,
      // A neighbour whose link has ended is not in range until it is received over another.
      hops: isDirect ? 1 : peer.hops > 1 ? peer.hops : 0, seenAt: time - min(time, UInt64(max(0, age))),
      hasSession: engine?.hasSession(with: id) ?? false, marks: marks ?? PeerMarks(peer: id),
      isVerified: isVerified(id))
  }

  /// Whether a person has compared the fingerprint, which covers the Noise key only, and the peer has proven its
  /// signing key inside Noise.
  func isVerified(_ peer: PeerID) -> Bool { engine?.isVerified(peer) ?? false }

  /// Signal strength of a peer in dBm; nil if unknown.
  func rssi(of peer: PeerID) -> Int? {
    let port = ports.values.first { $0.peer == peer }
    return port.flatMap { finder.rssi(of: $0.address) } ?? finder.rssi(of: peer)
  }

  // MARK: User actions

  func favourite(_ peer: PeerID, _ isFavourite: Bool) throws(DBusError) {
    if isFavourite { try makeRoom(for: peer) }
    guard (marks[peer]?.isFavourite ?? false) != isFavourite else { return }
    // The engine may report at once that the peer has the notice.
    mark(peer) { ($0.isFavourite, $0.isNoticeOwed) = (isFavourite, true) }
    handle(.favourite(peer, isFavourite))
  }

  /// Records that the peer has acknowledged the favourite notice.
  func noticeSettled(_ peer: PeerID) {
    if marks[peer]?.isNoticeOwed == true { mark(peer) { $0.isNoticeOwed = false } }
  }

  func block(_ peer: PeerID, _ isBlocked: Bool) throws(DBusError) {
    if isBlocked { try makeRoom(for: peer) }
    handle(.block(peer, isBlocked))
    mark(peer) { $0.isBlocked = isBlocked }
    guard isBlocked else { return }
    // Earlier messages of the peer are marked as seen without receipts.
    let seen = log.markAllSeen(from: peer)
    guard !seen.isEmpty else { return }
    keep(seen.map { .message($0) })
    changed()
  }

  func verify(_ peer: PeerID, _ isVerified: Bool) throws(DBusError) {
    if isVerified { try makeRoom(for: peer) }
    mark(peer) {
      $0.isVerified = isVerified
      $0.verifiedName = isVerified ? $0.nickname : ""
    }
    handle(.verified(peer, isVerified))
    if isVerified, engine?.awaitsProof(of: peer) == true { proofs.ask(peer, byCode: proofs.isByCode(peer)) }
    peerChanges.call(peer)
  }

  /// Records that something from a peer is rejected.
  func note(_ trouble: PeerTroubles.Trouble, of peer: PeerID, nickname: String) {
    let peers = troubles.note(trouble, of: peer, nickname: nickname, at: scheduler.now)
    troubleTimer.set(troubles.deadline)
    guard !peers.isEmpty else { return }
    for peer in peers { peerChanges.call(peer) }
    changed()
  }

  /// Ends the troubles that were not noted again in time. The object of a peer that is otherwise unknown goes with its
  /// trouble.
  func dropTroubles() {
    let peers = troubles.takeExpired(at: scheduler.now)
    troubleTimer.set(troubles.deadline)
    guard !peers.isEmpty else { return }
    for peer in peers { peerChanges.call(peer) }
    changed()
  }

  /// Reason why something from a peer is rejected, in a sentence; otherwise empty.
  func trouble(of peer: PeerID) -> String {
    troubles.entry(of: peer, at: scheduler.now)?.trouble.sentence ?? ""
  }

  func forget(_ peer: PeerID) {
    handle(.forget(peer))
    troubles.forget(peer)
    marks[peer] = nil
    proofs.forget(peer)
    keep([.forget(peer)])
    peerChanges.call(peer)
  }

  /// Handles a favourite notice of a peer, which gets a receipt once it is stored.
  func favourited(_ peer: PeerID, _ notice: FavoriteNotice, _ id: Bitchat.MessageID) {
    // Many may wait while the store hangs. A sender without a receipt repeats its notice.
    guard unkeptNotices.count < Self.marksLimit, unkeptNotices[peer, default: []].count < Self.noticesLimit else {
      return handle(.notTaken(id, from: peer))
    }
    unkeptNotices[peer, default: []].append(id)
    mark(peer, then: { [weak self] in self?.keptNotice(id, from: peer) }, { $0.isFavouriteOfPeer = notice.isFavorite })
  }

  /// Stores the content of a notice again.
  func keepNotice(_ id: Bitchat.MessageID, from peer: PeerID) {
    guard let marks = marks[peer] else { return keptNotice(id, from: peer) }
    keep([.peer(marks)]) { [weak self] error in if error == nil { self?.keptNotice(id, from: peer) } }
  }

  private func keptNotice(_ id: Bitchat.MessageID, from peer: PeerID) {
    guard let place = unkeptNotices[peer]?.firstIndex(of: id) else { return }
    unkeptNotices[peer]?.remove(at: place)
    if unkeptNotices[peer]?.isEmpty == true { unkeptNotices[peer] = nil }
    handle(.kept(id, from: peer))
  }

  /// Handles a new or changed peer. The store gets changes at most once a second.
  func met(_ peer: PeerID) {
    if troubles.heard(peer) { changed() }
    if let marks = marks[peer], let known = engine?.peer(peer) {
      let isSame = marks.nickname == known.nickname && marks.noiseKey == known.noiseKey
      guard marks.rank == .chosen || marks.isFavouriteOfPeer else { return metContact(marks, known.nickname) }
      if sinceSeen(marks) >= (isSame ? Self.seenMilliseconds : Self.newsMilliseconds) {
        mark(peer) { _ in }
      } else if !isSame, unkeptNews.insert(peer).inserted, unkeptNews.count == 1 {
        newsTimer.set(scheduler.now.advanced(by: .milliseconds(Int64(Self.newsMilliseconds))))
      }
    }
    peerChanges.call(peer)
  }

  /// Updates a peer without marks of the user; it is written every ten minutes, and when it leaves.
  private func metContact(_ marks: PeerMarks, _ nickname: String) {
    self.marks[marks.peer]?.nickname = nickname
    if sinceSeen(marks) >= Self.contactMilliseconds {
      mark(marks.peer) { _ in }
    } else {
      peerChanges.call(marks.peer)
    }
  }

  /// Stores the changes that were delayed by the minimum interval.
  func keepNews() {
    let peers = unkeptNews
    unkeptNews = []
    for peer in peers where marks[peer] != nil { mark(peer) { _ in } }
  }

  /// Milliseconds since the last write; the maximum if the clock was set back.
  private func sinceSeen(_ marks: PeerMarks) -> UInt64 { time >= marks.seenAt ? time - marks.seenAt : .max }

  /// Handles a peer that has left, timed out or was evicted. A peer that has left has no link, though its connection
  /// may persist.
  func gone(_ peer: PeerID) {
    if let marks = marks[peer], sinceSeen(marks) >= Self.newsMilliseconds, let heardAt = engine?.heardAt(of: peer) {
      let age = heardAt.duration(to: scheduler.now) / .milliseconds(1)
      mark(peer) { $0.seenAt = max($0.seenAt, time - min(time, UInt64(max(0, age)))) }
    }
    peerChanges.call(peer)
    let itsPorts = ports.values.filter { $0.peer == peer }
    // An evicted peer still has its links.
    guard !itsPorts.isEmpty, engine?.isNeighbour(peer) == false else { return }
    for port in itsPorts { port.peer = nil }
    changed()
  }

  /// Changes the stored marks of a peer, or removes them if none is left.
  ///
  /// - Parameters:
  ///   - then: called when the change is stored.
  ///   - change: edits the current marks.
  func mark(
    _ peer: PeerID, then: @escaping @LoopActor () -> Void = {}, _ change: (inout PeerMarks) -> Void
  ) {
    var marks = marks[peer] ?? PeerMarks(peer: peer)
    let before = marks
    if let known = engine?.peer(peer) {
      (marks.nickname, marks.noiseKey, marks.seenAt) = (known.nickname, known.noiseKey, time)
    }
    change(&marks)
    marks.holdName()
    guard self.marks[peer] != nil || marks.isMarked && makePlace(for: marks) else { return then() }
    self.marks[peer] = marks.isMarked ? marks : nil
    keep([.peer(marks)]) { error in if error == nil { then() } }
    peerChanges.call(peer)
    tellRename(before, marks)
  }

  /// Ensures capacity for a mark of the user, if necessary by evicting a peer without such marks.
  private func makeRoom(for peer: PeerID) throws(DBusError) {
    guard marks[peer] == nil, !makePlace(for: PeerMarks(peer: peer, isFavourite: true)) else { return }
    throw .limitExceeded(
      "\(Self.marksLimit) peers are already favourites, verified or blocked. Remove one of these marks first.")
  }

  // MARK: This node

  public func setNickname(_ nickname: String) {
    chosenNickname = nickname
    engine?.configuration.nickname = nickname
    keep([.nickname(nickname)])
    handle(.timer)
    changed()
  }

  /// Announces this node now.
  public func announce() { handle(.announce) }

  /// Text of this node's verification QR code; nil while the identity is unknown.
  func verificationCode() -> String? {
    guard let identity = engine?.identity else { return nil }
    var random = makeRandom()
    let code = try? VerificationCode(
      noiseKey: identity.noiseKey.publicKey, key: identity.signingKey, nickname: nickname, seconds: clock.seconds,
      randomFrom: &random)
    return code?.text
  }
}
