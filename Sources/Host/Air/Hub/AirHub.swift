import Common
import Glibc
import Journal
import Loop
import Radio

/// An air that programs share: it listens on a Unix socket, and each connection is a node.
///
/// The socket is its owner's alone (mode 0600). A node that sends what no frame may hold is dropped, with a line in the
/// log; the other nodes notice nothing. The air must be scheduled on `EventLoop.shared`.
@LoopActor
public final class AirHub {
  public let path: String
  public let air: AirSpace

  private let identity: [UInt64]?
  private let log: Log
  private var listening: Registration?
  private var nodes: [HubNode] = []

  /// Begins to listen. The socket of a hub that died is replaced.
  ///
  /// - Throws: also when another hub listens there.
  public init(path: String, air: AirSpace, log: Log = .shared) throws(AirHubError) {
    self.path = path
    self.air = air
    self.log = log
    let descriptor = try UnixSocket.listen(at: path)
    identity = UnixSocket.identity(of: path)
    let watch = EventLoop.shared.watch(descriptor, for: .readable) { [weak self] _ in self?.accept(descriptor) }
    listening = Registration {
      watch.cancel()
      Glibc.close(descriptor)
    }
  }

  /// Ends all connections, and removes the socket unless it belongs to another hub by now.
  public func close() {
    guard listening != nil else { return }
    listening = nil
    for node in nodes { node.close() }
    nodes = []
    if identity != nil, UnixSocket.identity(of: path) == identity { unlink(path) }
  }

  /// How many nodes are connected.
  public var nodeCount: Int { nodes.count }

  private func accept(_ descriptor: Int32) {
    while let accepted = UnixSocket.accept(descriptor) { nodes.append(HubNode(accepted, hub: self)) }
  }

  func remove(_ node: HubNode, reason: String, isFault: Bool) {
    nodes.removeAll { $0 === node }
    let name = node.name
    if isFault {
      log.warning("The simulated air dropped \(name): \(reason).")
    } else {
      log.info("\(name) left the simulated air: \(reason).")
    }
    balance()
  }

  /// Reads only from nodes whose peers keep up with what the hub sends to them.
  func balance() {
    let congested = Set(nodes.filter(\.isCongested).compactMap { $0.radio.map(ObjectIdentifier.init) })
    for node in nodes { node.holdBack(congested) }
  }
}
