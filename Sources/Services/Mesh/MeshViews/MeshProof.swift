import DBus
import Loop
import Tool

/// What became of the proof that a peer was asked for, as `Proof` of its object says it.
public enum MeshProof: String, Sendable, Equatable {
  /// It has not answered yet.
  case asked
  case proven
  /// It answered with other keys than the code's.
  case wrong
  case noAnswer
  case gone
  case blocked

  /// - Parameter name: of the peer, as people are shown it.
  public func sentence(name: String) -> String {
    switch self {
    case .asked:
      "\(name) is asked for proof, and gave none within the time. It may still do so: earshot mesh peers"
    case .proven: "\(name) is verified."
    case .wrong: "\(name) is not verified: it answered, and not with the keys of the code. It is somebody else."
    case .noAnswer: "\(name) is not verified: it did not answer. Come nearer, and have a new code shown."
    case .gone: "\(name) is not verified: it has left. Try again when it is back."
    case .blocked: "\(name) is not verified: it is blocked."
    }
  }
}

extension Client {
  /// Waits for what becomes of the proof that a peer was asked for.
  ///
  /// - Returns: `asked` where nothing came within the limit.
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
        // A peer that is gone, and of which nothing is remembered, has no object any more.
        guard error.code == .failed else { throw error }
        return .gone
      }
      let proof = word.flatMap { MeshProof(rawValue: $0) } ?? .asked
      if proof != .asked || EventLoop.shared.now >= end { return proof }
      await news.next(within: min(pause, EventLoop.shared.now.duration(to: end)))
    }
  }
}
