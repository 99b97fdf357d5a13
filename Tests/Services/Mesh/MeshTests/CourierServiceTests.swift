import Air
import Common
import Loop
import MeshStore
import TestSupport
import Testing

@testable import Bitchat
@testable import BitchatWire
@testable import Mesh

@Suite("Courier envelopes between mesh nodes")
struct CourierServiceTests {
  init() { EventLoop.shared.runInBackground() }

  /// A street on which ann, bob and cem have met and parted: none is in range of another.
  @LoopActor
  private static func apart(_ village: Village, directory: String? = nil) -> [Village.House] {
    let houses = ["ann", "bob", "cem"].map { village.add($0, directory: $0 == "bob" ? directory : nil) }
    #expect(village.wait { village.isAcquainted })
    for (house, metres) in zip(houses, [0.0, 1000, 2000]) { house.radio.position = AirPosition(x: metres) }
    village.time.advance(by: .seconds(500))
    #expect(houses.allSatisfy { $0.mesh.state == .alone })
    return houses
  }

  @Test(
    "A courier delivers a private message to an absent peer, and its receipt returns"
  )
  @LoopActor
  func walk() async throws {
    let village = Village()
    let houses = Self.apart(village)
    let (ann, bob, cem) = (houses[0], houses[1], houses[2])
    // Bob carries two receipts of a favourite, and one message.
    try bob.mesh.peers.favourite(cem.id, true)
    cem.mesh.node.engine?.favour(by: bob.id, true)
    let number = try ann.mesh.messages.tell(cem.id.description, "when you are back")
    village.time.advance(by: .seconds(5))
    bob.radio.position = AirPosition(x: 5)
    #expect(village.wait(.seconds(60)) { bob.mesh.carried == 1 })
    #expect(ann.progress[number] == [.sent] && bob.texts.isEmpty)
    bob.radio.position = AirPosition(x: 1000)
    village.time.advance(by: .seconds(1800))
    bob.radio.position = AirPosition(x: 2005)
    #expect(village.wait(.seconds(120)) { cem.texts == ["when you are back"] && !cem.waiting.isEmpty })
    #expect(cem.mesh.messages.log.messages.first?.conversation == ann.id)
    let waiting = try #require(cem.waiting.first)
    #expect(cem.mesh.messages.markRead(waiting))
    village.time.advance(by: .seconds(60))
    #expect(ann.progress[number] == [.sent])
    bob.radio.position = AirPosition(x: 5)
    #expect(village.wait(.seconds(120)) { ann.progress[number]?.last == .read })
    // Then ann and cem meet, and the message is still there once.
    cem.radio.position = AirPosition(x: 2)
    village.time.advance(by: .seconds(300))
    #expect(cem.texts == ["when you are back"])
    for (house, metres) in zip(houses, [0.0, 1000, 2000]) { house.radio.position = AirPosition(x: metres) }
    village.time.advance(by: .seconds(25 * 3600))
    #expect(houses.allSatisfy { $0.mesh.carried == 0 })
    #expect(houses.allSatisfy { $0.mesh.node.engine?.peers.isEmpty == true })
  }

  @Test(
    "A peer that has this node as favourite carries longer messages for it, also after a restart",
    arguments: [false, true])
  @LoopActor
  func favouredBy(restarts: Bool) async throws {
    let village = Village()
    let folder = try ScratchFolder()
    let ann = village.add("ann", directory: folder.path("state"))
    let (bob, cem) = (village.add("bob"), village.add("cem"))
    #expect(village.wait { village.isAcquainted })
    try ann.mesh.peers.favourite(cem.id, true)
    let number = try bob.mesh.messages.tell(ann.id.description, "hello")
    #expect(village.wait(.seconds(60)) { bob.progress[number]?.last == .delivered })
    try bob.mesh.peers.favourite(ann.id, true)
    #expect(village.wait(.seconds(60)) { ann.mesh.peers.marks[bob.id]?.isFavouriteOfPeer == true })
    for (house, metres) in zip([ann, bob, cem], [0.0, 1000, 2000]) { house.radio.position = AirPosition(x: metres) }
    village.time.advance(by: .seconds(500))
    if restarts { village.restart(ann, "ann", directory: folder.path("state")) }
    #expect(village.wait(.seconds(10)) { ann.mesh.node.engine != nil })
    let text = String(repeating: "seven hundred bytes of a letter ", count: 22)
    _ = try ann.mesh.messages.tell(cem.id.description, text)
    bob.radio.position = AirPosition(x: 5)
    #expect(village.wait(.seconds(120)) { bob.mesh.carried == 3 })
  }

  @Test("A carried envelope survives a restart in encrypted form, and a wipe erases it")
  @LoopActor
  func restart() async throws {
    let folder = try ScratchFolder()
    let village = Village()
    let houses = Self.apart(village, directory: folder.path("state"))
    let (ann, bob, cem) = (houses[0], houses[1], houses[2])
    _ = try ann.mesh.messages.tell(cem.id.description, "a letter of some length, which nobody else shall read")
    bob.radio.position = AirPosition(x: 5)
    #expect(village.wait(.seconds(60)) { bob.mesh.carried == 1 })
    let sealed = try #require(bob.mesh.node.engine?.courier.desk.bag.envelopes.values.first?.envelope.ciphertext)
    village.time.advance(by: .seconds(5))
    for (_, bytes) in try folder.files() { #expect(!contains(bytes, Array(sealed.prefix(24)))) }
    bob.radio.position = AirPosition(x: 1000)
    village.restart(bob, "bob", directory: folder.path("state"))
    village.time.advance(by: .seconds(1))
    #expect(bob.mesh.carried == 1)
    var isWiped = false
    bob.mesh.wipe { _ in isWiped = true }
    #expect(village.wait { isWiped && bob.mesh.node.engine != nil })
    #expect(bob.mesh.carried == 0)
    bob.radio.position = AirPosition(x: 2005)
    village.time.advance(by: .seconds(120))
    #expect(cem.texts.isEmpty)
  }

  @Test(
    "A mailbox restores 1,000 encrypted envelopes after a restart, and a wipe erases them"
  )
  @LoopActor
  func mailbox() async throws {
    let folder = try ScratchFolder()
    let directory = folder.path("state")
    let village = Village()
    func asMailbox(_ settings: inout MeshSettings) {
      (settings.role, settings.courierEnvelopes) = (.mailbox, 1000)
    }
    let box = village.add("box", directory: directory, asMailbox)
    village.time.advance(by: .seconds(1))
    let now: UInt64 = 1_900_000_000_000
    box.mesh.node.keep(
      try (0..<1000).map { number in
        let mark = Array("ciphertext \(number)".utf8)
        let envelope = try CourierEnvelope(
          tag: #require(CourierTag(mark + [UInt8](repeating: 0, count: 16 - mark.count))),
          expiry: now + 3_600_000, ciphertext: mark + [UInt8](repeating: 7, count: 300))
        let depositor = PeerID(rawValue: UInt64(number / 4 + 1))
        return .carried(
          CarriedEnvelope(envelope: envelope, depositor: depositor, isOfFavourite: number < 500, storedAt: now))
      })
    village.time.advance(by: .seconds(5))
    for (_, bytes) in try folder.files() { #expect(!contains(bytes, Array("ciphertext 7".utf8))) }
    village.restart(box, "box", directory: directory, asMailbox)
    village.time.advance(by: .seconds(1))
    #expect(box.mesh.carried == 1000)
    var isWiped = false
    box.mesh.wipe { _ in isWiped = true }
    #expect(village.wait { isWiped && box.mesh.node.engine != nil })
    village.restart(box, "box", directory: directory, asMailbox)
    village.time.advance(by: .seconds(1))
    #expect(box.mesh.carried == 0)
  }

  @Test("A mailbox that becomes a relay erases its envelopes")
  @LoopActor
  func retired() async throws {
    let folder = try ScratchFolder()
    let directory = folder.path("state")
    let village = Village()
    let box = village.add("box", directory: directory) { $0.role = .mailbox }
    village.time.advance(by: .seconds(1))
    let now: UInt64 = 1_900_000_000_000
    let envelope = try CourierEnvelope(
      tag: #require(CourierTag([UInt8](repeating: 1, count: 16))), expiry: now + 3_600_000,
      ciphertext: [UInt8](repeating: 7, count: 300))
    box.mesh.node.keep([
      .carried(
        CarriedEnvelope(envelope: envelope, depositor: PeerID(rawValue: 1), isOfFavourite: false, storedAt: now))
    ])
    for (role, carried) in [(.mailbox, 1), (.relay, 0), (.mailbox, 0)] as [(NodeRole, Int)] {
      village.time.advance(by: .seconds(5))
      village.restart(box, "box", directory: directory) { $0.role = role }
      village.time.advance(by: .seconds(1))
      #expect(box.mesh.carried == carried, "as \(role)")
    }
  }

  private func contains(_ bytes: [UInt8], _ part: [UInt8]) -> Bool {
    bytes.count >= part.count && (0...(bytes.count - part.count)).contains { bytes[$0..<$0 + part.count] == part[...] }
  }

  @Test("A mailbox carries the configured number of envelopes, a member node 40, and a relay none")
  func roles() {
    var settings = MeshSettings()
    #expect(settings.engine(nickname: "").carries == 40 && settings.memory == 0)
    settings.enabled = true
    let usual = settings.memory
    (settings.role, settings.courierEnvelopes) = (.mailbox, 700)
    #expect(settings.engine(nickname: "").carries == 700 && settings.engine(nickname: "").role == .mailbox)
    #expect(settings.memory > usual)
    settings.role = .relay
    #expect(settings.engine(nickname: "").role == .relay)
  }
}
