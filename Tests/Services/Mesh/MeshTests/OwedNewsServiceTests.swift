import Bitchat
import Common
import Loop
import MeshStore
import TestSupport
import Testing

@testable import Mesh

@Suite("Favourite notices and read receipts after restarts")
struct OwedNewsServiceTests {
  init() { EventLoop.shared.runInBackground() }

  @Test("A favourite mark that was withdrawn while the peer was absent is reported to it after a restart")
  @LoopActor
  func favourite() throws {
    let folder = try ScratchFolder()
    let village = Village()
    let (ann, bob) = (village.add("ann"), village.add("bob", at: 5, directory: folder.path("state")))
    #expect(village.wait { village.isAcquainted })
    try bob.mesh.peers.favourite(ann.id, true)
    #expect(village.wait(.seconds(20)) { ann.mesh.peers.view(of: bob.id)?.marks.isFavouriteOfPeer == true })
    #expect(village.wait(.seconds(20)) { bob.mesh.peers.marks[ann.id]?.isNoticeOwed == false })
    ann.radio.power = false
    village.time.advance(by: .seconds(5))
    try bob.mesh.peers.favourite(ann.id, false)
    village.time.advance(by: .seconds(5))
    village.restart(bob, "bob", directory: folder.path("state"))
    village.time.advance(by: .seconds(5))
    ann.radio.power = true
    #expect(village.wait(.seconds(60)) { ann.mesh.peers.view(of: bob.id)?.marks.isFavouriteOfPeer == false })
    #expect(village.wait(.seconds(10)) { bob.mesh.peers.marks[ann.id] == nil }, "nothing more is remembered of it")
  }

  @Test("A read receipt for an absent sender is sent after a restart of the reader")
  @LoopActor
  func receipt() throws {
    let folder = try ScratchFolder()
    let village = Village()
    let (ann, bob) = (village.add("ann"), village.add("bob", at: 5, directory: folder.path("state")))
    #expect(village.wait { village.isAcquainted })
    let number = try ann.mesh.messages.tell("bob", "read me")
    #expect(village.wait(.seconds(10)) { ann.progress[number]?.last == .delivered })
    ann.radio.power = false
    village.time.advance(by: .seconds(5))
    #expect(bob.mesh.messages.markRead(try #require(bob.waiting.first)))
    village.time.advance(by: .seconds(5))
    village.restart(bob, "bob", directory: folder.path("state"))
    village.time.advance(by: .seconds(5))
    #expect(bob.mesh.messages.log.messages.first?.state == .seen)
    ann.radio.power = true
    #expect(village.wait(.seconds(60)) { ann.progress[number]?.last == .read })
  }

  @Test("A sender that restarted after the delivery still gets the read receipt")
  @LoopActor
  func restartedSender() throws {
    let folder = try ScratchFolder()
    let village = Village()
    let (ann, bob) = (village.add("ann", directory: folder.path("state")), village.add("bob", at: 5))
    #expect(village.wait { village.isAcquainted })
    let number = try ann.mesh.messages.tell("bob", "read me")
    #expect(village.wait(.seconds(10)) { ann.progress[number]?.last == .delivered })
    village.time.advance(by: .seconds(5))
    ann.mesh.stop()
    village.time.advance(by: .seconds(5))
    #expect(bob.mesh.messages.markRead(try #require(bob.waiting.first)))
    village.restart(ann, "ann", directory: folder.path("state"))
    #expect(village.wait(.seconds(60)) { ann.mesh.messages.log[number]?.state == .read })
  }
}
