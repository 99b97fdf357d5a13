import Bitchat
import Common
import DBus
import Journal
import Loop

/// Proofs of peers whose verification codes were read.
extension MeshService {
  /// Asks the owner of a verification code for a proof; `proofs` has the result.
  ///
  /// - Returns: the peer.
  func verify(code text: String) throws(DBusError) -> PeerID {
    guard let code = try? VerificationCode(reading: PastedText.unbroken(text)) else {
      throw .invalidArgs("This is not the text of a verification code: it begins with bitchat://verify?")
    }
    guard code.isSigned else { throw .invalidArgs("The code's signature does not hold: it was changed.") }
    guard code.isFresh(at: clock.seconds) else {
      throw .invalidArgs("The code is older than five minutes. Have a new one shown.")
    }
    let peer = code.peerID
    guard engine != nil else { throw .notReady(reason) }
    let actions: [MeshEngine.Action]
    do throws(MeshEngine.ChallengeError) {
      actions = try engine?.challenge(peer, signingKey: code.signingKey, at: scheduler.now, time: time) ?? []
    } catch {
      throw DBusError(error, reason: reason)
    }
    proofs.ask(peer, byCode: true)
    peerChanges.call(peer)
    perform(actions)
    return peer
  }

  /// Handles the result of a proof. Only a successful one marks the peer as verified; a failed one revokes nothing.
  func proved(_ peer: PeerID, _ outcome: MeshEngine.ProofOutcome) {
    proofs.note(ProofBoard.Standing(outcome), of: peer)
    peerChanges.call(peer)
    // A fingerprint counts when it was compared, a code when it is proven.
    if outcome == .proven, proofs.isByCode(peer) || marks[peer]?.isVerified != true {
      do throws(DBusError) { try verify(peer, true) } catch {
        Log.shared.warning(
          "A peer has proven its code, and is not kept as verified: \(error)", .protocolName("bitchat"))
      }
    }
    // The journal does not name the peer: peers in range are visible to the group only.
    if outcome == .wrong, told.allow(.proof, at: scheduler.now) {
      Log.shared.warning(
        "A peer could not prove that its verification code is its own", id: .meshProofWrong, .protocolName("bitchat"))
    }
  }
}

extension DBusError {
  fileprivate init(_ error: MeshEngine.ChallengeError, reason: String) {
    switch error {
    case .relayOnly: self = DBusError(.notSupported, MeshService.Refusal.relay.sentence)
    case .notReady: self = .notReady(reason.isEmpty ? "The mesh is not ready." : reason)
    case .ourselves: self = .invalidArgs("This is this node's own code.")
    case .notNear: self = DBusError(.notFound, "The peer of this code is not near.")
    case .otherKey: self = .invalidArgs("The peer of this code signs with another key: it is somebody else.")
    case .blocked: self = .invalidArgs("The peer of this code is blocked.")
    case .tooMany: self = .limitExceeded("Too many peers are asked for a proof already. Try again in half a minute.")
    }
  }
}
