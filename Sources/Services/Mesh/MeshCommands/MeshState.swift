import DBus
import Loop
import MeshNaming
import MeshViews
import Tool

/// Node, peers and names, as the service reports them.
struct MeshState {
  let node: MeshView
  let peers: [MeshPeerView]
  let names: MeshNameIndex

  /// Reads the node and its peers from the service.
  @LoopActor
  init(_ client: Client) async throws(Failure) {
    try await client.connect()
    try self.init(try await client.objects())
  }

  init(_ objects: ToolPart.Objects) throws(Failure) {
    guard let node = MeshView(objects: objects) else { throw MeshNames.feature.isOff }
    self.node = node
    peers = MeshPeerView.all(objects)
    var names = MeshNameIndex(peers)
    if !node.id.isEmpty { names.add(own: node.id, nickname: node.nickname) }
    self.names = names
  }

  func peer(_ id: String) -> MeshPeerView? { peers.first { $0.id == id } }

  /// Resolves a text to a peer ID: ``MeshNameIndex/peer(_:)``.
  func id(of text: String) throws(Failure) -> String {
    do throws(MeshNameRefusal) { return try names.peer(text) } catch {
      let isUnknown = error.reason == .unknown && error.candidates.isEmpty
      throw Failure(.failed, error.sentence + (isUnknown ? " Try: earshot mesh peers" : ""))
    }
  }
}
