import Air
import BitchatWire
import Common
import Loop
import MeshStore
import TestSupport
import Testing

@testable import Bitchat
@testable import DBus
@testable import Mesh

/// A stand-in for the uplink program, which delivers packets when the test requests it.
@LoopActor
private final class Carrier: UplinkProgram {
  let key: String
  private(set) var packets: [UplinkPacket] = []
  private(set) var contacts: [String] = []
  private(set) var cancelled: [UplinkPacket.ID] = []
  private(set) var wipes = 0
  var stores = true
  var erases = true
  private let time: VirtualTime

  init(_ letter: Character, _ time: VirtualTime) {
    key = "npub1" + String(repeating: letter, count: 58)
    self.time = time
  }

  func setContacts(_ keys: [String]) { contacts = keys }

  func send(_ packet: UplinkPacket, then: @escaping @LoopActor (Bool) -> Void) {
    if stores { packets.append(packet) }
    let stores = stores
    time.soon { then(stores) }
  }

  func cancel(_ id: UplinkPacket.ID) { cancelled.append(id) }

  func wipe(then: @escaping @LoopActor (Bool) -> Void) {
    wipes += 1
    let erases = erases
    time.soon { then(erases) }
  }

  func deliver(to house: Village.House) {
    let all = packets
    packets = []
    for packet in all {
      #expect(throws: Never.self) { try house.mesh.uplink.received(packet.text, from: key) }
    }
  }
}

@Suite("The mesh uplink on the simulated radio")
struct UplinkServiceTests {
  init() { EventLoop.shared.runInBackground() }

  /// Ann and Bob, mutual favourites out of range of each other, and the programs that carry their packets.
  @LoopActor
  private static func apart(
    _ village: Village, directory: String? = nil
  ) throws -> (houses: [Village.House], carriers: [Carrier]) {
    let houses = [village.add("ann", directory: directory), village.add("bob", at: 5)]
    let carriers = [Carrier("q", village.time), Carrier("p", village.time)]
    #expect(village.wait { village.isAcquainted })
    for (house, carrier) in zip(houses, carriers) {
      var answer: PeerID?
      try house.mesh.uplink.attach(carrier, key: carrier.key) { answer = $0 }
      #expect(answer == house.id)
    }
    try houses[0].mesh.peers.favourite(houses[1].id, true)
    try houses[1].mesh.peers.favourite(houses[0].id, true)
    #expect(
      village.wait(.seconds(60)) {
        houses[0].mesh.peers.marks[houses[1].id]?.uplinkKey == carriers[1].key
          && houses[1].mesh.peers.marks[houses[0].id]?.uplinkKey == carriers[0].key
      })
    houses[1].radio.position = AirPosition(x: 1000)
    village.time.advance(by: .seconds(500))
    #expect(houses.allSatisfy { $0.mesh.state == .alone })
    return (houses, carriers)
  }

  @Test("A message to a peer out of range is delivered and read over the uplink, and both logs show this")
  @LoopActor
  func wholeWay() throws {
    let village = Village()
    let (houses, carriers) = try Self.apart(village)
    let (ann, bob) = (houses[0], houses[1])
    let number = try ann.mesh.messages.tell("bob", "over the hills")
    #expect(village.wait { ann.progress[number] == [.sent] })
    #expect(ann.mesh.messages.log[number]?.way == .uplink)
    carriers[0].deliver(to: bob)
    #expect(village.wait { bob.texts == ["over the hills"] && carriers[1].packets.count == 1 })
    #expect(bob.mesh.messages.log.messages.last?.way == .uplink)
    carriers[1].deliver(to: ann)
    #expect(village.wait { ann.progress[number] == [.sent, .delivered] })
    #expect(carriers[0].cancelled.count == 1)
    let received = try #require(bob.waiting.first)
    #expect(bob.mesh.messages.markRead(received))
    #expect(village.wait { carriers[1].packets.count == 1 })
    carriers[1].deliver(to: ann)
    #expect(village.wait { ann.progress[number] == [.sent, .delivered, .read] })
    // They meet: nothing is shown twice.
    bob.radio.position = AirPosition(x: 5)
    village.time.advance(by: .seconds(300))
    #expect(bob.texts == ["over the hills"])
    let near = try ann.mesh.messages.tell("bob", "here")
    #expect(village.wait(.seconds(60)) { ann.progress[near]?.last == .delivered })
    #expect(ann.mesh.messages.log[near]?.way == .mesh && bob.mesh.messages.log.messages.last?.way == .mesh)
    #expect(carriers[0].packets.isEmpty)
  }

  @Test("The uplink program has the keys of mutual favourites that are not blocked")
  @LoopActor
  func contacts() throws {
    let village = Village()
    let (houses, carriers) = try Self.apart(village)
    let (ann, bob) = (houses[0], houses[1])
    #expect(carriers[0].contacts == [carriers[1].key])
    try ann.mesh.block(bob.id, true)
    #expect(carriers[0].contacts == [])
    try ann.mesh.block(bob.id, false)
    #expect(carriers[0].contacts == [carriers[1].key])
    try ann.mesh.peers.favourite(bob.id, false)
    #expect(carriers[0].contacts == [])
  }

  @Test("Key, ways and waiting messages of the uplink survive a restart, and its program gets the messages again")
  @LoopActor
  func restart() throws {
    let folder = try ScratchFolder()
    let village = Village()
    let (houses, carriers) = try Self.apart(village, directory: folder.path("state"))
    let ann = houses[0]
    let number = try ann.mesh.messages.tell("bob", "kept")
    #expect(village.wait { ann.progress[number] == [.sent] })
    let first = try #require(carriers[0].packets.first)
    village.time.advance(by: .seconds(5))
    village.restart(ann, "ann", directory: folder.path("state"))
    #expect(village.wait { ann.mesh.node.engine != nil })
    #expect(ann.mesh.messages.log[number]?.way == .uplink && ann.mesh.messages.log[number]?.state == .sent)
    #expect(ann.mesh.node.engine?.uplinkKey == carriers[0].key)
    #expect(ann.mesh.node.engine?.uplinkKey(of: houses[1].id) == carriers[1].key)
    try ann.mesh.uplink.attach(carriers[0], key: carriers[0].key)
    #expect(village.wait { carriers[0].packets.count == 2 })
    #expect(carriers[0].packets.last?.id == first.id)
  }

  @Test("After a restart, a relay's copy of an old favourite notice does not revoke a newer one from the mesh")
  @LoopActor
  func oldNotice() throws {
    let folder = try ScratchFolder()
    let village = Village()
    let (houses, carriers) = try Self.apart(village, directory: folder.path("state"))
    let (ann, bob) = (houses[0], houses[1].id)
    let noticedAt = try #require(ann.mesh.peers.marks[bob]?.noticedAt)
    #expect(noticedAt > 0)
    village.time.advance(by: .seconds(5))
    village.restart(ann, "ann", directory: folder.path("state"))
    #expect(village.wait { ann.mesh.state == .alone })
    #expect(ann.mesh.peers.marks[bob]?.noticedAt == noticedAt)
    let message = try PrivateMessage(
      id: BitchatWire.MessageID("removed"), text: FavoriteNotice(isFavorite: false).text)
    let old = try EmbeddedPacket(.privateMessage(message), from: bob, to: ann.id, timestamp: noticedAt - 60_000).text()
    #expect(throws: UplinkRefusal.date) { try ann.mesh.uplink.received(old, from: carriers[1].key) }
    #expect(ann.mesh.peers.marks[bob]?.isFavouriteOfPeer == true)
  }

  @Test("An uplink program that disconnects gets nothing more, and the next one gets the waiting messages")
  @LoopActor
  func programs() throws {
    let village = Village()
    let (houses, carriers) = try Self.apart(village)
    let ann = houses[0]
    ann.mesh.uplink.detach()
    let number = try ann.mesh.messages.tell("bob", "wait")
    village.time.advance(by: .seconds(60))
    #expect(carriers[0].packets.isEmpty && ann.progress[number] == nil)
    carriers[0].stores = false
    try ann.mesh.uplink.attach(carriers[0], key: carriers[0].key)
    village.time.advance(by: .seconds(60))
    #expect(ann.progress[number] == nil)
    carriers[0].stores = true
    village.time.advance(by: .seconds(60))
    #expect(carriers[0].packets.count == 1 && ann.progress[number] == [.sent])
  }

  @Test(
    "A wipe asks the uplink program to erase its key, and reports if the program does not", arguments: [true, false])
  @LoopActor
  func wipe(erases: Bool) throws {
    let village = Village()
    let (houses, carriers) = try Self.apart(village)
    let ann = houses[0]
    carriers[0].erases = erases
    let id = ann.id
    var answers: [Bool] = []
    ann.mesh.wipe { answers.append($0 == nil) }
    #expect(village.wait { !answers.isEmpty && ann.mesh.node.engine != nil })
    #expect(answers == [erases])
    #expect(carriers[0].wipes == 1 && !ann.mesh.uplink.isAttached)
    #expect(ann.mesh.node.engine?.uplinkKey == nil)
    // The next program learns that the node is another one.
    var next: PeerID?
    try ann.mesh.uplink.attach(carriers[0], key: carriers[0].key) { next = $0 }
    #expect(next != nil && next != id)
  }

  @Test("The uplink refuses a key in another form, and a relay does not use the uplink")
  @LoopActor
  func refused() throws {
    let village = Village()
    let ann = village.add("ann")
    #expect(village.wait { ann.mesh.node.engine != nil })
    let carrier = Carrier("q", village.time)
    for key in ["", "npub1", carrier.key + "q", "nsec1" + String(repeating: "q", count: 58)] {
      #expect(throws: DBusError.self) { try ann.mesh.uplink.attach(carrier, key: key) }
    }
    #expect(!ann.mesh.uplink.isAttached)
  }
}
