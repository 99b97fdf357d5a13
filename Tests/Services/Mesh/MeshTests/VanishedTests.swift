import Air
import Bitchat
import Common
import Loop
import MeshStore
import TestSupport
import Testing

@testable import Mesh

@Suite("Absent mesh peers and empty texts")
struct VanishedTests {
  init() { EventLoop.shared.runInBackground() }

  @Test("A neighbour whose link ended has 0 hops, and one that is still received over other peers has 2")
  @LoopActor
  func vanished() throws {
    let village = Village()
    let (ann, bob, cat) = (village.add("ann"), village.add("bob", at: 5), village.add("cat", at: -5))
    #expect(village.wait { village.isAcquainted })
    #expect(village.wait { ann.mesh.peers.view(of: bob.id)?.hops == 1 && ann.mesh.peers.view(of: cat.id)?.hops == 1 })
    for house in [bob, cat] { house.radio.power = false }
    village.time.advance(by: .seconds(5))
    for house in [bob, cat] {
      let view = ann.mesh.peers.view(of: house.id)
      #expect(view?.hops == 0 && view?.isDirect == false && view?.hasSession == false)
    }
    #expect(ann.mesh.neighbours == 0)
  }

  @Test("A private text to the node itself, or one of blanks only, is refused")
  @LoopActor
  func refused() throws {
    let village = Village()
    let (ann, bob) = (village.add("ann"), village.add("bob", at: 5))
    #expect(village.wait { village.isAcquainted })
    #expect(throws: MeshRefusal.ourselves) { try ann.mesh.messages.tell(ann.id.description, "to me") }
    for blank in ["", " ", " \n\t ", "\u{A0}\u{2003}"] {
      #expect(throws: MeshRefusal.empty) { try ann.mesh.messages.say(blank) }
      #expect(throws: MeshRefusal.empty) { try ann.mesh.messages.tell(bob.id.description, blank) }
    }
    #expect(ann.mesh.messages.log.messages.isEmpty)
  }

  @Test("When a peer is blocked, its messages are marked as seen, and no read receipts are sent")
  @LoopActor
  func blocked() throws {
    let village = Village()
    let (ann, bob) = (village.add("ann"), village.add("bob", at: 5))
    #expect(village.wait { village.isAcquainted })
    let number = try ann.mesh.messages.tell("bob", "in private")
    _ = try ann.mesh.messages.say("in public")
    #expect(village.wait(.seconds(10)) { bob.texts.count == 2 && ann.progress[number]?.last == .delivered })
    #expect(bob.mesh.messages.log.unread == 2)
    try bob.mesh.block(ann.id, true)
    #expect(bob.mesh.messages.log.unread == 0 && bob.mesh.messages.log.messages.allSatisfy { $0.state == .seen })
    village.time.advance(by: .seconds(60))
    try bob.mesh.block(ann.id, false)
    village.time.advance(by: .seconds(120))
    #expect(ann.progress[number]?.last == .delivered)
  }
}
