import Air
import Common
import Loop
import Radio
import TestSupport
import Testing

@testable import Mesh

@Suite("Wiping a mesh node while it stops")
struct LeavingTests {
  init() { EventLoop.shared.runInBackground() }

  /// A node with stored state, and a phone that has connected to it. The packets for the phone get a moment to be
  /// sent.
  @LoopActor
  private static func node(in village: Village, _ folder: ScratchFolder) throws -> (Village.House, Stranger) {
    let bob = village.add("bob", directory: folder.path("state"))
    village.time.advance(by: .seconds(1))
    let phone = Stranger(on: village, to: bob)
    #expect(village.wait(.seconds(5)) { phone.isLinked })
    phone.explore()
    #expect(village.wait(.seconds(5)) { phone.isExplored })
    phone.subscribe()
    #expect(village.wait(.seconds(5)) { !phone.heard.isEmpty })
    _ = try bob.mesh.messages.say("to be erased")
    village.time.advance(by: .seconds(1))
    return (bob, phone)
  }

  @Test("A node stopped just after `Wipe` completes the wipe, reports it, and restarts with a new identity")
  @LoopActor
  func stoppedAfterWipe() throws {
    let folder = try ScratchFolder()
    let village = Village()
    let (bob, phone) = try Self.node(in: village, folder)
    let id = bob.id
    var results: [Bool] = []
    bob.mesh.wipe { results.append($0 == nil) }
    village.time.advance(by: .milliseconds(50))
    #expect(bob.mesh.links.isLeaving && results.isEmpty)
    bob.mesh.stop()
    village.time.advance(by: .seconds(1))
    #expect(results == [true] && !phone.isLinked)
    #expect(bob.mesh.node.engine == nil && bob.mesh.links.sender.server == nil, "it was stopped")
    village.restart(bob, "bob", directory: folder.path("state"))
    #expect(village.wait(.seconds(5)) { bob.mesh.node.engine != nil })
    #expect(bob.id != id && bob.mesh.messages.log.messages.isEmpty)
  }

  @Test("A node that is wiped while it stops completes the wipe before it reports that it has stopped")
  @LoopActor
  func wipedWhileStopping() throws {
    let folder = try ScratchFolder()
    let village = Village()
    let (bob, phone) = try Self.node(in: village, folder)
    let id = bob.id
    var order: [String] = []
    bob.mesh.stop()
    bob.mesh.rest(within: .seconds(5)) { order.append("at rest") }
    village.time.advance(by: .milliseconds(50))
    #expect(bob.mesh.links.isLeaving && order.isEmpty)
    bob.mesh.wipe { order.append($0 == nil ? "wiped" : "not wiped") }
    village.time.advance(by: .seconds(1))
    #expect(order == ["wiped", "at rest"] && !phone.isLinked)
    village.restart(bob, "bob", directory: folder.path("state"))
    #expect(village.wait(.seconds(5)) { bob.mesh.node.engine != nil })
    #expect(bob.id != id && bob.mesh.messages.log.messages.isEmpty)
  }
}
