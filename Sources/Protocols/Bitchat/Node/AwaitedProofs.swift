import Common
import Crypto

/// Peers that are asked to prove their signing key: the key of a verification code, or any key. Facts: bitchat.md section 11.
///
/// There is one entry for a peer. It is asked again with another nonce each time, because phones answer no nonce twice, and
/// the answer to any of them counts.
struct AwaitedProofs: Sendable {
  /// The most peers that are asked at a time.
  static let limit = 16
  /// So often a peer is asked, or a session is asked for, with this pause behind each time.
  static let tries = 4
  static let pause = Duration.seconds(6)
  /// The most questions to a peer whose answers count.
  private static let askedLimit = 8

  struct Entry: Sendable {
    let noiseKey: X25519.PublicKey
    /// The key of the code; nil if any key is accepted.
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

  /// Has the peer asked from now on. One that is asked already has all its time again.
  mutating func begin(
    _ peer: PeerID, _ noiseKey: X25519.PublicKey, _ signingKey: Ed25519.PublicKey?, at now: Instant
  ) {
    var entry = Entry(noiseKey: noiseKey, signingKey: signingKey, nextTry: now)
    if let known = entries[peer], known.signingKey == signingKey { entry.asked = known.asked }
    entries[peer] = entry
  }

  /// Begins the next try, if it is due.
  ///
  /// - Returns: nil if it is not due; else whether this is the first try, whether the last try is over, and whether an earlier question was
  ///   not answered.
  mutating func takeDue(_ peer: PeerID, at now: Instant) -> (isFirst: Bool, isLast: Bool, isUnanswered: Bool)? {
    guard var entry = entries[peer], entry.nextTry <= now else { return nil }
    guard entry.tries < Self.tries else { return (false, true, false) }
    entry.tries += 1
    entry.nextTry = now.advanced(by: Self.pause)
    entries[peer] = entry
    return (entry.tries == 1, false, !entry.asked.isEmpty)
  }

  /// A new question for the peer; the answer has the whole pause from now on.
  mutating func ask(_ peer: PeerID, at now: Instant, randomFrom random: inout some RandomSource)
    -> VerificationChallenge?
  {
    guard let entry = entries[peer] else { return nil }
    let challenge = VerificationChallenge(noiseKey: entry.noiseKey, randomFrom: &random)
    entries[peer]?.asked = entry.asked.suffix(Self.askedLimit - 1) + [challenge]
    entries[peer]?.nextTry = now.advanced(by: Self.pause)
    return challenge
  }

  /// The result of an answer.
  enum Judgement: Hashable, Sendable {
    /// The answer is signed with this key.
    case shows(Ed25519.PublicKey)
    /// The answer is signed with another key.
    case wrong
  }

  /// Judges an answer.
  ///
  /// - Parameter keys: the possible keys of the peer, if any key is accepted.
  /// - Returns: nil for an answer to a question that is not open.
  func judge(_ response: VerificationResponse, from peer: PeerID, keys: [Ed25519.PublicKey]) -> Judgement? {
    guard let entry = entries[peer], let asked = entry.asked.first(where: { $0 == response.challenge }) else {
      return nil
    }
    let possible = entry.signingKey.map { [$0] } ?? keys
    return possible.first { response.answers(asked, key: $0) }.map { .shows($0) } ?? .wrong
  }

  /// Whether a peer is asked, and any key is accepted.
  func takesAnyKey(of peer: PeerID) -> Bool { entries[peer].map { $0.signingKey == nil } ?? false }

  mutating func end(_ peer: PeerID) { entries[peer] = nil }
}
