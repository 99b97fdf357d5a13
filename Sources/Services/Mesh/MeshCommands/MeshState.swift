import Bitchat
import Common
import DBus
import Loop
import MeshViews
import Tool

/// The node, its peers and what they are called, as the service tells it.
struct MeshState {
  let node: MeshView
  let peers: [MeshPeerView]
  let names: MeshNameBook

  /// Connects, and asks the service.
  @LoopActor
  init(_ client: Client) async throws(Failure) {
    try await client.connect()
    try self.init(try await client.objects())
  }

  init(_ objects: ToolPart.Objects) throws(Failure) {
    guard let node = MeshView(objects: objects) else { throw MeshNames.feature.isOff }
    self.node = node
    peers = MeshPeerView.all(objects)
    var names = MeshNameBook(peers)
    if !node.id.isEmpty { names.add(node.id, nickname: node.nickname) }
    self.names = names
  }

  func peer(_ id: String) -> MeshPeerView? { peers.first { $0.id == id } }

  /// The ID of the peer that a person means: by 16 digits, which need not be known, by a nickname that one peer has, or by a name
  /// that says which of several it is.
  func id(of text: String) throws(Failure) -> String {
    let name = PastedText.trimmed(text)
    if let id = try? PeerID(text: name) { return "\(id)" }
    let found = names.peers(called: name).filter { $0 != node.id }
    guard let id = found.first else {
      throw Failure(.failed, "No peer is called \(MeshText.line(name)). Try: earshot mesh peers")
    }
    guard found.count == 1 else {
      let list = found.prefix(8).map { "\(names.name(of: $0)) (\($0))" }.joined(separator: ", ")
      throw Failure(.failed, "\(found.count) peers are called \(MeshText.line(name)): \(list). Name one of them.")
    }
    return id
  }
}
