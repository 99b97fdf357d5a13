import Bitchat
import Common
import Loop

/// Pings of local programs that wait for their answers.
@LoopActor
final class MeshPings {
  /// Result of a ping that a program requested.
  enum Outcome: Sendable {
    case answered(milliseconds: UInt32, hops: Int)
    case lost
  }

  private let node: MeshNode
  private let peers: MeshPeers
  private var waiting: [UInt32: @LoopActor (Outcome) -> Void] = [:]
  private var last: UInt32 = 0

  init(_ node: MeshNode, _ peers: MeshPeers) {
    (self.node, self.peers) = (node, peers)
  }

  /// Number of pings without an answer.
  var count: Int { waiting.count }

  /// Pings a peer.
  ///
  /// - Parameters:
  ///   - name: name of the peer for ``MeshNameIndex/peer(_:)``.
  ///   - then: called once, within 10 s.
  func ping(_ name: String, then: @escaping @LoopActor (Outcome) -> Void) throws(MeshRefusal) {
    let peer = try peers.peer(called: name)
    last &+= 1
    let number = last
    let actions: [MeshEngine.Action]
    do throws(MeshEngine.PingError) {
      actions = try node.engine?.ping(peer, as: number, at: node.now, time: node.time) ?? []
    } catch {
      switch error {
      case .notReady: throw node.notReady("No peer is in range.")
      case .ourselves: throw .ourselves
      case .tooMany: throw .tooManyPings
      }
    }
    guard node.engine != nil else { throw node.notReady() }
    waiting[number] = then
    node.perform(actions)
  }

  func ended(_ number: UInt32, _ outcome: Outcome) { waiting.removeValue(forKey: number)?(outcome) }
}
