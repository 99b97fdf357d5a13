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
      throw .invalidArgs("The text is not a verification code: those begin with bitchat://verify?")
    }
    guard code.isSigned else { throw .invalidArgs("The signature of the code is invalid: the code was changed.") }
    guard code.isFresh(at: clock.seconds) else {
      throw .invalidArgs("The code is older than five minutes. Read a new one.")
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
          "A peer has proven its code, but cannot be marked as verified: \(error)", .protocolName("bitchat"))
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
