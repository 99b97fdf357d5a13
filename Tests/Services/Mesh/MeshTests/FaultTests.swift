import Air
import BitchatWire
import Common
import DBus
import Loop
import MeshStore
import Radio
import TestSupport
import Testing

@testable import Mesh

@Suite("A mesh node with faulty peers, disks and radios")
struct FaultTests {
  init() { EventLoop.shared.runInBackground() }

  @Test("A private message is acknowledged, and `Tell` returns, only after the disk has stored the message")
  @LoopActor
  func heldDisk() async throws {
    let folder = try ScratchFolder()
    let worker = HeldWorker()
    let village = Village()
    let ann = village.add("ann")
    let bob = village.add("bob", at: 5, directory: folder.path("state"), disk: worker)
    worker.release()
    #expect(
      village.wait {
        worker.release()
        return village.isAcquainted
      })
    worker.release()
    let number = try ann.mesh.messages.tell("bob", "is it kept?")
    village.time.advance(by: .seconds(5))
    #expect(bob.texts == ["is it kept?"] && bob.waiting.isEmpty)
    #expect(ann.mesh.messages.log[number]?.state == .sent)
    // The commit of earlier changes may be in progress.
    #expect(
      village.wait(.seconds(2)) {
        worker.release()
        return ann.mesh.messages.log[number]?.state == .delivered
      })
    #expect(bob.waiting.count == 1)

    var isTaken = false
    _ = try bob.mesh.messages.tell("ann", "an answer") { isTaken = true }
    village.time.advance(by: .seconds(1))
    #expect(!isTaken)
    // An earlier commit may precede this one.
    #expect(
      village.wait(.seconds(1)) {
        worker.release()
        return isTaken
      })
  }

  @Test("A restarted node has its identity and messages, and delivers each waiting message once")
  @LoopActor
  func restart() async throws {
    let folder = try ScratchFolder()
    let village = Village()
    let (ann, bob) = (village.add("ann"), village.add("bob", at: 5, directory: folder.path("state")))
    #expect(village.wait { village.isAcquainted })
    let id = bob.id
    _ = try ann.mesh.messages.say("for everybody")
    let first = try ann.mesh.messages.tell("bob", "before the restart")
    #expect(village.wait(.seconds(10)) { ann.progress[first]?.last == .delivered })
    bob.mesh.setNickname("robert")
    try bob.mesh.peers.favourite(ann.id, true)
    ann.radio.power = false
    let waiting = try bob.mesh.messages.tell(ann.id.description, "when you are back")
    village.time.advance(by: .seconds(30))

    village.restart(bob, "bob", directory: folder.path("state"))
    village.time.advance(by: .seconds(1))
    #expect(bob.id == id && bob.mesh.nickname == "robert")
    #expect(bob.texts.sorted() == ["before the restart", "for everybody"])
    #expect(bob.mesh.peers.view(of: ann.id)?.marks.isFavourite == true)
    #expect(bob.mesh.messages.log[waiting]?.state == .waiting || bob.mesh.messages.log[waiting]?.state == .sent)
    ann.radio.power = true
    #expect(village.wait(.seconds(120)) { bob.mesh.messages.log[waiting]?.state == .delivered })
    #expect(ann.texts == ["when you are back"])
    // A message that ann sends again in a sync answer is listed once.
    village.time.advance(by: .seconds(60))
    #expect(bob.texts.sorted() == ["before the restart", "for everybody"])
    let next = try bob.mesh.messages.say("a number of its own")
    #expect(next > waiting)
  }

  @Test("A wiped node has a new identity and no data, and continues to work")
  @LoopActor
  func wipe() async throws {
    let folder = try ScratchFolder()
    let village = Village()
    let (ann, bob) = (village.add("ann"), village.add("bob", at: 5, directory: folder.path("state")))
    #expect(village.wait { village.isAcquainted })
    let id = bob.id
    let number = try ann.mesh.messages.tell("bob", "to be erased")
    #expect(village.wait(.seconds(10)) { ann.progress[number]?.last == .delivered })
    var isWiped = false
    bob.mesh.wipe { isWiped = $0 == nil }
    #expect(village.wait(.seconds(5)) { isWiped })
    #expect(bob.id != id && bob.texts.isEmpty && bob.mesh.peers.known.isEmpty)
    for (name, bytes) in try folder.files() {
      #expect(!bytes.contains("to be erased".utf8), "\(name)")
      #expect(!bytes.contains(id.bytes), "\(name)")
    }
    #expect(village.wait { ann.mesh.node.engine?.peer(bob.id) != nil })
    #expect(
      ann.mesh.node.engine?.peer(id) == nil && ann.mesh.peers.view(of: id)?.hops == 0, "it has said that it leaves")
  }

  @Test("A peer that sends over 100 malformed frames is disconnected and refused for 5 min")
  @LoopActor
  func garbage() async throws {
    let village = Village()
    let ann = village.add("ann")
    village.time.advance(by: .seconds(1))
    let stranger = Stranger(on: village, to: ann)
    #expect(village.wait(.seconds(5)) { stranger.isLinked })
    for number in 0..<120 { stranger.write([0xFF, UInt8(number)], as: .request) }
    #expect(village.wait(.seconds(10)) { !stranger.isLinked })
    #expect(ann.mesh.links.ports.isEmpty)
    for _ in 0..<3 {
      stranger.connect()
      _ = village.wait(.seconds(5)) { stranger.isLinked }
      stranger.write([0xFF], as: .request)
      #expect(village.wait(.seconds(12)) { !stranger.isLinked }, "it is cut again")
      #expect(ann.mesh.links.ports.isEmpty)
    }
    village.time.advance(by: .seconds(300))
    stranger.connect()
    #expect(village.wait(.seconds(5)) { stranger.isLinked })
    stranger.write([0xFF], as: .request)
    village.time.advance(by: .seconds(2))
    #expect(ann.mesh.links.ports.count == 1, "after five minutes it may come again")
  }

  @Test("A node in the role of a relay relays messages, and does not store, show or send any of its own")
  @LoopActor
  func relay() async throws {
    let folder = try ScratchFolder()
    let village = Village()
    let ann = village.add("ann")
    let relay = village.add("relay", at: 8, directory: folder.path("state")) { $0.role = .relay }
    let cat = village.add("cat", at: 16)
    #expect(village.wait { ann.mesh.node.engine?.peer(cat.id) != nil && cat.mesh.node.engine?.peer(ann.id) != nil })
    _ = try ann.mesh.messages.say("through the relay")
    #expect(village.wait(.seconds(2)) { cat.texts == ["through the relay"] })
    let number = try ann.mesh.messages.tell("cat", "in private through the relay")
    #expect(village.wait(.seconds(10)) { ann.progress[number]?.last == .delivered })
    #expect(relay.texts.isEmpty && relay.waiting.isEmpty)
    #expect(throws: MeshRefusal.self) { try relay.mesh.messages.say("a relay says nothing") }
    #expect(throws: MeshRefusal.self) { try relay.mesh.messages.tell("ann", "nor in private") }
    _ = try ann.mesh.messages.tell("relay", "it does not answer")
    village.time.advance(by: .seconds(60))
    #expect(relay.texts.isEmpty && ann.progress.values.allSatisfy { $0.last != .read })
  }

  @Test("A blocked peer's messages are neither shown nor acknowledged, and others' messages are")
  @LoopActor
  func blocked() async throws {
    let village = Village()
    let (ann, bob, cat) = (village.add("ann"), village.add("bob", at: 3), village.add("cat", at: 6))
    #expect(village.wait { village.isAcquainted })
    try bob.mesh.block(ann.id, true)
    _ = try ann.mesh.messages.say("in public")
    let number = try ann.mesh.messages.tell("bob", "in private")
    _ = try cat.mesh.messages.say("somebody else")
    #expect(village.wait(.seconds(5)) { bob.texts == ["somebody else"] })
    village.time.advance(by: .seconds(60))
    #expect(bob.texts == ["somebody else"] && ann.mesh.messages.log[number]?.state != .delivered)
  }

  @Test("A blocked peer that was forgotten is treated as a new peer")
  @LoopActor
  func forgotten() async throws {
    let village = Village()
    let (ann, bob) = (village.add("ann"), village.add("bob", at: 3))
    #expect(village.wait { village.isAcquainted })
    try bob.mesh.block(ann.id, true)
    _ = try ann.mesh.messages.say("while it is blocked")
    village.time.advance(by: .seconds(5))
    bob.mesh.peers.forget(ann.id)
    #expect(village.wait(.seconds(60)) { bob.mesh.node.engine?.peer(ann.id) != nil })
    _ = try ann.mesh.messages.say("afterwards")
    #expect(village.wait(.seconds(60)) { bob.texts.contains("afterwards") })
    #expect(bob.mesh.peers.view(of: ann.id)?.marks.isBlocked == false)
  }

  @Test("Strangers that mark this node as favourite do not displace blocked peers from the store")
  @LoopActor
  func manyMarks() async throws {
    let folder = try ScratchFolder()
    let village = Village()
    let bob = village.add("bob", directory: folder.path("state"))
    let (first, limit) = (PeerID(rawValue: 7), UInt64(1024))
    #expect(village.wait(.seconds(5)) { bob.mesh.node.engine != nil })
    for number in 1...limit {
      let marks = PeerMarks(peer: PeerID(rawValue: 1000 + number), isFavouriteOfPeer: true, seenAt: 5000 - number)
      bob.mesh.peers.remember(marks)
    }
    try bob.mesh.block(first, true)
    let oldest = PeerID(rawValue: 1000 + limit)
    #expect(
      bob.mesh.peers.marks.count == 1024 && bob.mesh.peers.marks[oldest] == nil
        && bob.mesh.peers.marks[first]?.isBlocked == true)
    for peer in bob.mesh.peers.marks.keys where peer != first { try bob.mesh.peers.favourite(peer, true) }
    for change in [bob.mesh.peers.favourite, bob.mesh.block, bob.mesh.peers.verify] {
      #expect(throws: DBusError.self) { try change(PeerID(rawValue: 8), true) }
    }
    #expect(bob.mesh.peers.marks[PeerID(rawValue: 8)] == nil && bob.mesh.node.engine?.blocked == [first])
    try bob.mesh.block(first, false)
    try bob.mesh.peers.verify(PeerID(rawValue: 8), true)
    #expect(bob.mesh.peers.marks[PeerID(rawValue: 8)]?.isVerified == true)
    village.time.advance(by: .seconds(5))
    village.restart(bob, "bob", directory: folder.path("state"))
    #expect(village.wait(.seconds(5)) { bob.mesh.peers.marks.count == 1024 })
    #expect(bob.mesh.peers.marks[PeerID(rawValue: 8)]?.isVerified == true && bob.mesh.peers.marks[first] == nil)
  }

  @Test(
    "If adapter and radio fail and return, no mesh message is lost or duplicated",
    arguments: 1...6)
  @LoopActor
  func adapter(moment: Int) async throws {
    let village = Village(seed: UInt64(moment))
    let (ann, bob) = (village.add("ann"), village.add("bob", at: 5))
    #expect(village.wait { village.isAcquainted })
    let texts = (1...10).map { "message \($0)" }
    for text in texts { _ = try ann.mesh.messages.tell(bob.id.description, text) }
    village.time.advance(by: .milliseconds(moment * 20))
    (moment.isMultiple(of: 2) ? ann : bob).radio.power = false
    village.time.advance(by: .seconds(20))
    (moment.isMultiple(of: 2) ? ann : bob).radio.power = true
    #expect(
      village.wait(.seconds(120)) {
        ann.progress.count == 10 && ann.progress.values.allSatisfy { $0.last == .delivered }
      })
    #expect(bob.texts.sorted() == texts.sorted())
  }
}
