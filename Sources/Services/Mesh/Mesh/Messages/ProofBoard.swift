import Bitchat

/// What became of the proofs that peers were asked for, of those that were asked last. A value.
struct ProofBoard: Sendable {
  /// How a proof stands. The raw value is its name on the bus.
  enum Standing: String, Hashable, Sendable {
    case asked, proven, wrong, noAnswer, gone, blocked

    init(_ outcome: MeshEngine.ProofOutcome) {
      self =
        switch outcome {
        case .proven: .proven
        case .wrong: .wrong
        case .noAnswer: .noAnswer
        case .gone: .gone
        case .blocked: .blocked
        }
    }
  }

  /// More than are asked at a time.
  static let limit = 64

  private var standings: [PeerID: Standing] = [:]
  /// The one that was asked first is in front.
  private var order: [PeerID] = []

  subscript(peer: PeerID) -> Standing? { standings[peer] }

  mutating func note(_ standing: Standing, of peer: PeerID) {
    if standings.updateValue(standing, forKey: peer) == nil || standing == .asked {
      order.removeAll { $0 == peer }
      order.append(peer)
    }
    if order.count > Self.limit { standings[order.removeFirst()] = nil }
  }

  mutating func forget(_ peer: PeerID) {
    standings[peer] = nil
    order.removeAll { $0 == peer }
  }
}
