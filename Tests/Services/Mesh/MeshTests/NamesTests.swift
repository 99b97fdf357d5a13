import Air
import BitchatWire
import Common
import DBus
import Loop
import MeshNaming
import MeshStore
import TestSupport
import Testing

@testable import Mesh

@Suite("Names of mesh peers in the service")
struct NamesTests {
  init() { EventLoop.shared.runInBackground() }

  /// Anna, a real Alice, and Carl, whose nickname is Alice's with the last digits of her ID.
  @LoopActor
  private static func impostor() -> (
    village: Village, anna: Village.House, alice: Village.House, carl: Village.House, name: String
  ) {
    let village = Village()
    let (anna, alice, carl) = (village.add("anna"), village.add("alice", at: 3), village.add("carl", at: 4))
    #expect(village.wait { village.isAcquainted })
    let name = "alice#\(alice.id.description.suffix(4))"
    carl.mesh.setNickname(name)
    #expect(village.wait { anna.mesh.peers.name(of: carl.id) == name })
    return (village, anna, alice, carl, name)
  }

  @Test("A text, file or ping to a name with digits goes to the peer with these digits")
  @LoopActor
  func digits() throws {
    let (village, anna, alice, carl, name) = Self.impostor()
    let number = try anna.mesh.messages.tell(name, "secret")
    #expect(anna.mesh.messages.log[number]?.conversation == alice.id)
    #expect(village.wait { alice.texts == ["secret"] })
    let file = try anna.mesh.files.send(file: Array("x".utf8), name: "x", mime: "", to: name)
    #expect(anna.mesh.files[file]?.peer == alice.id)
    #expect(try anna.mesh.peers.peer(called: name) == alice.id)
    var pong: MeshPings.Outcome?
    try anna.mesh.pings.ping(name) { pong = $0 }
    #expect(village.wait(.seconds(11)) { pong != nil })
    // When Alice has left and is forgotten, the name matches no peer.
    alice.mesh.stop()
    #expect(village.wait { anna.mesh.node.engine?.peer(alice.id) == nil })
    anna.mesh.peers.forget(alice.id)
    #expect(throws: MeshRefusal.self) { try anna.mesh.messages.tell(name, "secret") }
    #expect(carl.texts == [])
  }

  @Test("A text, file or ping to a nickname of two peers is refused, with both candidates")
  @LoopActor
  func ambiguous() throws {
    let village = Village()
    let anna = village.add("anna")
    let (one, two) = (village.add("ben", at: 3), village.add("Ben", at: 4))
    #expect(village.wait { village.isAcquainted })
    for name in ["ben", "BEN"] {
      #expect(throws: MeshRefusal.self) { try anna.mesh.messages.tell(name, "secret") }
      #expect(throws: MeshRefusal.self) { try anna.mesh.files.send(file: [1], name: "x", mime: "", to: name) }
      #expect(throws: MeshRefusal.self) { try anna.mesh.pings.ping(name) { _ in } }
    }
    do throws(MeshRefusal) {
      _ = try anna.mesh.peers.peer(called: "Ben")
      Issue.record("not refused")
    } catch {
      #expect(DBusError(error).is(.invalidArgs) && error.code == "AmbiguousPeer")
      for house in [one, two] { #expect(error.sentence.contains("(\(house.id))")) }
    }
    #expect(one.texts + two.texts == [])
  }

  // MARK: Absent peers

  @Test("A peer with private messages keeps its name and D-Bus object, also after a restart")
  @LoopActor
  func left() throws {
    let folder = try ScratchFolder()
    let village = Village()
    let anna = village.add("anna", directory: folder.path("state"))
    let others = ["ben", "carl", "dora", "emil"].map { village.add($0, at: 3) }
    #expect(village.wait { village.isAcquainted })
    _ = try others[0].mesh.messages.say("insult")
    _ = try others[1].mesh.messages.tell("anna", "private insult")
    _ = try anna.mesh.messages.tell("dora", "hello")
    #expect(village.wait { anna.texts.count == 2 && others[2].texts.contains("hello") })
    let ids = others.map(\.id)
    for house in others { house.mesh.stop() }
    // Not every peer's leave packet reaches anna.
    #expect(village.wait(.seconds(600)) { anna.mesh.node.engine?.peers.isEmpty == true })
    for _ in 0..<2 {
      for (id, name) in zip(ids, ["ben", "carl", "dora"]) {
        #expect(try anna.mesh.peers.peer(called: name) == id)
        #expect(anna.mesh.peers.view(of: id)?.nickname == name && anna.mesh.peers.view(of: id)?.hops == 0)
      }
      // There is no message from or to emil.
      #expect(throws: MeshRefusal.self) { try anna.mesh.peers.peer(called: "emil") }
      village.restart(anna, "anna", directory: folder.path("state"))
      #expect(village.wait(.seconds(5)) { anna.mesh.peers.marks.count == 3 })
    }
    try anna.mesh.block(anna.mesh.peers.peer(called: "ben"), true)
    #expect(anna.mesh.node.engine?.blocked == [ids[0]])
    var wiped = false
    anna.mesh.wipe { _ in wiped = true }
    #expect(village.wait(.seconds(10)) { wiped })
    #expect(anna.mesh.peers.known == [] && anna.mesh.peers.marks.isEmpty)
  }

  @Test("Strangers that write do not displace marked peers; those absent longest are removed first")
  @LoopActor
  func bounded() throws {
    let village = Village()
    let bob = village.add("bob")
    #expect(village.wait(.seconds(5)) { bob.mesh.node.engine != nil })
    let friend = PeerID(rawValue: 7)
    try bob.mesh.peers.favourite(friend, true)
    for number in 1..<UInt64(MeshPeers.marksLimit) {
      let contact: PeerMarks.Contacts = number == 1 ? .wasWrittenTo : .wrotePublicly
      let marks = PeerMarks(peer: PeerID(rawValue: 1000 + number), contacts: contact, seenAt: number)
      bob.mesh.peers.remember(marks)
    }
    bob.mesh.peers.noteContact(PeerID(rawValue: 5), .wrotePublicly, nickname: "new")
    #expect(
      bob.mesh.peers.marks.count == MeshPeers.marksLimit && bob.mesh.peers.marks[PeerID(rawValue: 5)]?.nickname == "new"
    )
    #expect(bob.mesh.peers.marks[PeerID(rawValue: 1002)] == nil && bob.mesh.peers.marks[PeerID(rawValue: 1003)] != nil)
    #expect(bob.mesh.peers.marks[PeerID(rawValue: 1001)] != nil && bob.mesh.peers.marks[friend] != nil)
    for peer in bob.mesh.peers.marks.keys { bob.mesh.peers.edit(peer) { $0.isBlocked = true } }
    bob.mesh.peers.noteContact(PeerID(rawValue: 6), .wasWrittenTo)
    #expect(bob.mesh.peers.marks[PeerID(rawValue: 6)] == nil)
  }

  @Test("Of the peers that only write publicly, at most 60 are stored in a minute")
  @LoopActor
  func rate() throws {
    let village = Village()
    let bob = village.add("bob")
    #expect(village.wait(.seconds(5)) { bob.mesh.node.engine != nil })
    for number in 1...100 as ClosedRange<UInt64> {
      bob.mesh.peers.noteContact(PeerID(rawValue: number), .wrotePublicly)
    }
    #expect(bob.mesh.peers.marks.count == 60)
    village.time.advance(by: .seconds(61))
    bob.mesh.peers.noteContact(PeerID(rawValue: 100), .wrotePublicly)
    #expect(bob.mesh.peers.marks.count == 61)
  }

  // MARK: Renames

  @Test("A verified peer that changes its nickname is reported, and its verified name survives a restart")
  @LoopActor
  func renamed() throws {
    let folder = try ScratchFolder()
    let village = Village()
    let (anna, mallory) = (village.add("anna", directory: folder.path("state")), village.add("mallory", at: 3))
    #expect(village.wait { village.isAcquainted })
    var told: [String] = []
    anna.mesh.peers.renames.addForGood { told.append("\($0.peer) \($0.before) \($0.now)") }
    try anna.mesh.peers.verify(mallory.id, true)
    mallory.mesh.setNickname("alice")
    #expect(village.wait { !told.isEmpty })
    #expect(told == ["\(mallory.id) mallory alice"])
    for _ in 0..<2 {
      let marks = try #require(anna.mesh.peers.view(of: mallory.id)?.marks)
      #expect(marks.verifiedName == "mallory" && marks.nicknameHistory == ["mallory", "alice"])
      #expect(anna.mesh.peers.nameBook.label(of: mallory.id.description) == "<alice, verified as <mallory>>")
      village.restart(anna, "anna", directory: folder.path("state"))
      #expect(village.wait { anna.mesh.node.engine?.peer(mallory.id) != nil })
    }
    try anna.mesh.peers.verify(mallory.id, true)
    #expect(anna.mesh.peers.view(of: mallory.id)?.marks.verifiedName == "alice")
    try anna.mesh.peers.verify(mallory.id, false)
    let marks = anna.mesh.peers.view(of: mallory.id)?.marks
    #expect(marks?.verifiedName == "" && marks?.nicknameHistory == [])
  }

  @Test("A former nickname of a favourite does not name the peer that takes it over")
  @LoopActor
  func taken() throws {
    let village = Village()
    let (anna, alice, carl) = (village.add("anna"), village.add("alice", at: 3), village.add("carl", at: 4))
    #expect(village.wait { village.isAcquainted })
    try anna.mesh.peers.favourite(alice.id, true)
    alice.mesh.setNickname("lily")
    #expect(village.wait { anna.mesh.peers.marks[alice.id]?.nickname == "lily" })
    carl.mesh.setNickname("alice")
    #expect(village.wait { anna.mesh.peers.name(of: carl.id) == "alice" })
    #expect(throws: MeshRefusal.self) { try anna.mesh.messages.tell("alice", "secret") }
    #expect(try anna.mesh.peers.peer(called: "lily") == alice.id)
    #expect(anna.mesh.peers.nameBook.name(of: carl.id.description) == "alice#\(carl.id.description.suffix(4))")
    try anna.mesh.peers.favourite(alice.id, false)
    #expect(try anna.mesh.peers.peer(called: "alice") == carl.id)
  }

  @Test("A peer that changes its nickname often is reported 6 times a minute, with 8 stored names")
  @LoopActor
  func manyNames() throws {
    let village = Village()
    let (anna, eve) = (village.add("anna"), village.add("eve", at: 3))
    #expect(village.wait { village.isAcquainted })
    try anna.mesh.peers.verify(eve.id, true)
    var told = 0
    anna.mesh.peers.renames.addForGood { _ in told += 1 }
    for number in 0..<30 {
      anna.mesh.peers.mark(eve.id) { $0.nickname = "eve \(number)" }
      village.time.advance(by: .milliseconds(100))
    }
    let marks = try #require(anna.mesh.peers.marks[eve.id])
    #expect(told == MeshPeers.renamesPerMinute && marks.nicknameHistory.count == 8 && marks.verifiedName == "eve")
  }

  // MARK: Texts

  @Test("A private text equal to a favourite notice is refused; one that only begins like a notice is sent")
  @LoopActor
  func notices() throws {
    let village = Village()
    let (anna, ben) = (village.add("anna"), village.add("ben", at: 3))
    #expect(village.wait { village.isAcquainted })
    let long = String(repeating: "x", count: 255) + "[FAVORITED]:x"
    for text in ["[FAVORITED]", "[UNFAVORITED]:see list", "[FAVORITED]: what?", "[FAVORITED] hello", long] {
      #expect(throws: MeshRefusal.favouriteNotice, "\(text)") { try anna.mesh.messages.tell("ben", text) }
    }
    _ = try anna.mesh.messages.tell("ben", " [FAVORITED]")
    _ = try anna.mesh.messages.say("[FAVORITED]: public")
    #expect(village.wait { ben.texts.count == 2 })
    #expect(ben.mesh.peers.view(of: anna.id)?.marks.isFavouriteOfPeer == false)
    try anna.mesh.peers.favourite(ben.id, true)
    #expect(village.wait { ben.mesh.peers.view(of: anna.id)?.marks.isFavouriteOfPeer == true })
    ben.mesh.messages.told(
      try PrivateMessage(id: MessageID("one"), text: "[UNFAVORITED]: as I said"), from: anna.id, at: ben.mesh.node.time)
    #expect(ben.texts.last == "[UNFAVORITED]: as I said")
    #expect(ben.mesh.peers.view(of: anna.id)?.marks.isFavouriteOfPeer == true)
  }

  @Test("The configuration and D-Bus accept the same nicknames")
  func ownNickname() {
    for name in ["Donau\u{AD}dampf", "שלום\u{200E}", "\u{1FAE9}", "a\u{2060}b", "\u{FEFF}hello", "Zoë"] {
      #expect(NicknameText.isUsable(name), "\(name)")
    }
    for name in ["", "\u{200D}", "\u{3164}", "a\u{202E}b", "a\u{7}", "\u{E000}"] {
      #expect(!NicknameText.isUsable(name), "\(name)")
    }
  }
}
