import Air
import BitchatWire
import Foundation
import Loop
import TestSupport
import Testing

@testable import DBus
@testable import Mesh

/// The properties, signals and methods that other programs see.
@Suite("The D-Bus interface of the mesh")
struct MeshAdaptorTests {
  init() { EventLoop.shared.runInBackground() }

  @LoopActor
  private static func interfaces() -> [Interface] {
    let time = VirtualTime()
    return MeshService.objects(radio: AirSpace(scheduler: time, seed: 1).addNode().tenant(time), scheduler: time)
      .map(\.interface)
  }

  @Test("Mesh peers, the node's identity and its messages are readable only by the group")
  @LoopActor
  func audience() throws {
    let interfaces = Self.interfaces()
    let mesh = try #require(interfaces.first { $0.name == MeshAdaptor.interfaceName })
    let open = mesh.properties.filter { $0.audience == .everybody }.map(\.name)
    #expect(open == ["State", "Reason", "Role", "Counters"])
    let peer = try #require(interfaces.first { $0.name == MeshPeerObjects.interfaceName })
    #expect(peer.audience == .group && peer.properties.allSatisfy { $0.audience == .group })
    let file = try #require(interfaces.first { $0.name == MeshFileObjects.interfaceName })
    #expect(file.audience == .group && file.properties.allSatisfy { $0.audience == .group })
    #expect(file.methods.map(\.name) == ["Open", "Cancel", "Delete"])
  }

  @Test("`SliceBytes` follows the MTUs of the mesh links, and is 0 without links")
  @LoopActor
  func sliceBytes() throws {
    let village = Village()
    let (ann, bob) = (village.add("ann"), village.add("bob", at: 5))
    let mesh = MeshAdaptor.interface(ann.mesh)
    let property = try #require(mesh.properties.first { $0.name == "SliceBytes" })
    #expect(property.get() == .uint32(0))
    #expect(village.wait { village.isAcquainted })
    let slice = try #require(ann.mesh.node.engine?.sliceBytes)
    #expect(slice > 400 && property.get() == .uint32(UInt32(slice)))
    bob.mesh.stop()
    #expect(village.wait { ann.mesh.links.ports.isEmpty })
    #expect(property.get() == .uint32(0))
  }

  @Test("Each mesh counter is explained in docs/mesh-operating.md")
  @LoopActor
  func counters() throws {
    let tests = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
      .deletingLastPathComponent().deletingLastPathComponent()
    let page = tests.deletingLastPathComponent().appendingPathComponent("docs/mesh-operating.md")
    let section = try #require(
      String(contentsOf: page, encoding: .utf8).components(separatedBy: "\n## ").first { $0.hasPrefix("Counters\n") })
    let village = Village()
    let house = village.add("ann")
    #expect(village.wait { house.mesh.node.engine != nil })
    let names = house.mesh.tallies.map(\.name)
    #expect(names.count > 85 && names.contains("NoiseDroppedUndecryptable"))
    #expect(names.filter { !section.contains("`\($0)`") } == [])
  }

  @Test("A public text above the character limit is refused; one at the limit is sent")
  @LoopActor
  func longTexts() throws {
    let village = Village()
    let (ann, bob) = (village.add("ann"), village.add("bob", at: 5))
    #expect(village.wait { village.isAcquainted })
    for (text, refusal) in [
      (String(repeating: "a", count: Limits.publicTextCharacters + 1), MeshRefusal.tooManyCharacters),
      (String(repeating: "é", count: Limits.privateTextBytes / 2 + 1), MeshRefusal.tooLong),
    ] {
      #expect(throws: refusal) { try ann.mesh.messages.say(text) }
    }
    #expect(DBusError(MeshRefusal.tooManyCharacters).name == "org.earshot.Error.InvalidArgs")
    let longest = String(repeating: "a", count: Limits.publicTextCharacters)
    _ = try ann.mesh.messages.say(longest)
    #expect(village.wait(.seconds(60)) { bob.texts == [longest] })
  }

  @Test("Mesh signals that everybody can receive contain no text, nickname or peer")
  @LoopActor
  func signals() throws {
    let signals = Self.interfaces().filter { $0.audience == .everybody }.flatMap(\.signals)
    #expect(
      signals.map(\.name) == [
        "MessageReceived", "MessageStateChanged", "MessageWentByUplink", "FileReceived", "FileStateChanged",
      ])
    #expect(signals.flatMap(\.arguments).map(\.signature) == ["u", "u", "s", "u", "u", "u", "s"])
    #expect(
      signals.flatMap(\.arguments).map(\.name) == ["message", "message", "state", "message", "file", "file", "state"])
  }
}
