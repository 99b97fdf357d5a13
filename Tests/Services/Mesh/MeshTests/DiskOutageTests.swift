import BitchatWire
import Common
import Loop
import TestSupport
import Testing

@testable import Mesh
@testable import MeshStore

@Suite("A mesh node during disk outages")
struct DiskOutageTests {
  init() { EventLoop.shared.runInBackground() }

  @Test(
    "During a disk outage no message is acknowledged; after it each is, and none is lost or duplicated",
    arguments: 0...8)
  @LoopActor
  func lostAndBack(moment: Int) async throws {
    let folder = try ScratchFolder()
    let disk = FlakyDisk(folder.path("state"))
    let village = Village(seed: UInt64(moment + 1))
    let (ann, bob) = (village.add("ann"), village.add("bob", at: 5, store: disk))
    #expect(village.wait { village.isAcquainted })
    let first = try ann.mesh.messages.tell("bob", "first")
    #expect(village.wait(.seconds(10)) { ann.progress[first]?.last == .delivered })
    let texts = (1...6).map { "message \($0)" }
    let numbers = try texts.map { try ann.mesh.messages.tell("bob", $0) }
    let answer = try bob.mesh.messages.tell("ann", "an answer")
    village.time.advance(by: .milliseconds(moment * 15))
    disk.isLost = true
    let early = Set(numbers.filter { ann.mesh.messages.log[$0]?.state == .delivered })
    village.time.advance(by: .seconds(40))
    // A message that was being stored when the disk failed may be on the disk.
    #expect(bob.texts.sorted() == (["first"] + texts).sorted(), "they can be read all the same")
    let meanwhile = Set(numbers.filter { ann.mesh.messages.log[$0]?.state == .delivered })
    #expect(meanwhile.isSuperset(of: early))
    if meanwhile.count < numbers.count { #expect(bob.mesh.reason.contains("the disk")) }

    // After a power failure, every acknowledged message is there.
    let kept = try Self.read(folder)
    for number in meanwhile { #expect(kept.contains(texts[Int(number - numbers[0])]), "\(number)") }

    disk.isLost = false
    // Bob retries the disk every minute, and ann need not resend for that.
    let isBack = village.wait(.seconds(62)) {
      bob.mesh.reason.isEmpty && numbers.allSatisfy { ann.mesh.messages.log[$0]?.state == .delivered }
    }
    #expect(isBack && bob.mesh.messages.unkeptCount == 0)
    #expect(village.wait(.seconds(60)) { bob.mesh.messages.log[answer]?.state == .delivered })
    #expect(ann.texts == ["an answer"])
    let waiting = bob.waiting
    #expect(Set(waiting).count == waiting.count && waiting.count == 7)

    village.restart(bob, "bob", directory: "", store: disk)
    village.time.advance(by: .seconds(30))
    #expect(bob.texts.sorted() == (["first"] + texts).sorted())
  }

  /// Ann and Bob with stored messages, after the loss of Bob's disk.
  @LoopActor
  private static func lost() throws -> (ScratchFolder, FlakyDisk, Village, Village.House, Village.House) {
    let folder = try ScratchFolder()
    let disk = FlakyDisk(folder.path("state"))
    let village = Village()
    let (ann, bob) = (village.add("ann"), village.add("bob", at: 5, store: disk))
    #expect(village.wait { village.isAcquainted })
    let first = try ann.mesh.messages.tell("bob", "first")
    #expect(village.wait(.seconds(10)) { ann.progress[first]?.last == .delivered })
    disk.isLost = true
    return (folder, disk, village, ann, bob)
  }

  /// The state that a start would read from a copy of the folder.
  @LoopActor
  private static func read(_ folder: ScratchFolder) throws -> [String] {
    let copy = try ScratchFolder()
    try folder.copy("state", to: copy)
    let contents = try MeshFiles(path: copy.path("state"), environment: { _ in nil }).open()
    return contents.rows.compactMap {
      guard case .message(let message)? = try? MeshRecord(reading: $0.content) else { return nil }
      return message.text
    }
  }

  @Test("Without its disk a node shows a received message, sends no receipt, and reports the reason")
  @LoopActor
  func neverBack() async throws {
    let folder = try ScratchFolder()
    let disk = FlakyDisk(folder.path("state"))
    let village = Village()
    let (ann, bob) = (village.add("ann"), village.add("bob", at: 5, store: disk))
    #expect(village.wait { village.isAcquainted })
    disk.isLost = true
    let number = try ann.mesh.messages.tell("bob", "is anybody there?")
    village.time.advance(by: .seconds(600))
    #expect(bob.texts == ["is anybody there?"] && bob.waiting.count == 1)
    #expect(ann.mesh.messages.log[number]?.state == .sent && bob.mesh.reason.contains("the disk"))
    // The refusal ends with the process: then the sender resends the message, and it is stored.
    disk.isLost = false
    village.restart(bob, "bob", directory: "", store: disk)
    #expect(bob.texts.isEmpty)
    #expect(village.wait(.seconds(1300)) { ann.mesh.messages.log[number]?.state == .delivered })
    #expect(bob.texts == ["is anybody there?"])
  }

  @Test(
    "A message that is evicted before it was stored is not acknowledged, and is delivered later")
  @LoopActor
  func crowdedOut() throws {
    let (folder, disk, village, ann, bob) = try Self.lost()
    let number = try ann.mesh.messages.tell("bob", "crowded out")
    #expect(village.wait(.seconds(10)) { bob.texts.contains("crowded out") })
    // Enough messages of that peer to evict its oldest.
    for count in 0..<3600 {
      let message = try PrivateMessage(id: BitchatWire.MessageID("message \(count)"), text: "\(count)")
      bob.mesh.messages.told(message, from: ann.id, at: bob.mesh.node.time)
    }
    #expect(!bob.texts.contains("crowded out") && bob.mesh.messages.unkeptCount <= 3600)
    #expect(village.wait(.seconds(1300)) { bob.texts.contains("crowded out") }, "ann says it again")
    #expect(ann.mesh.messages.log[number]?.state == .sent)
    disk.isLost = false
    #expect(village.wait(.seconds(62)) { ann.mesh.messages.log[number]?.state == .delivered })
    #expect(try Self.read(folder).contains("crowded out") && bob.mesh.messages.unkeptCount == 0)
  }

  @Test("A favourite notice that arrives during a disk outage is stored and acknowledged after it")
  @LoopActor
  func favour() async throws {
    let (folder, disk, village, ann, bob) = try Self.lost()
    defer { withExtendedLifetime(folder) {} }
    try ann.mesh.peers.favourite(bob.id, true)
    village.time.advance(by: .seconds(5))
    #expect(bob.mesh.peers.unkeptNotices.count == 1 && bob.mesh.peers.view(of: ann.id)?.marks.isFavouriteOfPeer == true)
    disk.isLost = false
    village.time.advance(by: .seconds(62))
    #expect(bob.mesh.peers.unkeptNotices.isEmpty)
    village.restart(bob, "bob", directory: "", store: disk)
    village.time.advance(by: .seconds(1))
    #expect(bob.mesh.peers.view(of: ann.id)?.marks.isFavouriteOfPeer == true)
  }

  @Test("During a disk outage up to four favourite notices of a peer wait, and further ones are refused")
  @LoopActor
  func manyNotices() async throws {
    let folder = try ScratchFolder()
    let disk = FlakyDisk(folder.path("state"))
    let village = Village()
    let (ann, bob) = (village.add("ann"), village.add("bob", at: 5, store: disk))
    #expect(village.wait { village.isAcquainted })
    disk.isLost = true
    let notices = try (0..<6).map { try BitchatWire.MessageID("notice \($0)") }
    for id in notices { bob.mesh.peers.favourited(ann.id, FavoriteNotice(isFavorite: true), id) }
    #expect(bob.mesh.peers.unkeptNotices == [ann.id: Array(notices.prefix(4))])
    disk.isLost = false
    village.time.advance(by: .seconds(62))
    #expect(bob.mesh.peers.unkeptNotices.isEmpty)
  }

  @Test("A wipe that the disk refused is completed by the next wipe, and the reason is shown until then")
  @LoopActor
  func wipeRefused() throws {
    let folder = try ScratchFolder()
    let disk = FlakyDisk(folder.path("state"))
    let village = Village()
    let (_, bob) = (village.add("ann"), village.add("bob", at: 5, store: disk))
    #expect(village.wait { village.isAcquainted })
    let id = bob.id
    var failures: [Bool] = []
    disk.isLost = true
    bob.mesh.wipe { failures.append($0 != nil) }
    #expect(village.wait(.seconds(5)) { failures == [true] })
    #expect(bob.mesh.wipeWord == "unknown")
    #expect(bob.mesh.reason.contains("the disk") && bob.mesh.reason.contains("earshot mesh wipe"))
    disk.isLost = false
    bob.mesh.wipe { failures.append($0 != nil) }
    #expect(village.wait(.seconds(5)) { failures == [true, false] })
    #expect(bob.id != id && bob.mesh.wipeWord == bob.id.description && bob.mesh.reason.isEmpty)
    #expect(village.wait { village.isAcquainted })
  }

  @Test("Without its store key a node does not use the radio or change the store; with the key its identity returns")
  @LoopActor
  func withoutKey() async throws {
    let (folder, credentials) = (try ScratchFolder(), try ScratchFolder())
    try credentials.write((0..<32).map { UInt8($0) }, to: "earshot-mesh")
    let path = credentials.path
    let withKey: @Sendable (String) -> String? = { $0 == "CREDENTIALS_DIRECTORY" ? path : nil }
    let state = folder.path("state")
    let village = Village()
    let (ann, bob) = (village.add("ann"), village.add("bob", at: 5, store: FlakyDisk(state, environment: withKey)))
    #expect(village.wait { village.isAcquainted })
    let id = bob.id
    let number = try ann.mesh.messages.tell("bob", "kept")
    #expect(village.wait(.seconds(10)) { ann.progress[number]?.last == .delivered })

    village.restart(bob, "bob", directory: "", store: FlakyDisk(state))
    let before = try folder.files()
    village.time.advance(by: .seconds(60))
    #expect(bob.mesh.state == .stopped && bob.mesh.node.engine == nil && bob.radio.address != ann.radio.address)
    #expect(bob.mesh.reason.contains("earshot-mesh") && bob.mesh.reason.contains("earshot mesh wipe"))
    #expect(bob.mesh.statusLine == bob.mesh.reason && bob.mesh.wipeWord == "unknown")
    #expect(throws: MeshRefusal.self) { try bob.mesh.messages.say("nobody says this") }
    #expect(throws: MeshRefusal.self) { try bob.mesh.messages.tell("ann", "nor this") }
    #expect(try folder.files() == before)
    #expect(ann.mesh.neighbours == 0 && ann.mesh.node.engine?.peers.isEmpty == true)

    village.restart(bob, "bob", directory: "", store: FlakyDisk(state, environment: withKey))
    #expect(village.wait { village.isAcquainted })
    #expect(bob.id == id && bob.texts == ["kept"] && bob.mesh.wipeWord == id.description)

    // Alternatively the service restarts.
    village.restart(bob, "bob", directory: "", store: FlakyDisk(state))
    village.time.advance(by: .seconds(1))
    var isWiped = false
    bob.mesh.wipe { isWiped = $0 == nil }
    #expect(village.wait(.seconds(5)) { isWiped })
    #expect(village.wait { village.isAcquainted })
    #expect(bob.id != id && bob.texts.isEmpty && bob.mesh.reason.isEmpty)
  }
}
