import Bitchat
import Common
import Loop
import TestSupport
import Testing

@testable import Mesh

@Suite("Mesh nodes on the simulated radio")
struct TalkTests {
  init() { EventLoop.shared.runInBackground() }

  @Test("Two mesh nodes exchange announces and public messages")
  @LoopActor
  func publicLines() async throws {
    let village = Village()
    let (ann, bob) = (village.add("ann"), village.add("bob", at: 5))
    #expect(village.wait { ann.mesh.state == .connected && bob.mesh.state == .connected })
    let number = try ann.mesh.messages.say("good morning")
    #expect(village.wait(.seconds(2)) { bob.texts == ["good morning"] })
    #expect(bob.mesh.messages.log.messages.first?.nickname == "ann")
    // Public messages are stored in groups, at most half a second after reception.
    village.time.advance(by: .milliseconds(500))
    #expect(bob.waiting == bob.mesh.messages.log.messages.map(\.number) && ann.waiting.isEmpty)
    #expect(ann.mesh.messages.log[number]?.state == .sent)
    _ = try bob.mesh.messages.say("good morning to you")
    #expect(village.wait(.seconds(2)) { ann.texts == ["good morning to you"] })
  }

  @Test("A private message is delivered and read, and its sender is notified of both")
  @LoopActor
  func privateText() async throws {
    let village = Village()
    let (ann, bob) = (village.add("ann"), village.add("bob", at: 5))
    #expect(village.wait { village.isAcquainted })
    let number = try ann.mesh.messages.tell("bob", "just for you")
    #expect(village.wait(.seconds(10)) { ann.progress[number] == [.sent, .delivered] })
    #expect(bob.texts == ["just for you"] && bob.mesh.messages.log.messages.first?.conversation == ann.id)
    #expect(bob.mesh.messages.markRead(bob.waiting[0]))
    #expect(village.wait(.seconds(2)) { ann.progress[number] == [.sent, .delivered, .read] })
  }

  @Test("Three nodes in a row exchange public and private messages through the middle node")
  @LoopActor
  func line() async throws {
    let village = Village()
    let (ann, bob, cat) = (village.add("ann"), village.add("bob", at: 8), village.add("cat", at: 16))
    #expect(village.wait { village.isAcquainted })
    _ = try ann.mesh.messages.say("to all")
    #expect(village.wait(.seconds(2)) { cat.texts == ["to all"] && bob.texts == ["to all"] })
    let number = try ann.mesh.messages.tell(cat.id.description, "to cat")
    #expect(village.wait(.seconds(10)) { ann.progress[number]?.last == .delivered })
    #expect(cat.texts == ["to all", "to cat"] && bob.texts == ["to all"])
    #expect(ann.mesh.links.rssi(of: bob.id) == -77 && ann.mesh.links.rssi(of: cat.id) == nil)
    #expect(ann.mesh.peers.view(of: cat.id)?.hops == 2 && ann.mesh.peers.view(of: bob.id)?.isDirect == true)
    let pairs = ann.mesh.node.engine?.pairs(at: village.time.now) ?? []
    #expect(pairs.contains { $0 == (min(ann.id, bob.id), max(ann.id, bob.id)) })
  }

  @Test("A peer that sent a leave is not a neighbour any more, and its link is cut")
  @LoopActor
  func left() throws {
    let village = Village()
    let (ann, bob) = (village.add("ann"), village.add("bob", at: 5))
    #expect(village.wait { village.isAcquainted })
    let link = try #require(ann.mesh.links.ports.keys.first)
    var told: [Int] = []
    ann.mesh.node.changes.addForGood { told.append(ann.mesh.neighbours) }
    // Bob's machine keeps the link, and his service the advertisement.
    bob.mesh.node.handle(.stop)
    village.time.advance(by: .seconds(1))
    #expect(ann.mesh.links.ports.map(\.key) == [link] && ann.mesh.links.ports[link]?.peer == nil)
    #expect(ann.mesh.neighbours == 0 && ann.mesh.state == .alone && told.last == 0)
    village.time.advance(by: .seconds(15))
    #expect(ann.mesh.links.ports[link] == nil)
  }

  @Test("A message to an absent peer waits, and is delivered when the peer returns")
  @LoopActor
  func awayAndBack() async throws {
    let village = Village()
    let (ann, bob) = (village.add("ann"), village.add("bob", at: 5))
    #expect(village.wait { village.isAcquainted })
    bob.radio.power = false
    village.time.advance(by: .seconds(400))
    #expect(ann.mesh.peers.view(of: bob.id) == nil, "a peer that was not heard for long is gone")
    let number = try ann.mesh.messages.tell(bob.id.description, "when you are back")
    village.time.advance(by: .seconds(600))
    #expect(ann.mesh.messages.log[number]?.state == .waiting)
    bob.radio.power = true
    #expect(village.wait { ann.progress[number]?.last == .delivered })
    #expect(bob.texts == ["when you are back"])
  }

  @Test("Two nodes that connect to each other at once end up with one link", arguments: Array(1...40) as [UInt64])
  @LoopActor
  func simultaneous(seed: UInt64) async throws {
    let village = Village(seed: seed)
    let (ann, bob) = (village.add("ann"), village.add("bob", at: 5))
    #expect(village.wait { village.isAcquainted })
    village.time.advance(by: .seconds(60))
    #expect(ann.mesh.links.ports.count == 1 && bob.mesh.links.ports.count == 1)
    let links = Set(ann.mesh.links.ports.keys)
    village.time.advance(by: .seconds(300))
    #expect(Set(ann.mesh.links.ports.keys) == links, "the link stays")
  }

  @Test("A node whose clock is not trusted sends nothing")
  @LoopActor
  func clock() async throws {
    let village = Village()
    let clock = VirtualWallClock(village.time)
    clock.isSynchronised = false
    let (ann, bob) = (village.add("ann"), village.add("bob", at: 5, clock: clock))
    village.time.advance(by: .seconds(30))
    #expect(bob.mesh.state == .waitingForClock && !bob.mesh.reason.isEmpty)
    #expect(throws: MeshRefusal.self) { try bob.mesh.messages.say("too early") }
    #expect(ann.mesh.node.engine?.peer(bob.id) == nil)
    clock.isSynchronised = true
    #expect(village.wait { village.isAcquainted })
    #expect(bob.mesh.reason.isEmpty)
  }

  @Test("A message written before the clock was trusted is sent later, with its corrected time", arguments: [2, 40])
  @LoopActor
  func toldEarly(days: Int64) throws {
    let village = Village()
    let clock = VirtualWallClock(village.time)
    clock.isSynchronised = false
    clock.set(by: -days * 24 * 3600 * 1000)
    let (ann, bob) = (village.add("ann"), village.add("bob", at: 5, clock: clock))
    village.time.advance(by: .seconds(30))
    #expect(bob.mesh.state == .waitingForClock)
    let number = try bob.mesh.messages.tell(ann.id.description, "early")
    village.time.advance(by: .seconds(30))
    clock.isSynchronised = true
    clock.set(by: days * 24 * 3600 * 1000)
    let told = clock.milliseconds - 30_000
    #expect(bob.mesh.messages.log[number].map { abs(Int64($0.time) - told) <= 1000 } == true)
    #expect(village.wait { bob.progress[number]?.last == .delivered })
    #expect(ann.texts == ["early"])
  }

  @Test(
    "Two nodes with untrusted clocks are linked within 40 s after the clocks become trusted")
  @LoopActor
  func clocksOfBoth() async throws {
    let village = Village()
    let clocks = [VirtualWallClock(village.time), VirtualWallClock(village.time)]
    for clock in clocks { clock.isSynchronised = false }
    let (ann, bob) = (village.add("ann", clock: clocks[0]), village.add("bob", at: 5, clock: clocks[1]))
    village.time.advance(by: .seconds(1200))
    #expect([ann, bob].allSatisfy { $0.mesh.state == .waitingForClock })
    for clock in clocks { clock.isSynchronised = true }
    // Each node checks its clock every ten seconds.
    #expect(village.wait(.seconds(40)) { village.isAcquainted })
  }

  @Test("A clock that agrees with two neighbours is trusted, until the clock is set")
  @LoopActor
  func clockOfNeighbours() async throws {
    let village = Village()
    let clock = VirtualWallClock(village.time)
    clock.isSynchronised = false
    let bob = village.add("bob", at: 5, clock: clock)
    for name in ["ann", "cem"] { village.add(name) }
    #expect(village.wait { bob.mesh.state == .connected })
    clock.set(by: 600_000)
    #expect(bob.mesh.state == .waitingForClock)
    village.time.advance(by: .seconds(60))
    #expect(bob.mesh.state == .waitingForClock)
    clock.set(by: -600_000)
    #expect(village.wait(.seconds(60)) { bob.mesh.state == .connected })
  }

  @Test("A node that stops sends a leave, and its neighbours remove it within 1 s")
  @LoopActor
  func leave() async throws {
    let village = Village()
    let (ann, bob) = (village.add("ann"), village.add("bob", at: 5))
    #expect(village.wait { village.isAcquainted })
    bob.mesh.stop()
    #expect(village.wait(.seconds(1)) { ann.mesh.peers.view(of: bob.id) == nil })
    #expect(village.wait(.seconds(1)) { bob.mesh.links.ports.isEmpty })
  }

  @Test("After a mesh link is lost, a new link is made within 20 s")
  @LoopActor
  func linkLost() async throws {
    let village = Village()
    let (ann, bob) = (village.add("ann"), village.add("bob", at: 5))
    #expect(village.wait { village.isAcquainted })
    let link = try #require(ann.mesh.links.ports.keys.first)
    #expect(village.air.cut(link))
    #expect(village.wait(.seconds(1)) { ann.mesh.links.ports.isEmpty && bob.mesh.links.ports.isEmpty })
    #expect(village.wait(.seconds(20)) { ann.mesh.state == .connected && bob.mesh.state == .connected })
  }
}
