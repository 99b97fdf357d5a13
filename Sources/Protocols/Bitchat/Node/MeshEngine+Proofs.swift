import Common
import Crypto

/// Proofs of verification codes: a peer signs a challenge sent inside Noise. Facts: bitchat.md section 11.
extension MeshEngine {
  /// Result of a requested proof.
  public enum ProofOutcome: String, Hashable, Sendable {
    /// The peer has the keys of the code.
    case proven
    /// The peer answered with other keys than those of the code.
    case wrong
    /// The peer did not answer in time: it is out of range, or a relay.
    case noAnswer
    /// The peer has left, was forgotten or timed out; or this node has left.
    case gone
    /// The user blocked the peer meanwhile.
    case blocked
  }

  /// Reason why a peer is not asked for a proof.
  public enum ChallengeError: Error, Hashable, Sendable {
    /// The node is a relay.
    case relayOnly
    /// Sending is not allowed before the clock is known to be right.
    case notReady
    /// The code is this node's own.
    case ourselves
    case notNear
    /// The pinned signing key of the peer differs from the code's, and is proven.
    case otherKey
    case blocked
    /// `AwaitedProofs.limit` peers are being asked.
    case tooMany
  }

  /// Asks a peer to prove that a code is its own, in a session that is established first if needed. `Action.proof`
  /// follows within 24 s. Asking again restarts this time.
  ///
  /// - Parameters:
  ///   - peer: owner of the Noise key in the code.
  ///   - signingKey: signing key of the code, whose signature the caller has checked.
  public mutating func challenge(
    _ peer: PeerID, signingKey: Ed25519.PublicKey, at now: Instant, time: UInt64
  ) throws(ChallengeError) -> [Action] {
    isDueKnown = false
    guard !configuration.isRelayOnly else { throw .relayOnly }
    guard canSend else { throw .notReady }
    guard peer != identity.id else { throw .ourselves }
    guard let known = table[peer] else { throw .notNear }
    // A pinned key that is not proven may be an attacker's.
    guard known.signingKey == signingKey || !table.isProven(peer) else { throw .otherKey }
    guard !blocked.contains(peer) else { throw .blocked }
    guard proofs.isAwaited(peer) || !proofs.isFull else { throw .tooMany }
    proofs.begin(peer, known.noiseKey, signingKey, at: now)
    var turn = Turn(now: now, time: time)
    askForProofs(&turn)
    return turn.actions
  }

  /// Sends the challenges that are due, and ends those that can no longer be answered.
  mutating func askForProofs(_ turn: inout Turn) {
    askForKeys(&turn)
    for peer in proofs.peers {
      guard table.has(peer) || sessions.hasSession(with: peer) else {
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
      // A peer that has not answered may have restarted without these keys.
      if due.isUnanswered { carryOut(sessions.handle(.unanswered(peer), at: turn.now), &turn) }
      ask(peer, &turn)
    }
  }

  /// Sends an open challenge to a peer with a session.
  mutating func ask(_ peer: PeerID, _ turn: inout Turn) {
    guard canSend, let challenge = proofs.ask(peer, at: turn.now, randomFrom: &random) else { return }
    seal(.verificationChallenge(challenge), for: peer, &turn)
  }

  mutating func hear(_ response: VerificationResponse, from peer: PeerID, _ turn: inout Turn) {
    let keys = [table.pin(of: peer), disputes.rival(of: peer)].compactMap(\.self)
    let (ofCode, ofKey) = (
      proofs.judge(response, from: peer, keys: keys), keyProofs.judge(response, from: peer, keys: keys)
    )
    guard ofCode != nil || ofKey != nil else {
      counters.unaskedProofs += 1
      return
    }
    for case .shows(let key)? in [ofCode, ofKey] {
      // A proven key takes precedence over the key of a code.
      if table.isProven(peer), table.pin(of: peer) != key {
        if ofCode != nil { end(proofOf: peer, .wrong, &turn) }
        return
      }
      settle(peer, key, &turn)
    }
    guard ofCode != nil, proofs.isAwaited(peer) else { return }
    end(proofOf: peer, ofCode == .wrong ? .wrong : .proven, &turn)
  }

  // MARK: Disputed keys

  /// Handles an announce with a valid signature of another key than the pinned one, which is not proven.
  mutating func contest(_ announcement: Announcement, _ arrival: Arrival, _ turn: inout Turn) {
    let (peer, origin) = (announcement.peerID, origin(of: arrival.link))
    disputes.note(
      peer,
      Disputes.Rival(
        signingKey: announcement.signingKey, announce: arrival, origin: origin, heardAt: turn.now))
    // The peer's own link may be an attacker's, so that the peer is reachable only over this one.
    noteWay(of: arrival, to: peer, &turn)
    askForKey(of: peer, announcement.noiseKey, because: origin, &turn)
  }

  /// Asks a peer to state its signing key inside Noise, within the limits of `Disputes`.
  mutating func askForKey(
    of peer: PeerID, _ noiseKey: X25519.PublicKey, because origin: DeviceOrigin, _ turn: inout Turn
  ) {
    guard canSend, !configuration.isRelayOnly, !blocked.contains(peer), !table.isProven(peer),
      keyProofs.isAwaited(peer) ? !sessions.hasSession(with: peer) : !keyProofs.isFull,
      disputes.mayAsk(peer, because: origin, at: turn.now)
    else { return }
    keyProofs.begin(peer, noiseKey, nil, at: turn.now)
    askForKeys(&turn)
  }

  /// Asks the peers that are due, in their session or in a new one.
  private mutating func askForKeys(_ turn: inout Turn) {
    for peer in keyProofs.peers {
      guard let due = keyProofs.takeDue(peer, at: turn.now) else { continue }
      guard !due.isLast, !blocked.contains(peer) else {
        keyProofs.end(peer)
        continue
      }
      if !sessions.hasSession(with: peer) {
        // One handshake per question: forged announces must not use up the handshakes that this node needs.
        if due.isFirst { carryOut(sessions.handle(.ask(peer), at: turn.now), &turn) }
      } else if let challenge = keyProofs.ask(peer, at: turn.now, randomFrom: &random) {
        // The peer may have lost the keys of this session.
        if due.isUnanswered { carryOut(sessions.handle(.unanswered(peer), at: turn.now), &turn) }
        // Current apps send their key with each new session; older ones only answer.
        seal(.verificationChallenge(challenge), for: peer, &turn)
      }
    }
  }

  /// Pins the signing key that a peer has proven inside Noise, instead of any other.
  mutating func settle(_ peer: PeerID, _ signingKey: Ed25519.PublicKey, _ turn: inout Turn) {
    let wasProven = table.isProven(peer)
    let rival = disputes.settle(peer, signingKey)
    keyProofs.end(peer)
    let isReplaced = table.prove(peer, signingKey, at: turn.now)
    if isReplaced {
      // Announces and messages with the other key are an attacker's, and so are the links that count as the peer's own.
      archive.forget(peer)
      vacateLinks(of: peer, turn)
      turn.actions.append(.gone(peer))
    }
    if let arrival = rival?.announce, let packet = try? Packet(arrival.view),
      case .taken = hear(announce: packet, arrival, &turn)
    {
      keep(arrival, packet, PacketID(packet), &turn)
    }
    keepPin(of: peer, &turn)
    if !wasProven, !isReplaced, table.has(peer) { turn.actions.append(.peer(peer)) }
    if proofs.takesAnyKey(of: peer) { end(proofOf: peer, .proven, &turn) }
  }

  // MARK: Answers

  /// Answers the challenge of a peer that has read this node's code.
  mutating func answer(_ challenge: VerificationChallenge, to peer: PeerID, _ turn: inout Turn) {
    guard challenge.noiseKey == identity.noiseKey.publicKey else {
      counters.strangeChallenges += 1
      return
    }
    counters.answeredChallenges += 1
    seal(.verificationResponse(VerificationResponse(to: challenge, key: identity.signingKey)), for: peer, &turn)
  }

  /// Ends all proofs when this node leaves.
  mutating func endProofs(_ turn: inout Turn) {
    for peer in proofs.peers { end(proofOf: peer, .gone, &turn) }
    for peer in keyProofs.peers { keyProofs.end(peer) }
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
