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
  /// The peers whose last proof was asked for by their verification code.
  private var codes: Set<PeerID> = []
  /// The one that was asked first is in front.
  private var order: [PeerID] = []

  subscript(peer: PeerID) -> Standing? { standings[peer] }

  /// Whether the last proof of a peer was asked for by its verification code, and not by its fingerprint.
  func isByCode(_ peer: PeerID) -> Bool { codes.contains(peer) }

  mutating func ask(_ peer: PeerID, byCode isByCode: Bool) {
    if isByCode { codes.insert(peer) } else { codes.remove(peer) }
    note(.asked, of: peer)
  }

  mutating func note(_ standing: Standing, of peer: PeerID) {
    if standings.updateValue(standing, forKey: peer) == nil || standing == .asked {
      order.removeAll { $0 == peer }
      order.append(peer)
    }
    if order.count > Self.limit { forget(order[0]) }
  }

  mutating func forget(_ peer: PeerID) {
    standings[peer] = nil
    codes.remove(peer)
    order.removeAll { $0 == peer }
  }
}
