import BitchatWire
import Common
import Crypto

/// Peers that were announced with two signing keys: the pinned key, which the peer has not proven, and a rival key.
///
/// A peer ID is the hash of the Noise key alone, so anybody can announce it with another signing key. Only the peer can
/// prove its key, inside Noise.
///
/// The limits on questions make forged announces cause few handshakes. Announces from one origin cause a question to a
/// peer at intervals of 10 s, doubled up to 10 min. One origin causes at most 4 questions in any minute, and all
/// origins 12. An announce from another origin is asked about at once, so that a forged announce does not delay the
/// peer itself.
struct Disputes: Sendable {
  /// The rival key, and the announce that brought it. The announce is handled when the peer proves the key.
  struct Rival: Sendable {
    let signingKey: Ed25519.PublicKey
    let announce: Arrival
    let origin: DeviceOrigin
    let heardAt: Instant
  }

  /// Maximum peers whose rivals are stored.
  static let limit = 64
  /// First pause between two questions to a peer that are caused by announces from one origin. Each pause is twice as
  /// long as the previous one, up to `longestPause`.
  static let firstPause = Duration.seconds(10)
  static let longestPause = Duration.seconds(600)
  /// Maximum questions per `span` caused by announces from one origin.
  static let questionsOfOrigin = 4
  /// Maximum questions per `span` caused by announces from all origins together.
  static let questions = 12
  private static let span = Duration.seconds(60)
  /// Maximum stored pauses between questions, one for each peer and origin of announces.
  private static let pauseLimit = 1024
  /// Maximum bytes of a stored announce.
  private static let announceBytes = 2048

  private struct Cause: Hashable, Comparable, Sendable {
    let peer: PeerID
    let origin: DeviceOrigin

    static func < (left: Self, right: Self) -> Bool { (left.peer, left.origin) < (right.peer, right.origin) }
  }

  private struct Pause: Sendable {
    var end: Instant
    var length: Duration
  }

  private var rivals: [PeerID: Rival] = [:]
  private var pauses: [Cause: Pause] = [:]
  /// Questions to peers that were sent in the last `span`, with the device that caused each.
  private var asked: [(origin: DeviceOrigin, at: Instant)] = []

  var count: Int { rivals.count }

  /// The rival key of a peer; nil without one.
  func rival(of peer: PeerID) -> Ed25519.PublicKey? { rivals[peer]?.signingKey }

  /// Stores an announce that is signed with another key than the pinned one.
  mutating func note(_ peer: PeerID, _ rival: Rival) {
    if rivals[peer] == nil, rivals.count >= Self.limit { makeRoom() }
    // The newest rival replaces an older one. An announce that is too long is not stored; the peer sends another one.
    if rival.announce.view.bytes.count <= Self.announceBytes { rivals[peer] = rival }
  }

  /// Returns whether the peer is asked for its key now, and counts the question if so.
  ///
  /// - Parameter origin: the device that brought the announce.
  mutating func mayAsk(_ peer: PeerID, because origin: DeviceOrigin, at now: Instant) -> Bool {
    asked.removeAll { $0.at.duration(to: now) >= Self.span }
    let cause = Cause(peer: peer, origin: origin)
    let pause = pauses[cause]
    guard pause.map({ $0.end <= now }) ?? true, asked.count < Self.questions,
      asked.count(where: { $0.origin == origin }) < Self.questionsOfOrigin
    else { return false }
    if pause == nil, pauses.count >= Self.pauseLimit {
      let first = pauses.min { ($0.value.end, $0.key) < ($1.value.end, $1.key) }?.key
      if let first { pauses[first] = nil }
    }
    let length = pause?.length ?? Self.firstPause
    asked.append((origin, now))
    pauses[cause] = Pause(end: now.advanced(by: length), length: min(length * 2, Self.longestPause))
    return true
  }

  /// Drops the oldest rival of the origin that announced the most of them.
  private mutating func makeRoom() {
    var counts: [DeviceOrigin: Int] = [:]
    for rival in rivals.values { counts[rival.origin, default: 0] += 1 }
    guard let busiest = counts.max(by: { ($0.value, $0.key) < ($1.value, $1.key) })?.key else { return }
    let oldest = rivals.filter { $0.value.origin == busiest }.min {
      ($0.value.heardAt, $0.key) < ($1.value.heardAt, $1.key)
    }
    if let oldest { rivals[oldest.key] = nil }
  }

  /// Ends the dispute: the peer has proven a key.
  ///
  /// - Returns: the rival with that key, if there is one.
  mutating func settle(_ peer: PeerID, _ signingKey: Ed25519.PublicKey) -> Rival? {
    forgetPauses(of: peer)
    guard let rival = rivals.removeValue(forKey: peer), rival.signingKey == signingKey else { return nil }
    return rival
  }

  mutating func forget(_ peer: PeerID) {
    rivals[peer] = nil
    forgetPauses(of: peer)
  }

  private mutating func forgetPauses(of peer: PeerID) { pauses = pauses.filter { $0.key.peer != peer } }
}
