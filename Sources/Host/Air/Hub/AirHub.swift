import Common
import Glibc
import Journal
import Loop
import Radio

/// A simulated radio that several programs share: the hub listens on a Unix socket, and each connection is a node.
///
/// Only the owner can use the socket (mode 0600). The hub drops a node that sends an invalid frame, and logs it; other
/// nodes are not affected. The simulated radio must be scheduled on `EventLoop.shared`.
@LoopActor
public final class AirHub {
  public let path: String
  public let air: AirSpace

  private let identity: [UInt64]?
  private let log: Log
  private var listening: Registration?
  private var nodes: [HubNode] = []

  /// Begins to listen. The socket of a hub that no longer runs is replaced.
  ///
  /// - Throws: `AirHubError`, also when another hub listens at this path.
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

  /// Ends all connections, and removes the socket unless another hub has replaced it.
  public func close() {
    guard listening != nil else { return }
    listening = nil
    for node in nodes { node.close() }
    nodes = []
    if identity != nil, UnixSocket.identity(of: path) == identity { unlink(path) }
  }

  private func accept(_ descriptor: Int32) {
    while let accepted = UnixSocket.accept(descriptor) { nodes.append(HubNode(accepted, hub: self)) }
  }

  func remove(_ node: HubNode, reason: String, isFault: Bool) {
    nodes.removeAll { $0 === node }
    let name = node.name
    if isFault {
      log.warning("The simulated radio disconnected \(name): \(reason).")
    } else {
      log.info("\(name) left the simulated radio: \(reason).")
    }
    balance()
  }

  /// Pauses reading from nodes whose peers do not read fast enough.
  func balance() {
    let congested = Set(nodes.filter(\.isCongested).compactMap { $0.radio.map(ObjectIdentifier.init) })
    for node in nodes { node.holdBack(congested) }
  }
}

/// The reason why a hub cannot listen.
public enum AirHubError: CodedError, Equatable {
  /// The path is empty, or longer than `limit`, the maximum bytes of a socket name.
  case badPath(path: String, limit: Int)
  case alreadyRunning(path: String)
  case notASocket(path: String)
  case cannotListen(path: String, reason: String)

  public var code: String {
    switch self {
    case .badPath: "BadPath"
    case .alreadyRunning: "AlreadyRunning"
    case .notASocket: "NotASocket"
    case .cannotListen: "CannotListen"
    }
  }

  public var sentence: String {
    switch self {
    case .badPath(let path, let limit):
      "\"\(path)\" cannot be the path of a socket: it must have 1 to \(limit) bytes. Choose another path."
    case .alreadyRunning(let path):
      "A simulated radio already listens at \(path). Use it, or choose another path."
    case .notASocket(let path):
      "\(path) exists and is not a socket. Remove it, or choose another path."
    case .cannotListen(let path, let reason):
      "Cannot listen at \(path): \(reason). Check that its folder exists and is writable."
    }
  }
}
