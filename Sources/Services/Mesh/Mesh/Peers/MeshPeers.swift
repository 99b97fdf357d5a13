import Bitchat
import BitchatWire
import Common
import Crypto
import DBus
import Journal
import Loop
import MeshNaming
import MeshStore

/// A peer as the engine knows it, with the marks that the store has of it.
struct KnownPeer {
  let id: PeerID
  var nickname: String
  var fingerprint: Fingerprint?
  var isDirect: Bool
  /// Number of hops; 0 if the peer is not in range.
  var hops: Int
  /// Time of the last contact, in milliseconds since 1970; 0 if unknown.
  var seenAt: UInt64
  var hasSession: Bool
  var marks: PeerMarks
  /// Whether a person has compared the fingerprint, and the peer has proven its signing key.
  var isVerified = false
}

/// Known peers: those active recently, and those with stored marks. Their names, troubles and proofs.
@LoopActor
final class MeshPeers {
  /// Maximum number of peers whose marks (favourite, verified, blocked, contact) are stored.
  static let marksLimit = 1024
  /// Maximum renames per peer and minute that are reported.
  static let renamesPerMinute = 6
  /// Maximum peers that are added to the store per minute because of public messages. Anybody can invent identities
  /// and write such messages.
  static let writersPerMinute = 60
  /// Maximum favourite notices of one peer that wait for the store.
  private static let noticesLimit = 4
  /// Minimum interval between two writes of a marked peer's nickname and time of last contact, in milliseconds.
  private static let seenMilliseconds: UInt64 = 60_000
  /// Minimum interval between two such writes for peers without marks of the user, in milliseconds. There are many of
  /// these peers.
  private static let contactMilliseconds: UInt64 = 600_000
  /// Minimum interval between two writes of one peer, in milliseconds.
  private static let newsMilliseconds: UInt64 = 1000

  private let node: MeshNode
  /// Notifies of added, changed and removed peers.
  let changes = Observers<PeerID>()
  /// Notifies of new nicknames of favourite and verified peers.
  let renames = Observers<(peer: PeerID, before: String, now: String)>()

  private(set) var marks: [PeerID: PeerMarks] = [:]
  /// Peers whose changed marks wait to be stored, because each is stored at most once a second.
  private(set) var unkeptNews: Set<PeerID> = []
  private lazy var newsTimer = Deadline(node.scheduler) { [weak self] in self?.keepNews() }
  /// Favourite notices that are not stored yet.
  private(set) var unkeptNotices: [PeerID: [BitchatWire.MessageID]] = [:]
  /// Reasons why packets or files of peers are rejected.
  private var troubles = PeerTroubles()
  private lazy var troubleTimer = Deadline(node.scheduler) { [weak self] in self?.dropTroubles() }
  /// Results of the proofs that programs requested by `Verify` and `VerifyCode`.
  private(set) var proofs = ProofResults()
  /// Limits the peers that are added to the store because of public messages.
  private var writersNoted = RateLimiter<Bool>(perMinute: MeshPeers.writersPerMinute, capacity: 1)
  /// Limits the reported renames per peer.
  private var renamesTold = RateLimiter<PeerID>(perMinute: MeshPeers.renamesPerMinute, capacity: 256)

  init(_ node: MeshNode) {
    self.node = node
  }

  /// Restores the marks of an earlier run, and reports them to the engine.
  func restore(_ kept: [PeerMarks], in engine: inout MeshEngine) {
    let (now, time) = (node.now, node.time)
    for marks in kept where marks.isMarked {
      // Earlier releases did not store the name that a peer had when it was verified.
      var marks = marks
      if marks.isVerified, marks.verifiedName.isEmpty { marks.verifiedName = marks.nickname }
      marks.holdName()
      remember(marks)
      if let key = marks.noiseKey { engine.restoreNoiseKey(of: marks.peer, key) }
      engine.restore(favourite: marks.peer, marks.isFavourite, isNoticed: !marks.isNoticeOwed, at: now)
      if marks.isBlocked { _ = engine.handle(.block(marks.peer, true), at: now, time: time) }
      if marks.isVerified { _ = engine.handle(.verified(marks.peer, true), at: now, time: time) }
      if marks.isFavouriteOfPeer { engine.favour(by: marks.peer, true) }
      if !marks.uplinkKey.isEmpty { engine.note(uplinkKey: marks.uplinkKey, of: marks.peer, at: now) }
      if marks.noticedAt > 0 { engine.note(noticeTime: marks.noticedAt, of: marks.peer) }
    }
  }

  /// Sets the marks of a peer without a change in the store.
  func remember(_ marks: PeerMarks) { self.marks[marks.peer] = marks }

  /// Forgets all marks, problems and proof results, before a wipe.
  func forgetAll() {
    (marks, unkeptNotices) = ([:], [:])
    (proofs, troubles) = (ProofResults(), PeerTroubles())
  }

  // MARK: Properties of a peer

  /// All peers with marks, in range, or with a reported problem, sorted by ID.
  var known: [PeerID] {
    let near = node.engine?.peers.map(\.id) ?? []
    return Set(near).union(marks.keys).union(troubles.peers(at: node.now)).sorted()
  }

  func view(of id: PeerID) -> KnownPeer? {
    let (engine, marks) = (node.engine, marks[id])
    guard let peer = engine?.peer(id) else {
      if marks == nil, let trouble = troubles.entry(of: id, at: node.now) {
        return KnownPeer(
          id: id, nickname: trouble.nickname, fingerprint: nil, isDirect: false, hops: 0, seenAt: 0, hasSession: false,
          marks: PeerMarks(peer: id))
      }
      return marks.map {
        KnownPeer(
          id: id, nickname: $0.nickname, fingerprint: $0.noiseKey.map { Fingerprint(noiseKey: $0) }, isDirect: false,
          hops: 0, seenAt: $0.seenAt, hasSession: false, marks: $0, isVerified: isVerified(id))
      }
    }
    let isDirect = engine?.isNeighbour(id) ?? false
    let age = peer.heardAt.duration(to: node.now) / .milliseconds(1)
    let time = node.time
    return KnownPeer(
      id: id, nickname: peer.nickname, fingerprint: peer.fingerprint, isDirect: isDirect,
      // A neighbour whose link has ended is not in range until it is received over another.
      hops: isDirect ? 1 : peer.hops > 1 ? peer.hops : 0, seenAt: time - min(time, UInt64(max(0, age))),
      hasSession: engine?.hasSession(with: id) ?? false, marks: marks ?? PeerMarks(peer: id),
      isVerified: isVerified(id))
  }

  /// Whether a person has compared the fingerprint, which covers the Noise key only, and the peer has proven its
  /// signing key inside Noise.
  func isVerified(_ peer: PeerID) -> Bool { node.engine?.isVerified(peer) ?? false }

  // MARK: Names

  /// Names of all known peers, and of this node.
  var nameBook: MeshNameIndex {
    var book = MeshNameIndex()
    for peer in known {
      let marks = marks[peer]
      book.add(
        peer.description, nickname: name(of: peer), verifiedName: marks?.verifiedName ?? "",
        nicknameHistory: marks?.nicknameHistory ?? [])
    }
    if let own = node.engine?.identity.id { book.add(own: own.description, nickname: node.nickname) }
    return book
  }

  func name(of peer: PeerID) -> String { node.engine?.peer(peer)?.nickname ?? marks[peer]?.nickname ?? "" }

  /// Resolves a text to a peer: ``MeshNameIndex/peer(_:)``.
  func peer(called text: String) throws(MeshRefusal) -> PeerID {
    // An ID is resolved without names.
    if let id = MeshNameIndex.id(text), let peer = try? PeerID(text: id) { return peer }
    let id: String
    do throws(MeshNameRefusal) { id = try nameBook.peer(text) } catch { throw .name(error) }
    guard let peer = try? PeerID(text: id) else { throw .name(MeshNameRefusal(unknown: text)) }
    return peer
  }

  /// Reports a new nickname of a favourite or verified peer.
  private func tellRename(_ before: PeerMarks, _ now: PeerMarks) {
    guard now.isTrusted, before.isTrusted, !before.nickname.isEmpty,
      !NicknameText.isSame(before.nickname, now.nickname), renamesTold.allow(now.peer, at: node.now)
    else { return }
    renames.call((now.peer, before.nickname, now.nickname))
  }

  // MARK: Marks of the user

  func favourite(_ peer: PeerID, _ isFavourite: Bool) throws(DBusError) {
    if isFavourite { try makeRoom(for: peer) }
    guard (marks[peer]?.isFavourite ?? false) != isFavourite else { return }
    // The engine may report at once that the peer has the notice.
    mark(peer) { ($0.isFavourite, $0.isNoticeOwed) = (isFavourite, true) }
    node.handle(.favourite(peer, isFavourite))
  }

  /// Records that the peer has acknowledged the favourite notice.
  func noticeSettled(_ peer: PeerID) {
    if marks[peer]?.isNoticeOwed == true { mark(peer) { $0.isNoticeOwed = false } }
  }

  func block(_ peer: PeerID, _ isBlocked: Bool) throws(DBusError) {
    if isBlocked { try makeRoom(for: peer) }
    node.handle(.block(peer, isBlocked))
    mark(peer) { $0.isBlocked = isBlocked }
  }

  func verify(_ peer: PeerID, _ isVerified: Bool) throws(DBusError) {
    if isVerified { try makeRoom(for: peer) }
    mark(peer) {
      $0.isVerified = isVerified
      $0.verifiedName = isVerified ? $0.nickname : ""
    }
    node.handle(.verified(peer, isVerified))
    if isVerified, node.engine?.awaitsProof(of: peer) == true { proofs.ask(peer, byCode: proofs.isByCode(peer)) }
    changes.call(peer)
  }

  /// Marks a peer as verified by its fingerprint; an empty text revokes that.
  func verify(_ peer: PeerID, fingerprint text: String) throws(DBusError) {
    guard !text.isEmpty else { return try verify(peer, false) }
    guard let fingerprint = try? Fingerprint(text: PastedText.unbroken(text)) else {
      throw .invalidArgs("A fingerprint has 64 hexadecimal digits.")
    }
    guard let known = view(of: peer)?.fingerprint else {
      throw .invalidArgs("The peer's fingerprint is not known yet: the peer has to be in range once.")
    }
    guard known == fingerprint else {
      throw .invalidArgs("The fingerprint does not match the peer's: the peer is somebody else.")
    }
    try verify(peer, true)
  }

  func forget(_ peer: PeerID) {
    node.handle(.forget(peer))
    troubles.forget(peer)
    marks[peer] = nil
    proofs.forget(peer)
    node.keep([.forget(peer)])
    changes.call(peer)
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
    if let known = node.engine?.peer(peer) {
      (marks.nickname, marks.noiseKey, marks.seenAt) = (known.nickname, known.noiseKey, node.time)
    }
    change(&marks)
    marks.holdName()
    guard self.marks[peer] != nil || marks.isMarked && makePlace(for: marks) else { return then() }
    self.marks[peer] = marks.isMarked ? marks : nil
    node.keep([.peer(marks)]) { error in if error == nil { then() } }
    changes.call(peer)
    tellRename(before, marks)
  }

  /// Ensures capacity for a peer that the user marks, if necessary by evicting a peer without marks of the user.
  private func makeRoom(for peer: PeerID) throws(DBusError) {
    guard marks[peer] == nil, !makePlace(for: PeerMarks(peer: peer, isFavourite: true)) else { return }
    throw .limitExceeded(
      "\(Self.marksLimit) peers are already favourites, verified or blocked. Remove one of these marks first.")
  }

  /// Ensures capacity for one more peer. At the limit, it evicts the peer of the lowest rank that was seen least
  /// recently, unless that rank is above the new peer's.
  ///
  /// - Returns: whether there is capacity.
  private func makePlace(for new: PeerMarks) -> Bool {
    guard marks.count >= Self.marksLimit else { return true }
    let others = marks.values.filter { $0.rank != .chosen && $0.rank <= new.rank }
    guard let last = others.min(by: { ($0.rank, $0.seenAt, $0.peer) < ($1.rank, $1.seenAt, $1.peer) })?.peer else {
      return false
    }
    marks[last] = nil
    node.keep([.peer(PeerMarks(peer: last))])
    changes.call(last)
    return true
  }

  // MARK: Contacts

  /// Stores the name of a peer that has sent or received a message or a file, so that it stays known after it leaves.
  ///
  /// - Parameter nickname: name received with the message, for a peer that has left since.
  func noteContact(_ peer: PeerID, _ contact: PeerMarks.Contacts, nickname: String = "") {
    guard peer != node.ownID, marks[peer]?.contacts.isSuperset(of: contact) != true else { return }
    if marks[peer] == nil, contact == .wrotePublicly, !writersNoted.allow(true, at: node.now) { return }
    mark(peer) {
      $0.contacts.formUnion(contact)
      if $0.nickname.isEmpty { $0.nickname = nickname }
      if $0.seenAt == 0 { $0.seenAt = node.time }
    }
  }

  /// Handles a new or changed peer. The store gets changes at most once a second.
  func met(_ peer: PeerID) {
    if troubles.heard(peer) { node.changed() }
    if let marks = marks[peer], let known = node.engine?.peer(peer) {
      let isSame = marks.nickname == known.nickname && marks.noiseKey == known.noiseKey
      guard marks.rank == .chosen || marks.isFavouriteOfPeer else { return metContact(marks, known.nickname) }
      if sinceSeen(marks) >= (isSame ? Self.seenMilliseconds : Self.newsMilliseconds) {
        mark(peer) { _ in }
      } else if !isSame, unkeptNews.insert(peer).inserted, unkeptNews.count == 1 {
        newsTimer.set(node.now.advanced(by: .milliseconds(Int64(Self.newsMilliseconds))))
      }
    }
    changes.call(peer)
  }

  /// Updates a peer without marks of the user; it is written every ten minutes, and when it leaves.
  private func metContact(_ marks: PeerMarks, _ nickname: String) {
    self.marks[marks.peer]?.nickname = nickname
    if sinceSeen(marks) >= Self.contactMilliseconds {
      mark(marks.peer) { _ in }
    } else {
      changes.call(marks.peer)
    }
  }

  /// Writes the changes that had to wait for the minimum interval.
  private func keepNews() {
    let peers = unkeptNews
    unkeptNews = []
    for peer in peers where marks[peer] != nil { mark(peer) { _ in } }
  }

  /// Milliseconds since the last write; the maximum if the clock was set back.
  private func sinceSeen(_ marks: PeerMarks) -> UInt64 {
    node.time >= marks.seenAt ? node.time - marks.seenAt : .max
  }

  /// Handles a peer that has left, timed out or was evicted.
  func gone(_ peer: PeerID) {
    if let marks = marks[peer], sinceSeen(marks) >= Self.newsMilliseconds, let heardAt = node.engine?.heardAt(of: peer)
    {
      let age = heardAt.duration(to: node.now) / .milliseconds(1)
      let time = node.time
      mark(peer) { $0.seenAt = max($0.seenAt, time - min(time, UInt64(max(0, age)))) }
    }
    changes.call(peer)
  }

  // MARK: Favourite notices

  /// Handles a favourite notice of a peer, which gets a receipt once it is stored.
  func favourited(_ peer: PeerID, _ notice: FavoriteNotice, _ id: BitchatWire.MessageID) {
    // Many may wait while the store hangs. A sender without a receipt repeats its notice.
    guard unkeptNotices.count < Self.marksLimit, unkeptNotices[peer, default: []].count < Self.noticesLimit else {
      return node.handle(.notTaken(id, from: peer))
    }
    unkeptNotices[peer, default: []].append(id)
    let noticedAt = node.engine?.noticeTime(of: peer, at: node.time) ?? 0
    mark(
      peer, then: { [weak self] in self?.keptNotice(id, from: peer) },
      {
        $0.isFavouriteOfPeer = notice.isFavorite
        // A notice without a key does not revoke an earlier one.
        if let key = notice.npub { $0.uplinkKey = key }
        if noticedAt > 0 { $0.noticedAt = noticedAt }
      })
  }

  /// Whether a notice with this ID waits for the store.
  func isNoticeUnkept(_ id: BitchatWire.MessageID, from peer: PeerID) -> Bool {
    unkeptNotices[peer]?.contains(id) == true
  }

  /// Stores the waiting notices again after a recovery of the store, and acknowledges them.
  func acknowledgeUnkept() {
    for (peer, ids) in unkeptNotices {
      for id in ids { keepNotice(id, from: peer) }
    }
  }

  /// Stores the marks from a favourite notice again, after the store has refused them.
  private func keepNotice(_ id: BitchatWire.MessageID, from peer: PeerID) {
    guard let marks = marks[peer] else { return keptNotice(id, from: peer) }
    node.keep([.peer(marks)]) { [weak self] error in if error == nil { self?.keptNotice(id, from: peer) } }
  }

  private func keptNotice(_ id: BitchatWire.MessageID, from peer: PeerID) {
    guard let place = unkeptNotices[peer]?.firstIndex(of: id) else { return }
    unkeptNotices[peer]?.remove(at: place)
    if unkeptNotices[peer]?.isEmpty == true { unkeptNotices[peer] = nil }
    node.handle(.kept(id, from: peer))
  }

  // MARK: Troubles

  /// Records that a packet or file of a peer is rejected.
  func note(_ trouble: PeerTroubles.Trouble, of peer: PeerID, nickname: String) {
    let peers = troubles.note(trouble, of: peer, nickname: nickname, at: node.now)
    troublesChanged(of: peers)
  }

  /// Records that the link of an unknown peer was cut because the peer did not announce itself.
  func noteUnknownCut() {
    troubles.noteUnknownCut(at: node.now)
    node.changed()
  }

  /// Ends the troubles that were not noted again in time. The D-Bus object of an otherwise unknown peer is removed with
  /// its trouble.
  private func dropTroubles() {
    let peers = troubles.takeExpired(at: node.now)
    troublesChanged(of: peers)
  }

  private func troublesChanged(of peers: [PeerID]) {
    troubleTimer.set(troubles.deadline)
    guard !peers.isEmpty else { return }
    for peer in peers { changes.call(peer) }
    node.changed()
  }

  /// Reason why packets or files of a peer are rejected, in a sentence; otherwise empty.
  func trouble(of peer: PeerID) -> String { troubles.entry(of: peer, at: node.now)?.trouble.sentence ?? "" }

  /// Summary of the troubles in sentences that name no peer; nil without troubles.
  var troubleSummary: String? { troubles.summary(at: node.now) }

  // MARK: Proofs

  /// Asks the owner of a verification code for a proof; `proofs` has the result.
  ///
  /// - Parameter reason: problem of the node, for a refusal.
  /// - Returns: the peer.
  func verify(code text: String, reason: String) throws(DBusError) -> PeerID {
    guard let code = try? VerificationCode(reading: PastedText.unbroken(text)) else {
      throw .invalidArgs("The text is not a verification code: a code begins with bitchat://verify?")
    }
    guard code.isSigned else { throw .invalidArgs("The signature of the code is invalid: the code was changed.") }
    guard code.isFresh(at: node.clock.seconds) else {
      throw .invalidArgs("The code is older than five minutes. Read a new one.")
    }
    let peer = code.peerID
    guard node.engine != nil else { throw .notReady(reason) }
    let actions: [MeshEngine.Action]
    do throws(MeshEngine.ChallengeError) {
      actions = try node.engine?.challenge(peer, signingKey: code.signingKey, at: node.now, time: node.time) ?? []
    } catch {
      throw DBusError(error, reason: reason)
    }
    proofs.ask(peer, byCode: true)
    changes.call(peer)
    node.perform(actions)
    return peer
  }

  /// Handles the result of a proof. Only a successful one marks the peer as verified; a failed one revokes nothing.
  func proved(_ peer: PeerID, _ outcome: MeshEngine.ProofOutcome) {
    proofs.note(ProofResults.ProofState(outcome), of: peer)
    changes.call(peer)
    // A fingerprint counts when it was compared, a code when it is proven.
    if outcome == .proven, proofs.isByCode(peer) || marks[peer]?.isVerified != true {
      do throws(DBusError) { try verify(peer, true) } catch {
        Log.shared.warning(
          "A peer has proven its code, but cannot be marked as verified: \(error)", .protocolName("bitchat"))
      }
    }
    // The journal does not name the peer: peers in range are visible to the group only.
    if outcome == .wrong, node.mayLog(.proof) {
      Log.shared.warning(
        "A peer could not prove that its verification code is its own", id: .meshProofWrong, .protocolName("bitchat"))
    }
  }

  /// Text of this node's verification QR code; nil while the identity is unknown.
  func verificationCode() -> String? {
    guard let identity = node.engine?.identity else { return nil }
    var random = node.makeRandom()
    let code = try? VerificationCode(
      noiseKey: identity.noiseKey.publicKey, key: identity.signingKey, nickname: node.nickname,
      npub: node.engine?.uplinkKey, seconds: node.clock.seconds, randomFrom: &random)
    return code?.text
  }
}

extension PeerMarks {
  /// Stores the nickname of a trusted peer. Drops the stored names of a peer that is not trusted.
  mutating func holdName() {
    guard isTrusted else {
      (nicknameHistory, verifiedName) = ([], "")
      return
    }
    guard !nickname.isEmpty, !nicknameHistory.contains(where: { NicknameText.isSame($0, nickname) }) else { return }
    nicknameHistory = Array((nicknameHistory + [nickname]).suffix(Self.nicknameHistoryLimit))
  }
}

extension DBusError {
  fileprivate init(_ error: MeshEngine.ChallengeError, reason: String) {
    switch error {
    case .relayOnly: self = DBusError(.notSupported, MeshRefusal.relay.sentence)
    case .notReady: self = .notReady(reason.isEmpty ? "The mesh is not ready." : reason)
    case .ourselves: self = .invalidArgs("The code is this node's own.")
    case .notNear: self = DBusError(.notFound, "The peer of this code is not in range.")
    case .otherKey:
      self = .invalidArgs(
        "The peer of this code signs with a different key than the code's: it is somebody else.")
    case .blocked: self = .invalidArgs("The peer of this code is blocked.")
    case .tooMany:
      self = .limitExceeded(
        "Too many peers have yet to answer a request for proof. Try again in half a minute.")
    }
  }
}
