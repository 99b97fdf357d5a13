import Air
import Bitchat
import Foundation
import Loop
import TestSupport
import Testing

@testable import DBus
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
    #expect(file.audience == .group && file.properties.allSatisfy { $0.audience == .group })
    #expect(file.methods.map(\.name) == ["Open", "Cancel", "Delete"])
  }

  @Test("How long the fragments of a file are is said by the links that there are")
  @LoopActor
  func sliceBytes() throws {
    let village = Village()
    let (ann, bob) = (village.add("ann"), village.add("bob", at: 5))
    let mesh = MeshFace.interface(ann.mesh)
    let property = try #require(mesh.properties.first { $0.name == "SliceBytes" })
    #expect(property.get() == .uint32(0))
    #expect(village.wait { village.isAcquainted })
    let slice = try #require(ann.mesh.engine?.sliceBytes)
    #expect(slice > 400 && property.get() == .uint32(UInt32(slice)))
    bob.mesh.stop()
    #expect(village.wait { ann.mesh.ports.isEmpty })
    #expect(property.get() == .uint32(0))
  }

  @Test("Each counter is explained in the page of the mesh")
  @LoopActor
  func counters() throws {
    let tests = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
      .deletingLastPathComponent().deletingLastPathComponent()
    let page = tests.deletingLastPathComponent().appendingPathComponent("docs/mesh.md")
    let section = try #require(
      String(contentsOf: page, encoding: .utf8).components(separatedBy: "\n## ").first { $0.hasPrefix("Counters\n") })
    let village = Village()
    let house = village.add("ann")
    #expect(village.wait { house.mesh.engine != nil })
    let names = house.mesh.tallies.map(\.name)
    #expect(names.count > 85 && names.contains("NoiseDroppedUndecryptable"))
    #expect(names.filter { !section.contains("`\($0)`") } == [])
  }

  @Test("A text that is too long to be said to everybody is refused for that, and one of just that length is said")
  @LoopActor
  func longTexts() throws {
    let village = Village()
    let (ann, bob) = (village.add("ann"), village.add("bob", at: 5))
    #expect(village.wait { village.isAcquainted })
    for (text, refusal) in [
      (String(repeating: "a", count: Limits.publicTextCharacters + 1), MeshService.Refusal.tooManyCharacters),
      (String(repeating: "é", count: Limits.privateTextBytes / 2 + 1), MeshService.Refusal.tooLong),
    ] {
      #expect(throws: refusal) { try ann.mesh.say(text) }
    }
    #expect(DBusError(MeshService.Refusal.tooManyCharacters).name == "org.earshot.Error.InvalidArgs")
    let longest = String(repeating: "a", count: Limits.publicTextCharacters)
    _ = try ann.mesh.say(longest)
    #expect(village.wait(.seconds(60)) { bob.texts == [longest] })
  }

  @Test("No signal for everybody carries a text, a nickname or a peer")
  @LoopActor
  func signals() throws {
    let signals = Self.interfaces().filter { $0.audience == .everybody }.flatMap(\.signals)
    #expect(signals.map(\.name) == ["MessageWaiting", "StateOfMessageChanged", "FileWaiting", "StateOfFileChanged"])
    #expect(signals.flatMap(\.arguments).map(\.signature) == ["u", "u", "s", "u", "u", "s"])
    #expect(
      signals.flatMap(\.arguments).map(\.name) == ["message", "message", "state", "file", "file", "state"])
  }
}
