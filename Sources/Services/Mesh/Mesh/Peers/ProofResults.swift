import Bitchat
import BitchatWire

/// Results of the latest requested proofs.
struct ProofResults: Sendable {
  /// Result of a proof. The raw value is its name on D-Bus.
  enum ProofState: String, Hashable, Sendable {
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

  /// Maximum entries, more than the proofs that may be pending.
  static let limit = 64

  private var standings: [PeerID: ProofState] = [:]
  /// Peers whose last proof was requested by their verification code.
  private var codes: Set<PeerID> = []
  /// Peers in order of request, oldest first.
  private var order: [PeerID] = []

  subscript(peer: PeerID) -> ProofState? { standings[peer] }

  /// Whether the last proof of a peer was requested by its verification code, not by its fingerprint.
  func isByCode(_ peer: PeerID) -> Bool { codes.contains(peer) }

  mutating func ask(_ peer: PeerID, byCode isByCode: Bool) {
    if isByCode { codes.insert(peer) } else { codes.remove(peer) }
    note(.asked, of: peer)
  }

  mutating func note(_ standing: ProofState, of peer: PeerID) {
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
