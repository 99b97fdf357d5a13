import DBus
import Loop
import Tool

/// State of a requested proof, as in property `Proof` of the peer's object.
public enum MeshProof: String, Sendable, Equatable {
  /// The peer has not answered yet.
  case asked
  case proven
  /// The peer answered with keys other than those of the code.
  case wrong
  case noAnswer
  case gone
  case blocked

  /// - Parameter name: displayed name of the peer.
  public func sentence(name: String) -> String {
    switch self {
    case .asked:
      "\(name) has not proven its code in time. It may still do so. To see its state: earshot mesh peers"
    case .proven: "\(name) is verified."
    case .wrong: "\(name) is not verified: it answered with other keys than those of the code. It is somebody else."
    case .noAnswer: "\(name) is not verified: it did not answer. Move closer to it, and read a new code."
    case .gone: "\(name) is not verified: it has left. Try again when it is back."
    case .blocked: "\(name) is not verified: it is blocked."
    }
  }
}

extension Client {
  /// Waits for the result of a requested proof.
  ///
  /// - Returns: `asked` if there is no result within the limit.
  public func proof(of peer: String, within limit: Duration) async throws(Failure) -> MeshProof {
    let end = EventLoop.shared.now.advanced(by: limit)
    let path = MeshNames.path(ofPeer: peer)
    let news = NewsOf(self) { $0.path == path || $0.arguments.first?.asObjectPath == path }
    defer { news.cancel() }
    let pause: Duration = try await watchGroup() ? .seconds(2) : .milliseconds(300)
    while true {
      let word: String?
      do throws(Failure) {
        word = try await property(path, MeshNames.peerInterface, "Proof").asString
      } catch {
        // A peer that has left and has no stored marks has no object.
        guard error.code == .failed else { throw error }
        return .gone
      }
      let proof = word.flatMap { MeshProof(rawValue: $0) } ?? .asked
      if proof != .asked || EventLoop.shared.now >= end { return proof }
      await news.next(within: min(pause, EventLoop.shared.now.duration(to: end)))
    }
  }
}
