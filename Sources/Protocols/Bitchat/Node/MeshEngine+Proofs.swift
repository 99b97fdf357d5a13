import Common
import Crypto

/// Proofs of verification codes: a peer signs a challenge sent inside Noise. Facts: bitchat.md section 11.
extension MeshEngine {
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
    var turn = Turn(now: now, time: time)
    try challenges.begin(peer, signingKey, view(turn))
    askForProofs(&turn)
    return turn.actions
  }

  /// Sends the challenges that are due, and ends those that can no longer be answered.
  mutating func askForProofs(_ turn: inout Turn) {
    guard !challenges.isEmpty else { return }
    perform(challenges.askForKeys(view(turn), randomFrom: &random), &turn)
    perform(challenges.askForCodes(view(turn)), &turn)
  }

  /// Sends an open challenge to a peer with a session.
  mutating func ask(_ peer: PeerID, _ turn: inout Turn) {
    guard canSend, let challenge = challenges.question(to: peer, at: turn.now, randomFrom: &random) else { return }
    seal(.verificationChallenge(challenge), for: peer, &turn)
  }

  // MARK: Disputed keys

  /// Handles an announce with a valid signature of another key than the pinned one, which is not proven.
  mutating func contest(_ announcement: Announcement, _ arrival: Arrival, _ turn: inout Turn) {
    let (peer, origin) = (announcement.peerID, origin(of: arrival.link))
    challenges.note(
      Disputes.Rival(signingKey: announcement.signingKey, announce: arrival, origin: origin, heardAt: turn.now),
      of: peer)
    // The peer's own link may be an attacker's, so that the peer is reachable only over this one.
    noteWay(of: arrival, to: peer, &turn)
    askForKey(of: peer, announcement.noiseKey, because: origin, &turn)
  }

  /// Asks a peer to state its signing key inside Noise, within the limits of `Disputes`.
  mutating func askForKey(
    of peer: PeerID, _ noiseKey: X25519.PublicKey, because origin: DeviceOrigin, _ turn: inout Turn
  ) {
    guard challenges.begin(keyOf: peer, noiseKey, because: origin, view(turn)) else { return }
    perform(challenges.askForKeys(view(turn), randomFrom: &random), &turn)
  }

  /// Pins the signing key that a peer has proven inside Noise, instead of any other.
  mutating func settle(_ peer: PeerID, _ signingKey: Ed25519.PublicKey, _ turn: inout Turn) {
    let wasProven = table.isProven(peer)
    let rival = challenges.settle(peer, signingKey)
    let isReplaced = table.prove(peer, signingKey, at: turn.now)
    if isReplaced {
      // Announces and messages with the other key are an attacker's, and so are the links that count as the peer's own.
      gossip.forget(peer)
      vacateLinks(of: peer, turn)
      turn.actions.append(.gone(peer))
    }
    if let arrival = rival?.announce, let packet = try? Packet(arrival.view),
      case .taken = handleAnnounce(packet, arrival, &turn)
    {
      keep(arrival, packet, PacketID(packet), &turn)
    }
    keepPin(of: peer, &turn)
    if !wasProven, !isReplaced, table.has(peer) { turn.actions.append(.peer(peer)) }
    if challenges.takesAnyKey(of: peer) { perform(challenges.conclude(peer, .proven), &turn) }
  }
}
