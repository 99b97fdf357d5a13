import BitchatWire
import Common
import Crypto
import Loop
import MeshStore
import Store
import TestSupport
import Testing

@testable import Mesh

@Suite("Mesh files on the simulated radio")
struct FileTests {
  init() { EventLoop.shared.runInBackground() }

  private static func content(_ count: Int, seed: UInt64 = 1) -> [UInt8] {
    var random = SeededRandom(seed: seed)
    return random.bytes(count)
  }

  @LoopActor
  private static func content(of number: UInt32, at house: Village.House, _ village: Village) -> [UInt8]? {
    var found: Result<[UInt8], StoreError>?
    house.mesh.files.open(number) { found = $0 }
    _ = village.wait(.seconds(1)) { found != nil }
    return try? found?.get()
  }

  @LoopActor
  private static func incoming(_ house: Village.House) -> [FileLog.Entry] {
    house.mesh.files.log.numbers.compactMap { house.mesh.files[$0] }.filter { $0.direction == .incoming }
  }

  @Test(
    "Files of 1 byte, 100 kB and 1 MiB arrive unchanged, sent publicly and privately", arguments: [1, 100_000, 1 << 20])
  @LoopActor
  func arrive(size: Int) async throws {
    let village = Village()
    let (ann, bob) = (village.add("ann"), village.add("bob", at: 5))
    #expect(village.wait { village.isAcquainted })
    for (name, peer) in [("public.bin", ""), ("private.bin", "bob")] {
      let content = Self.content(size, seed: UInt64(name.count))
      let number = try ann.mesh.files.send(file: content, name: "/srv/ann/" + name, mime: "", to: peer)
      #expect(village.wait(.seconds(300)) { Self.incoming(bob).contains { $0.name == name } })
      let file = try #require(Self.incoming(bob).last)
      #expect(file.peer == ann.id && file.size == size && file.isPrivate == !peer.isEmpty)
      #expect(file.mime == "application/octet-stream")
      #expect(Self.content(of: file.number, at: bob, village) == content)
      #expect(village.wait(.seconds(20)) { ann.mesh.files[number]?.state == (peer.isEmpty ? .sent : .delivered) })
      #expect(ann.mesh.files[number]?.percent == 100)
    }
    #expect(bob.mesh.files.log.numbers.count == 2)
  }

  @Test("Mesh files survive a restart in encrypted form, and deleting and wiping erase them")
  @LoopActor
  func kept() async throws {
    let folder = try ScratchFolder()
    let village = Village()
    let (ann, bob) = (village.add("ann"), village.add("bob", at: 5, directory: folder.path("state")))
    #expect(village.wait { village.isAcquainted })
    let contents = [Array(repeating: UInt8(ascii: "x"), count: 3000), Self.content(2000)]
    for (place, content) in contents.enumerated() {
      _ = try ann.mesh.files.send(file: content, name: "file \(place)", mime: "", to: "bob")
      #expect(village.wait(.seconds(60)) { Self.incoming(bob).count == place + 1 })
    }
    func sealed() throws -> [String] { try folder.files().keys.filter { $0.contains("file-") } }
    #expect(try sealed().count == 2)
    village.restart(bob, "bob", directory: folder.path("state"))
    #expect(village.wait(.seconds(5)) { Self.incoming(bob).count == 2 })
    let files = Self.incoming(bob)
    #expect(files.map(\.name) == ["file 0", "file 1"] && files.allSatisfy(\.isPrivate))
    #expect(Self.content(of: files[0].number, at: bob, village) == contents[0])
    var isDeleted = false
    bob.mesh.files.delete(files[0].number) { isDeleted = $0 == nil }
    #expect(village.wait(.seconds(5)) { isDeleted })
    #expect(try sealed().count == 1 && bob.mesh.files.log.numbers.count == 1)
    var isWiped = false
    bob.mesh.wipe { isWiped = $0 == nil }
    #expect(village.wait(.seconds(5)) { isWiped })
    #expect(try sealed().isEmpty && bob.mesh.files.log.numbers.isEmpty)
  }

  @Test("A file that is not allowed, or that the phone apps refuse, is rejected before it is sent")
  @LoopActor
  func refused() async throws {
    let village = Village()
    let (ann, _) = (village.add("ann"), village.add("bob", at: 5))
    #expect(village.wait { village.isAcquainted })
    let refusals: [([UInt8], String, String, String)] = [
      ([], "", "", "EmptyFile"), (Self.content((1 << 20) + 1), "", "", "FileTooLong"),
      ([1], "text/plain", "", "OtherKind"),
      ([1], "image/png", "", "OtherKind"), ([1], "", "nobody", "UnknownPeer"),
    ]
    for (content, mime, peer, code) in refusals {
      do {
        _ = try ann.mesh.files.send(file: content, name: "a", mime: mime, to: peer)
        Issue.record("not refused: \(code)")
      } catch {
        #expect(error.code == code)
      }
    }
    #expect(ann.mesh.files.log.numbers.isEmpty)
  }

  @Test(
    "During a radio inhibit no fragment is sent, and a cancelled file leaves the queues at once")
  @LoopActor
  func cancelled() async throws {
    let village = Village()
    let (ann, bob) = (village.add("ann"), village.add("bob", at: 5))
    #expect(village.wait { village.isAcquainted })
    let number = try ann.mesh.files.send(file: Self.content(200_000), name: "a", mime: "", to: "")
    #expect(village.wait(.seconds(60)) { ann.mesh.files[number]?.percent ?? 0 >= 20 })
    #expect(ann.mesh.files.cancel(number))
    // Only a ping may be left.
    #expect(ann.mesh.links.ports.values.allSatisfy { $0.queue.files <= 1 })
    #expect(ann.mesh.files[number]?.state == .cancelled && !ann.mesh.files.cancel(number))
    // Packets that the radio has already accepted still arrive.
    village.time.advance(by: .seconds(3))
    let frames = bob.mesh.node.engine?.counters.frames ?? 0
    village.time.advance(by: .seconds(2))
    #expect((bob.mesh.node.engine?.counters.frames ?? 0) - frames < 8, "announces and requests at most")
    #expect(Self.incoming(bob).isEmpty)
    village.time.advance(by: .seconds(120))
    #expect(Self.incoming(bob).isEmpty)
  }

  @Test("A file that is deleted while it is sent is not sent further")
  @LoopActor
  func deletedOnItsWay() async throws {
    let village = Village()
    let (ann, bob) = (village.add("ann"), village.add("bob", at: 5))
    #expect(village.wait { village.isAcquainted })
    let number = try ann.mesh.files.send(file: Self.content(200_000), name: "a", mime: "", to: "")
    #expect(village.wait(.seconds(60)) { ann.mesh.files[number]?.percent ?? 0 >= 20 })
    var isDeleted = false
    ann.mesh.files.delete(number) { isDeleted = $0 == nil }
    #expect(
      ann.mesh.links.ports.values.allSatisfy { $0.queue.files <= 1 }
        && ann.mesh.node.engine?.content(ofFile: number) == nil)
    village.time.advance(by: .seconds(60))
    #expect(isDeleted && ann.mesh.files.log.numbers.isEmpty && Self.incoming(bob).isEmpty)
  }

  @Test("A public file that was deleted after sending is not given to a new neighbour")
  @LoopActor
  func deletedAfterwards() async throws {
    for isDeleted in [false, true] {
      let village = Village()
      let ann = village.add("ann")
      village.add("bob", at: 5)
      #expect(village.wait { village.isAcquainted })
      let number = try ann.mesh.files.send(file: Self.content(20_000), name: "a", mime: "", to: "")
      #expect(village.wait(.seconds(60)) { ann.mesh.files[number]?.state == .sent })
      if isDeleted { ann.mesh.files.delete(number) { #expect($0 == nil) } }
      // In ann's range, and out of bob's.
      let cat = village.add("cat", at: -8)
      #expect(village.wait { cat.mesh.neighbours == 1 })
      village.time.advance(by: .seconds(60))
      #expect(Self.incoming(cat).count == (isDeleted ? 0 : 1))
    }
  }

  @Test("A mesh ping reports hops and time, and a ping to an absent peer is reported as lost")
  @LoopActor
  func ping() async throws {
    let village = Village()
    let (ann, bob, cat) = (village.add("ann"), village.add("bob", at: 8), village.add("cat", at: 16))
    #expect(village.wait { village.isAcquainted })
    var pongs: [MeshPings.Outcome] = []
    try ann.mesh.pings.ping("cat") { pongs.append($0) }
    #expect(village.wait(.seconds(5)) { pongs.count == 1 })
    guard case .answered(let milliseconds, let hops)? = pongs.first else {
      Issue.record("no answer")
      return
    }
    #expect(hops == 2 && milliseconds > 0)
    cat.radio.power = false
    bob.radio.power = false
    try ann.mesh.pings.ping(cat.id.description) { pongs.append($0) }
    #expect(village.wait(.seconds(11)) { pongs.count == 2 })
    guard case .lost? = pongs.last else {
      Issue.record("an answer from nobody")
      return
    }
    bob.radio.power = true
    #expect(village.wait { ann.mesh.neighbours == 1 })
    pongs = []
    for _ in 0..<Limits.waitingPings { try ann.mesh.pings.ping(cat.id.description) { pongs.append($0) } }
    do {
      try ann.mesh.pings.ping(cat.id.description) { _ in }
      Issue.record("one more waits")
    } catch { #expect(error.sentence == "64 pings are already waiting for their answers.") }
    #expect(village.wait(.seconds(11)) { pongs.count == Limits.waitingPings })
    try ann.mesh.pings.ping(cat.id.description) { _ in }
  }
}
