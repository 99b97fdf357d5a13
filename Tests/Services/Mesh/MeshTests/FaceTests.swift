import Air
import Bitchat
import DBus
import Loop
import TestSupport
import Testing

@testable import Mesh

/// What other programs may see of the mesh.
@Suite("The mesh on the bus")
struct FaceTests {
  init() { EventLoop.shared.runInBackground() }

  @LoopActor
  private static func interfaces() -> [Interface] {
    let time = VirtualTime()
    return MeshService.objects(radio: AirSpace(scheduler: time, seed: 1).addNode().tenant(time), scheduler: time)
      .map(\.interface)
  }

  @Test("Who is near, who this node is and what was said is for the group alone")
  @LoopActor
  func audience() throws {
    let interfaces = Self.interfaces()
    let mesh = try #require(interfaces.first { $0.name == MeshFace.interfaceName })
    let open = mesh.properties.filter { $0.audience == .everybody }.map(\.name)
    #expect(open == ["State", "Reason", "Role", "Counters"])
    let peer = try #require(interfaces.first { $0.name == MeshPeerFaces.interfaceName })
    #expect(peer.audience == .group && peer.properties.allSatisfy { $0.audience == .group })
    let file = try #require(interfaces.first { $0.name == MeshFileFaces.interfaceName })
    #expect(file.audience == .group && file.properties.allSatisfy { $0.audience == .group && $0.emits == .none })
    #expect(file.methods.map(\.name) == ["Open", "Cancel", "Delete"])
  }

  @Test("No signal carries a text, a nickname or a peer")
  @LoopActor
  func signals() throws {
    let signals = Self.interfaces().flatMap(\.signals)
    #expect(signals.map(\.name) == ["MessageWaiting", "StateOfMessageChanged", "FileWaiting", "StateOfFileChanged"])
    #expect(signals.flatMap(\.arguments).map(\.signature) == ["u", "u", "s", "u", "u", "s"])
    #expect(
      signals.flatMap(\.arguments).map(\.name) == ["message", "message", "state", "file", "file", "state"])
  }
}
