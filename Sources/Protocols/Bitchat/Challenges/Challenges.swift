import BitchatWire
import Common
import Crypto

/// Reason why a peer is not asked for a proof.
public enum ChallengeError: Error, Hashable, Sendable {
  /// This node is a relay, which sends no challenges.
  case relayOnly
  /// Sending is not allowed until the clock is trusted.
  case notReady
  /// The verification code is this node's own.
  case ourselves
  case notNear
  /// The pinned signing key of the peer differs from the code's, and is proven.
  case otherKey
  case blocked
  /// `AwaitedProofs.limit` peers are already being asked for a proof.
  case tooMany
}

/// Proofs of signing keys: a peer signs a challenge that this node sends inside Noise. Facts: bitchat.md section 11.
///
/// This node asks a peer for the key of a verification code, or for any key. It asks for any key after the user has
/// verified the peer's fingerprint, and after a rival key was announced.
struct Challenges: Sendable {
  /// Peers asked for the key of a code, or for any key on the user's behalf. The user gets the result.
  private(set) var codes = AwaitedProofs()
  /// Peers that are asked for their signing key because a rival key was announced, or because the user has verified the
  /// fingerprint.
  private var keys = AwaitedProofs()
  private(set) var disputes = Disputes()

  /// Time of the next question, or of the end of a proof; nil if no peer is being asked.
  var deadline: Instant? {
    guard let code = codes.deadline else { return keys.deadline }
    return keys.deadline.map { min($0, code) } ?? code
  }

  var isEmpty: Bool { codes.isEmpty && keys.isEmpty }

  /// Whether the user awaits the proof of a peer.
  func isAwaited(_ peer: PeerID) -> Bool { codes.isAwaited(peer) }

  /// Whether the user has requested a proof from this peer and has no result yet.
  func takesAnyKey(of peer: PeerID) -> Bool { codes.takesAnyKey(of: peer) }

  /// The rival key of a peer; nil without one.
  func rival(of peer: PeerID) -> Ed25519.PublicKey? { disputes.rival(of: peer) }

  // MARK: Questions

  /// Begins to ask a peer to prove that a code is its own. Another call restarts the timeout.
  ///
  /// - Parameters:
  ///   - peer: owner of the Noise key in the code.
  ///   - signingKey: signing key of the code.
  mutating func begin(
    _ peer: PeerID, _ signingKey: Ed25519.PublicKey, _ view: NodeView
  ) throws(ChallengeError) {
    guard view.role.converses else { throw .relayOnly }
    guard view.canSend else { throw .notReady }
    guard peer != view.own else { throw .ourselves }
    guard let known = view.peers[peer] else { throw .notNear }
    // A pinned key that is not proven may be an attacker's.
    guard known.signingKey == signingKey || !view.peers.isProven(peer) else { throw .otherKey }
    guard !view.blocked.contains(peer) else { throw .blocked }
    guard codes.isAwaited(peer) || !codes.isFull else { throw .tooMany }
    codes.begin(peer, known.noiseKey, signingKey, at: view.now)
  }

  /// Begins to ask a peer for its signing key, because the user has verified its fingerprint. The fingerprint covers
  /// the Noise key only.
  ///
  /// - Returns: whether a question is due.
  mutating func begin(verified peer: PeerID, _ view: NodeView) -> Bool {
    guard !view.peers.isProven(peer), view.canSend, let known = view.peers[peer], !codes.isAwaited(peer),
      !codes.isFull, view.role.converses, !view.blocked.contains(peer)
    else { return false }
    codes.begin(peer, known.noiseKey, nil, at: view.now)
    return true
  }

  /// Begins to ask a peer to state its signing key, within the limits of `Disputes`.
  ///
  /// - Returns: whether a question is due.
  mutating func begin(
    keyOf peer: PeerID, _ noiseKey: X25519.PublicKey, because origin: DeviceOrigin, _ view: NodeView
  ) -> Bool {
    guard view.canSend, view.role.converses, !view.blocked.contains(peer), !view.peers.isProven(peer),
      keys.isAwaited(peer) ? !view.sessions.hasSession(with: peer) : !keys.isFull,
      disputes.mayAsk(peer, because: origin, at: view.now)
    else { return false }
    keys.begin(peer, noiseKey, nil, at: view.now)
    return true
  }

  /// Asks the peers that are due for their keys, in their session or in a new one.
  mutating func askForKeys(_ view: NodeView, randomFrom random: inout some RandomSource) -> [Intent] {
    var intents: [Intent] = []
    for peer in keys.peers {
      guard let due = keys.takeDue(peer, at: view.now) else { continue }
      guard !due.isLast, !view.blocked.contains(peer) else {
        keys.end(peer)
        continue
      }
      if !view.sessions.hasSession(with: peer) {
        // One handshake per question: forged announces must not use up the handshakes that this node needs.
        if due.isFirst { intents.append(.tryHandshake(peer)) }
      } else if let challenge = keys.ask(peer, at: view.now, randomFrom: &random) {
        // The peer may have lost the keys of this session.
        if due.isUnanswered { intents.append(.unanswered(peer)) }
        // Current apps send their key with each new session; older ones only answer.
        intents.append(.seal(.verificationChallenge(challenge), for: peer))
      }
    }
    return intents
  }

  /// Asks the peers whose proofs the user awaits, and ends those that can no longer be answered.
  mutating func askForCodes(_ view: NodeView) -> [Intent] {
    var intents: [Intent] = []
    for peer in codes.peers {
      guard view.peers.has(peer) || view.sessions.hasSession(with: peer) else {
        intents += end(peer, .gone)
        continue
      }
      guard !view.blocked.contains(peer) else {
        intents += end(peer, .blocked)
        continue
      }
      guard let due = codes.takeDue(peer, at: view.now) else { continue }
      guard !due.isLast else {
        intents += end(peer, .noAnswer)
        continue
      }
      guard view.sessions.hasSession(with: peer) else {
        intents.append(.beginSession(peer))
        continue
      }
      // A peer that has not answered may have restarted without these keys.
      if due.isUnanswered { intents.append(.unanswered(peer)) }
      intents.append(.challenge(peer))
    }
    return intents
  }

  /// Returns a new challenge for a peer whose proof the user has requested; nil if the user has not requested one.
  mutating func question(
    to peer: PeerID, at now: Instant, randomFrom random: inout some RandomSource
  ) -> VerificationChallenge? {
    codes.ask(peer, at: now, randomFrom: &random)
  }

  // MARK: Answers

  /// Handles the answer of a peer.
  mutating func handleResponse(_ response: VerificationResponse, from peer: PeerID, _ view: NodeView) -> [Intent] {
    let pinned = view.peers.pin(of: peer)
    let known = [pinned, disputes.rival(of: peer)].compactMap(\.self)
    let (ofCode, ofKey) = (
      codes.judge(response, from: peer, keys: known), keys.judge(response, from: peer, keys: known)
    )
    guard ofCode != nil || ofKey != nil else { return [.count(\.unaskedProofs)] }
    var intents: [Intent] = []
    var proven = view.peers.isProven(peer) ? pinned : nil
    for case .shows(let key)? in [ofCode, ofKey] {
      // A proven key takes precedence over the key of a code.
      if let proven, proven != key {
        if ofCode != nil { intents.append(.conclude(peer, .wrong)) }
        return intents
      }
      intents.append(.settle(peer, key))
      proven = key
    }
    if let ofCode { intents.append(.conclude(peer, ofCode == .wrong ? .wrong : .proven)) }
    return intents
  }

  /// Answers the challenge of a peer that has read this node's code.
  ///
  /// - Parameters:
  ///   - noiseKey: this node's key, which the challenge must name.
  ///   - signingKey: this node's key, which signs the answer.
  func answer(
    _ challenge: VerificationChallenge, from peer: PeerID, noiseKey: X25519.PublicKey, signingKey: Ed25519.PrivateKey
  ) -> [Intent] {
    guard challenge.noiseKey == noiseKey else { return [.count(\.strangeChallenges)] }
    let response = VerificationResponse(to: challenge, key: signingKey)
    return [.count(\.answeredChallenges), .seal(.verificationResponse(response), for: peer)]
  }

  // MARK: Ends

  /// Stores an announce whose valid signature is of a key other than the pinned one. That key is not proven.
  mutating func note(_ rival: Disputes.Rival, of peer: PeerID) { disputes.note(peer, rival) }

  /// Ends the dispute about a peer that has proven its signing key, and stops asking for the key.
  ///
  /// - Returns: the rival with that key, if there is one.
  mutating func settle(_ peer: PeerID, _ signingKey: Ed25519.PublicKey) -> Disputes.Rival? {
    keys.end(peer)
    return disputes.settle(peer, signingKey)
  }

  /// Ends the proof of a peer, if the user awaits it.
  mutating func conclude(_ peer: PeerID, _ outcome: ProofOutcome) -> [Intent] {
    codes.isAwaited(peer) ? end(peer, outcome) : []
  }

  /// Ends all questions when this node leaves.
  mutating func endAll() -> [Intent] {
    for peer in keys.peers { keys.end(peer) }
    return codes.peers.flatMap { end($0, .gone) }
  }

  /// Removes a peer. If the user awaits its proof, the proof ends with the next question.
  mutating func forget(_ peer: PeerID) {
    disputes.forget(peer)
    keys.end(peer)
  }

  private mutating func end(_ peer: PeerID, _ outcome: ProofOutcome) -> [Intent] {
    codes.end(peer)
    let counter: WritableKeyPath<NodeCounters, UInt64> =
      switch outcome {
      case .proven: \.proofs
      case .wrong: \.wrongProofs
      case .noAnswer, .gone, .blocked: \.missingProofs
      }
    return [.count(counter), .report(.proof(peer, outcome))]
  }
}
