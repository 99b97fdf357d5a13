import BitchatWire
import Common
import Loop
import MeshStore
import TestSupport
import Testing

@testable import DBus
@testable import Mesh

@Suite("A mesh node after a wipe")
struct WipeTests {
  init() { EventLoop.shared.runInBackground() }

  @LoopActor
  private static func wipe(_ house: Village.House, in village: Village) {
    var isWiped = false
    house.mesh.wipe { isWiped = $0 == nil }
    #expect(village.wait(.seconds(5)) { isWiped })
  }

  @Test(
    "Mesh message numbers continue after a wipe", arguments: [true, false])
  @LoopActor
  func numbers(hasDisk: Bool) throws {
    let folder = try ScratchFolder()
    let directory = hasDisk ? folder.path("state") : ""
    let village = Village()
    let (ann, bob) = (village.add("ann"), village.add("bob", at: 5, directory: directory))
    #expect(village.wait { village.isAcquainted })
    for number in 0..<5 { _ = try ann.mesh.messages.say("line \(number)") }
    #expect(village.wait(.seconds(5)) { bob.waiting.count == 5 })
    let last = try #require(bob.waiting.last)
    Self.wipe(bob, in: village)
    #expect(
      village.wait {
        village.houses[1].mesh.node.engine?.peer(ann.id) != nil && ann.mesh.node.engine?.peer(bob.id) != nil
      })
    _ = try ann.mesh.messages.say("new")
    #expect(village.wait(.seconds(5)) { bob.texts == ["new"] })
    let number = try #require(bob.mesh.messages.log.messages.first?.number)
    #expect(number > last && !bob.mesh.messages.markRead(last) && bob.mesh.messages.log.unread == 1)
    guard hasDisk else { return }
    village.restart(bob, "bob", directory: directory)
    #expect(village.wait(.seconds(5)) { bob.mesh.node.engine != nil })
    #expect(try bob.mesh.messages.say("own") > number)
  }

  @Test("Messages and files erased by a wipe do not return from neighbours, even after a restart")
  @LoopActor
  func erased() throws {
    let folder = try ScratchFolder()
    let village = Village()
    let ann = village.add("ann", directory: folder.path("state"))
    let (bob, cat) = (village.add("bob", at: 5), village.add("cat", at: 5, off: 3))
    #expect(village.wait { village.isAcquainted })
    let old = ann.id
    for house in [ann, bob, cat] { _ = try house.mesh.messages.say("panic") }
    _ = try ann.mesh.files.send(file: [1, 2, 3], name: "mine.bin", mime: "", to: "")
    _ = try bob.mesh.files.send(file: [4, 5, 6], name: "his.bin", mime: "", to: "")
    #expect(village.wait(.seconds(10)) { ann.texts.count == 2 && cat.mesh.files.log.numbers.count == 2 })
    #expect(village.wait(.seconds(10)) { ann.mesh.files.log.numbers.count == 2 })
    // No node receives its leave packet.
    ann.radio.power = false
    village.time.advance(by: .seconds(5))
    Self.wipe(ann, in: village)
    village.time.advance(by: .seconds(5))
    ann.radio.power = true
    #expect(village.wait(.seconds(60)) { ann.mesh.neighbours > 0 })
    village.time.advance(by: .seconds(60))
    #expect(ann.id != old && ann.texts == [] && ann.mesh.messages.log.unread == 0 && ann.mesh.files.log.numbers == [])
    #expect(ann.mesh.peers.view(of: old) == nil, "it is no peer of itself")
    village.restart(ann, "ann", directory: folder.path("state"))
    #expect(village.wait(.seconds(60)) { ann.mesh.neighbours > 0 })
    village.time.advance(by: .seconds(60))
    #expect(ann.texts == [] && ann.mesh.files.log.numbers == [])
    _ = try bob.mesh.messages.say("and on we go")
    #expect(village.wait(.seconds(10)) { ann.texts == ["and on we go"] })
  }

  @Test("Messages from before a wipe are not shown as new; later ones are, even from a neighbour with a slow clock")
  @LoopActor
  func predating() throws {
    let village = Village()
    let late = VirtualWallClock(village.time)
    late.set(by: -60_000)
    let (ann, bob) = (village.add("ann"), village.add("bob", at: 5))
    #expect(village.wait { village.isAcquainted })
    ann.radio.power = false
    village.time.advance(by: .seconds(5))
    _ = try bob.mesh.messages.say("said while ann was off the air")
    village.time.advance(by: .seconds(5))
    Self.wipe(ann, in: village)
    ann.radio.power = true
    #expect(village.wait(.seconds(60)) { ann.mesh.neighbours > 0 })
    village.time.advance(by: .seconds(60))
    #expect(ann.texts == [])
    let cat = village.add("cat", at: 5, clock: late)
    #expect(village.wait { ann.mesh.node.engine?.peer(cat.id) != nil })
    _ = try cat.mesh.messages.say("a minute behind")
    #expect(village.wait(.seconds(10)) { ann.texts == ["a minute behind"] })
  }

  @Test("After a wipe there is no known peer, no mark and no peer object")
  @LoopActor
  func marks() throws {
    let village = Village()
    let (ann, bob) = (village.add("ann"), village.add("bob", at: 5))
    let connection = BusConnection(address: .address("unix:path=/nowhere"))
    let face = MeshAdaptor(bob.mesh, on: connection.objects, manager: "/org/earshot")
    defer { withExtendedLifetime(face) {} }
    #expect(village.wait { village.isAcquainted })
    let stranger = PeerID(rawValue: 0xBAD)
    try bob.mesh.block(stranger, true)
    try bob.mesh.peers.verify(ann.id, true)
    try bob.mesh.peers.favourite(ann.id, true)
    village.time.advance(by: .seconds(5))
    func objects() -> [String] { connection.objects.children(of: MeshAdaptor.path, for: .group) }
    #expect(objects().count == 2)
    ann.radio.power = false
    village.time.advance(by: .seconds(5))
    Self.wipe(bob, in: village)
    village.time.advance(by: .seconds(5))
    #expect(bob.mesh.peers.known == [] && bob.mesh.peers.marks.isEmpty && objects() == [])
    #expect(
      bob.mesh.node.engine?.blocked == [] && bob.mesh.node.engine?.favourites == []
        && bob.mesh.node.engine?.verified == [])
  }
}
