import BitchatWire
import Common
import Crypto

/// Peers that this node asks for a signed proof that they own a signing key: either the key of a verification code,
/// or whichever key they have. Facts: bitchat.md section 11.
///
/// Each peer has one entry. Each question is a challenge with a new nonce, because phones answer a nonce only once.
/// An answer to any unanswered challenge counts.
struct AwaitedProofs: Sendable {
  /// Maximum number of peers that are asked at the same time.
  static let limit = 16
  /// Maximum attempts per peer. An attempt sends a challenge, or requests a session first if there is none.
  static let tries = 4
  /// Time from one attempt to get a proof of a peer to the next.
  static let pause = Duration.seconds(6)
  /// Maximum challenges per peer that may still be answered; the oldest are dropped first.
  private static let askedLimit = 8

  struct Entry: Sendable {
    let noiseKey: X25519.PublicKey
    /// Key of the verification code; nil if any key is accepted.
    let signingKey: Ed25519.PublicKey?
    var asked: [VerificationChallenge] = []
    var tries = 0
    var nextTry: Instant
  }

  private(set) var entries: [PeerID: Entry] = [:]

  var deadline: Instant? { entries.isEmpty ? nil : entries.values.map(\.nextTry).min() }
  var peers: [PeerID] { entries.keys.sorted() }
  var isEmpty: Bool { entries.isEmpty }
  var isFull: Bool { entries.count >= Self.limit }

  func isAwaited(_ peer: PeerID) -> Bool { entries[peer] != nil }

  /// Begins to ask a peer for its proof. If the peer is already being asked, its attempts are counted anew.
  mutating func begin(
    _ peer: PeerID, _ noiseKey: X25519.PublicKey, _ signingKey: Ed25519.PublicKey?, at now: Instant
  ) {
    var entry = Entry(noiseKey: noiseKey, signingKey: signingKey, nextTry: now)
    if let known = entries[peer], known.signingKey == signingKey { entry.asked = known.asked }
    entries[peer] = entry
  }

  /// Begins the next attempt if it is due.
  ///
  /// - Returns: nil if no attempt is due; otherwise whether it is the first, whether the last one has ended, and
  ///   whether an earlier question is unanswered.
  mutating func takeDue(_ peer: PeerID, at now: Instant) -> (isFirst: Bool, isLast: Bool, isUnanswered: Bool)? {
    guard var entry = entries[peer], entry.nextTry <= now else { return nil }
    guard entry.tries < Self.tries else { return (false, true, false) }
    entry.tries += 1
    entry.nextTry = now.advanced(by: Self.pause)
    entries[peer] = entry
    return (entry.tries == 1, false, !entry.asked.isEmpty)
  }

  /// Makes a new question for the peer, and restarts the time until the next attempt.
  mutating func ask(_ peer: PeerID, at now: Instant, randomFrom random: inout some RandomSource)
    -> VerificationChallenge?
  {
    guard let entry = entries[peer] else { return nil }
    let challenge = VerificationChallenge(noiseKey: entry.noiseKey, randomFrom: &random)
    entries[peer]?.asked = entry.asked.suffix(Self.askedLimit - 1) + [challenge]
    entries[peer]?.nextTry = now.advanced(by: Self.pause)
    return challenge
  }

  /// Result of checking a peer's answer to a challenge.
  enum Judgement: Hashable, Sendable {
    /// The answer is signed with this key.
    case shows(Ed25519.PublicKey)
    /// The answer is signed with another key.
    case wrong
  }

  /// Checks an answer.
  ///
  /// - Parameter keys: possible keys of the peer, used if any key is accepted.
  /// - Returns: nil if the answer belongs to no open question.
  func judge(_ response: VerificationResponse, from peer: PeerID, keys: [Ed25519.PublicKey]) -> Judgement? {
    guard let entry = entries[peer], let asked = entry.asked.first(where: { $0 == response.challenge }) else {
      return nil
    }
    let possible = entry.signingKey.map { [$0] } ?? keys
    return possible.first { response.answers(asked, key: $0) }.map { .shows($0) } ?? .wrong
  }

  /// Whether the peer is asked for a proof, and a proof of any signing key is accepted.
  func takesAnyKey(of peer: PeerID) -> Bool { entries[peer].map { $0.signingKey == nil } ?? false }

  mutating func end(_ peer: PeerID) { entries[peer] = nil }
}
