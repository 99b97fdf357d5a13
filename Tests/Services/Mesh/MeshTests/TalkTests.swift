import Bitchat
import Common
import Loop
import Testing

@testable import Mesh

@Suite("Nodes on the simulated air")
struct TalkTests {
  init() { EventLoop.shared.runInBackground() }

  @Test("Two who meet say who they are, and hear what is said to everybody")
  @LoopActor
  func publicLines() async throws {
    let village = Village()
    let (ann, bob) = (village.add("ann"), village.add("bob", at: 5))
    #expect(village.wait { ann.mesh.state == .connected && bob.mesh.state == .connected })
    let number = try ann.mesh.say("good morning")
    #expect(village.wait(.seconds(2)) { bob.texts == ["good morning"] })
    #expect(bob.mesh.log.messages.first?.nickname == "ann")
    // Public messages are stored in groups, at most half a second after they came.
    village.time.advance(by: .milliseconds(500))
    #expect(bob.waiting == bob.mesh.log.messages.map(\.number) && ann.waiting.isEmpty)
    #expect(ann.mesh.log[number]?.state == .sent)
    _ = try bob.mesh.say("good morning to you")
    #expect(village.wait(.seconds(2)) { ann.texts == ["good morning to you"] })
  }

  @Test("A private message is delivered and read, and its sender is told of both")
  @LoopActor
  func privateText() async throws {
    let village = Village()
    let (ann, bob) = (village.add("ann"), village.add("bob", at: 5))
    #expect(village.wait { village.isAcquainted })
    let number = try ann.mesh.tell("bob", "just for you")
    #expect(village.wait(.seconds(10)) { ann.progress[number] == [.sent, .delivered] })
    #expect(bob.texts == ["just for you"] && bob.mesh.log.messages.first?.conversation == ann.id)
    #expect(bob.mesh.markRead(bob.waiting[0]))
    #expect(village.wait(.seconds(2)) { ann.progress[number] == [.sent, .delivered, .read] })
  }

  @Test("Along a line of three the ends talk through the middle, in public and in private")
  @LoopActor
  func line() async throws {
    let village = Village()
    let (ann, bob, cat) = (village.add("ann"), village.add("bob", at: 8), village.add("cat", at: 16))
    #expect(village.wait { village.isAcquainted })
    _ = try ann.mesh.say("to all")
    #expect(village.wait(.seconds(2)) { cat.texts == ["to all"] && bob.texts == ["to all"] })
    let number = try ann.mesh.tell(cat.id.description, "to cat")
    #expect(village.wait(.seconds(10)) { ann.progress[number]?.last == .delivered })
    #expect(cat.texts == ["to all", "to cat"] && bob.texts == ["to all"])
    #expect(ann.mesh.rssi(of: bob.id) == -77 && ann.mesh.rssi(of: cat.id) == nil)
    #expect(ann.mesh.view(of: cat.id)?.hops == 2 && ann.mesh.view(of: bob.id)?.isDirect == true)
    let pairs = ann.mesh.engine?.pairs(at: village.time.now) ?? []
    #expect(pairs.contains { $0 == (min(ann.id, bob.id), max(ann.id, bob.id)) })
  }

  @Test("Who has left is no neighbour any more, though the link stands, and the link is cut")
  @LoopActor
  func left() throws {
    let village = Village()
    let (ann, bob) = (village.add("ann"), village.add("bob", at: 5))
    #expect(village.wait { village.isAcquainted })
    let link = try #require(ann.mesh.ports.keys.first)
    var told: [Int] = []
    ann.mesh.changes.addForGood { told.append(ann.mesh.neighbours) }
    // Its machine keeps the link, and its service the advertisement.
    bob.mesh.handle(.stop)
    village.time.advance(by: .seconds(1))
    #expect(ann.mesh.ports.map(\.key) == [link] && ann.mesh.ports[link]?.peer == nil)
    #expect(ann.mesh.neighbours == 0 && ann.mesh.state == .alone && told.last == 0)
    village.time.advance(by: .seconds(15))
    #expect(ann.mesh.ports[link] == nil)
  }

  @Test("What is sent to one who is away waits, and is delivered when that one comes")
  @LoopActor
  func awayAndBack() async throws {
    let village = Village()
    let (ann, bob) = (village.add("ann"), village.add("bob", at: 5))
    #expect(village.wait { village.isAcquainted })
    bob.radio.power = false
    village.time.advance(by: .seconds(400))
    #expect(ann.mesh.view(of: bob.id) == nil, "a peer that was not heard for long is gone")
    let number = try ann.mesh.tell(bob.id.description, "when you are back")
    village.time.advance(by: .seconds(600))
    #expect(ann.mesh.log[number]?.state == .waiting)
    bob.radio.power = true
    #expect(village.wait { ann.progress[number]?.last == .delivered })
    #expect(bob.texts == ["when you are back"])
  }

  @Test("Two who connect to each other at the same moment end with one link", arguments: Array(1...40) as [UInt64])
  @LoopActor
  func simultaneous(seed: UInt64) async throws {
    let village = Village(seed: seed)
    let (ann, bob) = (village.add("ann"), village.add("bob", at: 5))
    #expect(village.wait { village.isAcquainted })
    village.time.advance(by: .seconds(60))
    #expect(ann.mesh.ports.count == 1 && bob.mesh.ports.count == 1)
    let links = Set(ann.mesh.ports.keys)
    village.time.advance(by: .seconds(300))
    #expect(Set(ann.mesh.ports.keys) == links, "the link stays")
  }

  @Test("Nothing is said before the clock is right; then it is")
  @LoopActor
  func clock() async throws {
    let village = Village()
    let clock = Village.Clock(village.time)
    clock.isSynchronised = false
    let (ann, bob) = (village.add("ann"), village.add("bob", at: 5, clock: clock))
    village.time.advance(by: .seconds(30))
    #expect(bob.mesh.state == .waitingForClock && !bob.mesh.reason.isEmpty)
    #expect(throws: MeshService.Refusal.self) { try bob.mesh.say("too early") }
    #expect(ann.mesh.engine?.peer(bob.id) == nil)
    clock.isSynchronised = true
    #expect(village.wait { village.isAcquainted })
    #expect(bob.mesh.reason.isEmpty)
  }

  @Test("What is told before the clock is right arrives when it is, and is listed with its time", arguments: [2, 40])
  @LoopActor
  func toldEarly(days: Int64) throws {
    let village = Village()
    let clock = Village.Clock(village.time)
    clock.isSynchronised = false
    clock.set(by: -days * 24 * 3600 * 1000)
    let (ann, bob) = (village.add("ann"), village.add("bob", at: 5, clock: clock))
    village.time.advance(by: .seconds(30))
    #expect(bob.mesh.state == .waitingForClock)
    let number = try bob.mesh.tell(ann.id.description, "early")
    village.time.advance(by: .seconds(30))
    clock.isSynchronised = true
    clock.set(by: days * 24 * 3600 * 1000)
    let told = clock.milliseconds - 30_000
    #expect(bob.mesh.log[number].map { abs(Int64($0.time) - told) <= 1000 } == true)
    #expect(village.wait { bob.progress[number]?.last == .delivered })
    #expect(ann.texts == ["early"])
  }

  @Test(
    "Two that wait for their clocks leave each other more and more alone, and meet at once when the clocks are right")
  @LoopActor
  func clocksOfBoth() async throws {
    let village = Village()
    let clocks = [Village.Clock(village.time), Village.Clock(village.time)]
    for clock in clocks { clock.isSynchronised = false }
    let (ann, bob) = (village.add("ann", clock: clocks[0]), village.add("bob", at: 5, clock: clocks[1]))
    village.time.advance(by: .seconds(1200))
    #expect([ann, bob].allSatisfy { $0.mesh.state == .waitingForClock })
    for clock in clocks { clock.isSynchronised = true }
    // Each looks at its clock every ten seconds.
    #expect(village.wait(.seconds(40)) { village.isAcquainted })
  }

  @Test("Two neighbours whose clocks agree are enough, until the clock is set: then they are asked again")
  @LoopActor
  func clockOfNeighbours() async throws {
    let village = Village()
    let clock = Village.Clock(village.time)
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

  @Test("One that stops says so, and the others know at once")
  @LoopActor
  func leave() async throws {
    let village = Village()
    let (ann, bob) = (village.add("ann"), village.add("bob", at: 5))
    #expect(village.wait { village.isAcquainted })
    bob.mesh.stop()
    #expect(village.wait(.seconds(1)) { ann.mesh.view(of: bob.id) == nil })
    #expect(village.wait(.seconds(1)) { bob.mesh.ports.isEmpty })
  }

  @Test("A link is lost, and is there again after a few seconds")
  @LoopActor
  func linkLost() async throws {
    let village = Village()
    let (ann, bob) = (village.add("ann"), village.add("bob", at: 5))
    #expect(village.wait { village.isAcquainted })
    let link = try #require(ann.mesh.ports.keys.first)
    #expect(village.air.cut(link))
    #expect(village.wait(.seconds(1)) { ann.mesh.ports.isEmpty && bob.mesh.ports.isEmpty })
    #expect(village.wait(.seconds(20)) { ann.mesh.state == .connected && bob.mesh.state == .connected })
  }
}
