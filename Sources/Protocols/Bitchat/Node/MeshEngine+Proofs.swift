import Common
import Crypto

/// Peers prove that a verification code that was read is theirs: a question inside Noise, and an answer that is signed. Facts:
/// bitchat.md section 11.
extension MeshEngine {
  /// What became of a proof that a peer was asked for.
  public enum ProofOutcome: String, Hashable, Sendable {
    /// The peer has the keys of the code.
    case proven
    /// It answered, and not with the keys of the code.
    case wrong
    /// It did not answer in time: it is out of reach, or a relay.
    case noAnswer
    /// It has left, was forgotten, or was not heard for long; or this node has left.
    case gone
    /// The user has blocked it meanwhile.
    case blocked
  }

  /// Why a peer is not asked for a proof.
  public enum ChallengeError: Error, Hashable, Sendable {
    /// A relay asks nobody.
    case relayOnly
    /// Nothing may be said before the clock is known to be right.
    case notReady
    /// It is this node's own code.
    case ourselves
    case notNear
    /// The peer is held to another signing key than the code's.
    case otherKey
    case blocked
    /// So many peers are asked already.
    case tooMany
  }

  /// Asks a peer for the proof that a code is its own, in a session that is made first if there is none. `Action.proof` tells
  /// what becomes of it, after 24 s at the latest; until then one that is asked again has its time from the beginning.
  ///
  /// - Parameters:
  ///   - peer: whose Noise key the code has.
  ///   - signingKey: of the code, whose own signature was checked.
  public mutating func challenge(
    _ peer: PeerID, signingKey: Ed25519.PublicKey, at now: Instant, time: UInt64
  ) throws(ChallengeError) -> [Action] {
    isDueKnown = false
    guard !configuration.isRelayOnly else { throw .relayOnly }
    guard canSend else { throw .notReady }
    guard peer != identity.id else { throw .ourselves }
    guard let known = table[peer] else { throw .notNear }
    guard known.signingKey == signingKey else { throw .otherKey }
    guard !blocked.contains(peer) else { throw .blocked }
    guard proofs.isAwaited(peer) || !proofs.isFull else { throw .tooMany }
    proofs.begin(peer, known.noiseKey, signingKey, at: now)
    var turn = Turn(now: now, time: time)
    askForProofs(&turn)
    return turn.actions
  }

  /// Asks those whose turn it is, and gives up those that cannot answer any more.
  mutating func askForProofs(_ turn: inout Turn) {
    for peer in proofs.peers {
      guard table.has(peer) else {
        end(proofOf: peer, .gone, &turn)
        continue
      }
      guard !blocked.contains(peer) else {
        end(proofOf: peer, .blocked, &turn)
        continue
      }
      guard let due = proofs.takeDue(peer, at: turn.now) else { continue }
      guard !due.isLast else {
        end(proofOf: peer, .noAnswer, &turn)
        continue
      }
      guard sessions.hasSession(with: peer) else {
        carryOut(sessions.handle(.begin(peer), at: turn.now), &turn)
        continue
      }
      // Who has not answered may have begun anew, and not know these keys.
      if due.isUnanswered { carryOut(sessions.handle(.unanswered(peer), at: turn.now), &turn) }
      ask(peer, &turn)
    }
  }

  /// There is a session: a peer that is to be asked can be asked.
  mutating func ask(_ peer: PeerID, _ turn: inout Turn) {
    guard canSend, let challenge = proofs.ask(peer, at: turn.now, randomFrom: &random) else { return }
    seal(.verificationChallenge(challenge), for: peer, &turn)
  }

  mutating func hear(_ response: VerificationResponse, from peer: PeerID, _ turn: inout Turn) {
    guard let outcome = proofs.judge(response, from: peer, signingKey: table.pin(of: peer)) else {
      counters.unaskedProofs += 1
      return
    }
    end(proofOf: peer, outcome, &turn)
  }

  /// A peer that has read this node's code wants to see that the keys in it are this node's.
  mutating func answer(_ challenge: VerificationChallenge, to peer: PeerID, _ turn: inout Turn) {
    guard challenge.noiseKey == identity.noiseKey.publicKey else {
      counters.strangeChallenges += 1
      return
    }
    counters.answeredChallenges += 1
    seal(.verificationResponse(VerificationResponse(to: challenge, key: identity.signingKey)), for: peer, &turn)
  }

  /// This node leaves: nobody's answer would be heard.
  mutating func endProofs(_ turn: inout Turn) {
    for peer in proofs.peers { end(proofOf: peer, .gone, &turn) }
  }

  private mutating func end(proofOf peer: PeerID, _ outcome: ProofOutcome, _ turn: inout Turn) {
    proofs.end(peer)
    switch outcome {
    case .proven: counters.proofs += 1
    case .wrong: counters.wrongProofs += 1
    case .noAnswer, .gone, .blocked: counters.missingProofs += 1
    }
    turn.actions.append(.proof(peer, outcome))
  }
}
