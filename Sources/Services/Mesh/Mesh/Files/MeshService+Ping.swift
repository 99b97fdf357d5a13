import Bitchat
import Common
import Loop

extension MeshService {
  /// Result of a ping.
  enum Pong: Sendable {
    case answered(milliseconds: UInt32, hops: Int)
    case lost
  }

  /// Pings a peer.
  ///
  /// - Parameters:
  ///   - name: name of the peer for ``MeshNameBook/peer(_:)``.
  ///   - then: called once, within 10 s.
  func ping(_ name: String, then: @escaping @LoopActor (Pong) -> Void) throws(Refusal) {
    let peer = try peer(called: name)
    lastPing &+= 1
    let number = lastPing
    let actions: [MeshEngine.Action]
    do throws(MeshEngine.PingError) {
      actions = try engine?.ping(peer, as: number, at: scheduler.now, time: time) ?? []
    } catch {
      switch error {
      case .notReady: throw .notReady(hindrance ?? "No peer is in range.")
      case .ourselves: throw .ourselves
      case .tooMany: throw .tooManyPings
      }
    }
    guard engine != nil else { throw .notReady(hindrance ?? "The mesh is not ready.") }
    pings[number] = then
    perform(actions)
  }

  func pinged(_ number: UInt32, _ pong: Pong) { pings.removeValue(forKey: number)?(pong) }
}
