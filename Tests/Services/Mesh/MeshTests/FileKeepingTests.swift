import Air
import Common
import Crypto
import Loop
import TestSupport
import Testing

@testable import Bitchat
@testable import BitchatWire
@testable import Mesh
@testable import MeshStore

@Suite("Storing received mesh files")
struct FileKeepingTests {
  init() { EventLoop.shared.runInBackground() }

  @LoopActor
  private static func names(_ house: Village.House) -> [String] {
    house.mesh.files.log.numbers.compactMap { house.mesh.files[$0]?.name }
  }

  @Test(
    "A file that a disk refuses is acknowledged and stored once, when the disk works again", arguments: [false, true])
  @LoopActor
  func refused(isPublic: Bool) async throws {
    let folder = try ScratchFolder()
    let disk = FlakyDisk(folder.path("state"))
    let village = Village()
    let (ann, bob) = (village.add("ann"), village.add("bob", at: 5, store: disk))
    #expect(village.wait { village.isAcquainted })
    disk.isLost = true
    let number = try ann.mesh.files.send(file: [1, 2, 3], name: "a", mime: "", to: isPublic ? "" : "bob")
    #expect(village.wait(.seconds(60)) { bob.mesh.reason.contains("the disk") })
    village.time.advance(by: .seconds(10))
    #expect(Self.names(bob).isEmpty && bob.mesh.files.waiting == 1)
    #expect(ann.mesh.files[number]?.state == (isPublic ? .sent : .sending))
    disk.isLost = false
    #expect(village.wait(.seconds(62)) { Self.names(bob) == ["a"] })
    #expect(village.wait(.seconds(30)) { isPublic || ann.mesh.files[number]?.state == .delivered })
    village.time.advance(by: .seconds(120))
    village.restart(bob, "bob", directory: "", store: disk)
    village.time.advance(by: .seconds(5))
    #expect(Self.names(bob) == ["a"])
    #expect(try folder.files().keys.filter { $0.contains("file-") }.count == 1)
  }

  @Test("A private file that is sent again after a restart is acknowledged, and stored only once")
  @LoopActor
  func again() async throws {
    let folder = try ScratchFolder()
    let village = Village()
    let (ann, bob) = (village.add("ann"), village.add("bob", at: 5, directory: folder.path("state")))
    #expect(village.wait { village.isAcquainted })
    let number = try ann.mesh.files.send(file: [1, 2, 3], name: "a", mime: "", to: "bob")
    #expect(village.wait(.seconds(60)) { Self.names(bob) == ["a"] })
    // The acknowledgement is lost.
    bob.radio.power = false
    village.restart(bob, "bob", directory: folder.path("state"))
    bob.radio.power = true
    #expect(village.wait(.seconds(5)) { Self.names(bob) == ["a"] })
    #expect(ann.mesh.files[number]?.state == .sending)
    #expect(village.wait(.seconds(600)) { ann.mesh.files[number]?.state == .delivered })
    #expect(Self.names(bob) == ["a"])
  }

  @Test(
    "A deleted file does not return, even after a restart, and its sender gets a receipt",
    arguments: [false, true], [false, true])
  @LoopActor
  func deleted(isPublic: Bool, isRestarted: Bool) async throws {
    let folder = try ScratchFolder()
    let village = Village()
    let (ann, bob) = (village.add("ann"), village.add("bob", at: 5, directory: folder.path("state")))
    #expect(village.wait { village.isAcquainted })
    let number = try ann.mesh.files.send(file: [1, 2, 3], name: "a", mime: "", to: isPublic ? "" : "bob")
    #expect(village.wait(.seconds(60)) { Self.names(bob) == ["a"] })
    // The acknowledgement is lost.
    bob.radio.power = false
    var answers: [Bool] = []
    bob.mesh.files.delete(try #require(bob.mesh.files.log.numbers.first)) { answers.append($0 == nil) }
    #expect(village.wait(.seconds(5)) { answers == [true] })
    var told: [UInt32] = []
    if isRestarted { village.restart(bob, "bob", directory: folder.path("state")) }
    bob.mesh.files.arrivals.addForGood { told.append($0) }
    bob.radio.power = true
    #expect(village.wait(.seconds(600)) { isPublic || ann.mesh.files[number]?.state == .delivered })
    // Long enough for sync requests of missing fragments.
    village.time.advance(by: .seconds(120))
    #expect(Self.names(bob).isEmpty && told.isEmpty)
    #expect(bob.mesh.node.engine?.neighbours == [ann.id])
  }

  @Test("A node that became a relay erases deleted files from its disk")
  @LoopActor
  func relay() async throws {
    let folder = try ScratchFolder()
    let village = Village()
    let (ann, bob) = (village.add("ann"), village.add("bob", at: 5, directory: folder.path("state")))
    #expect(village.wait { village.isAcquainted })
    _ = try ann.mesh.files.send(file: [1, 2, 3], name: "a", mime: "", to: "bob")
    #expect(village.wait(.seconds(60)) { Self.names(bob) == ["a"] })
    village.restart(bob, "bob", directory: folder.path("state")) { $0.role = .relay }
    #expect(village.wait(.seconds(5)) { Self.names(bob) == ["a"] })
    var answers: [Bool] = []
    bob.mesh.files.delete(try #require(bob.mesh.files.log.numbers.first)) { answers.append($0 == nil) }
    #expect(village.wait(.seconds(5)) { answers == [true] })
    #expect(try folder.files().keys.filter { $0.contains("file-") }.isEmpty)
    village.restart(bob, "bob", directory: folder.path("state"))
    village.time.advance(by: .seconds(5))
    #expect(Self.names(bob).isEmpty)
  }

  @Test("A wipe also erases a file that is being stored, and its number is not used again")
  @LoopActor
  func wiped() async throws {
    let folder = try ScratchFolder()
    let village = Village()
    let worker = HeldDisk(village.time)
    let (ann, bob) = (village.add("ann"), village.add("bob", at: 5, directory: folder.path("state"), disk: worker))
    #expect(village.wait { village.isAcquainted })
    worker.isHeld = true
    _ = try ann.mesh.files.send(file: [1, 2, 3], name: "a", mime: "", to: "bob")
    #expect(village.wait(.seconds(60)) { bob.mesh.files.waiting == 1 })
    var isWiped = false
    bob.mesh.wipe { isWiped = $0 == nil }
    worker.isHeld = false
    #expect(village.wait(.seconds(5)) { isWiped })
    village.time.advance(by: .seconds(5))
    #expect(Self.names(bob).isEmpty && bob.mesh.files.waiting == 0)

    let number = try bob.mesh.files.send(file: [1], name: "b", mime: "", to: "")
    village.time.advance(by: .seconds(5))
    village.restart(bob, "bob", directory: folder.path("state"))
    #expect(village.wait { village.isAcquainted })
    #expect(try bob.mesh.messages.say("after the file") > number)
  }

  @Test("A mailbox sends and receives messages and files; a relay does neither")
  @LoopActor
  func roles() async throws {
    for role in [NodeRole.mailbox, .relay] {
      let village = Village()
      let (ann, box) = (village.add("ann"), village.add("box", at: 5) { $0.role = role })
      #expect(village.wait { village.isAcquainted })
      _ = try ann.mesh.messages.say("good morning")
      _ = try ann.mesh.files.send(file: [1, 2, 3], name: "a", mime: "", to: "")
      village.time.advance(by: .seconds(20))
      #expect(box.texts == (role == .mailbox ? ["good morning"] : []))
      #expect(Self.names(box) == (role == .mailbox ? ["a"] : []))
      let said = try? box.mesh.messages.say("good evening")
      #expect((said != nil) == (role == .mailbox))
      let sent = try? box.mesh.files.send(file: [1], name: "b", mime: "", to: "")
      #expect((sent != nil) == (role == .mailbox))
    }
  }

  @Test("A file that exceeds the capacity is counted as lost, and does not delay later files")
  @LoopActor
  func noPlace() async throws {
    let folder = try ScratchFolder()
    let village = Village()
    let ann = village.add("ann")
    let bob = village.add("bob", at: 5, directory: folder.path("state")) { $0.fileStore = 4000 }
    #expect(village.wait { village.isAcquainted })
    func give(_ name: String, _ size: Int, to peer: String) throws {
      _ = try ann.mesh.files.send(file: [UInt8](repeating: 7, count: size), name: name, mime: "", to: peer)
    }
    var told: [UInt32] = []
    bob.mesh.files.arrivals.addForGood { told.append($0) }
    try give("dear", 3000, to: "bob")
    #expect(village.wait(.seconds(60)) { Self.names(bob) == ["dear"] })
    // A public file does not evict a private one.
    try give("large", 2000, to: "")
    #expect(village.wait(.seconds(10)) { bob.mesh.files.lost == 1 })
    #expect(bob.mesh.files.waiting == 0 && Self.names(bob) == ["dear"])
    try give("small", 500, to: "")
    #expect(village.wait(.seconds(10)) { Self.names(bob) == ["dear", "small"] })
    #expect(told == bob.mesh.files.log.numbers)
  }

  @Test("The files accepted per minute are limited for each sender, for each link and in total")
  func rates() throws {
    var intake = FileIntake()
    var taken = 0
    for number in 0..<100 as Range<UInt64> {
      guard intake.take(Self.file(number, of: number % 2), at: .zero) else { continue }
      taken += 1
      let file = intake.next(at: .zero)
      intake.wrote(try #require(file))
    }
    #expect(taken == 2 * FileIntake.perMinuteOfSender && intake.refused == 60 && intake.count == 0)
    func take(_ numbers: Range<UInt64>, over link: UInt64, isPrivate: Bool = false, isOfFavourite: Bool = false) -> Int
    {
      numbers.count { number in
        let file = Self.file(number, of: number, over: link, isPrivate: isPrivate)
        let isTaken = intake.take(file, isOfFavourite: isOfFavourite, at: .zero)
        if isTaken, let next = intake.next(at: .zero) { intake.wrote(next) }
        return isTaken
      }
    }
    // Many senders over one link are limited by the link's quota, and many links by the total quota.
    intake = FileIntake()
    #expect(take(100..<200, over: 7) == FileIntake.perMinuteOfLink)
    #expect(take(200..<300, over: 8) + take(300..<600, over: 9) == FileIntake.perMinute - FileIntake.perMinuteOfLink)
    // A sender that exceeds its quota does not use up the quota of others on its link.
    intake = FileIntake()
    let ofOne = (0..<40).count { intake.take(Self.file($0, of: 1, over: 7), at: .zero) }
    let ofOther = (40..<60).count { intake.take(Self.file($0, of: 2, over: 7), at: .zero) }
    #expect(ofOne == FileIntake.perMinuteOfSender && ofOther == FileIntake.perMinuteOfLink - ofOne)
    intake = FileIntake()
    #expect(take(0..<300, over: 8) + take(300..<600, over: 9) == FileIntake.perMinute)
    // Public files do not use up the quota of private files, nor both that of favourites.
    #expect(take(600..<700, over: 9, isPrivate: true) == FileIntake.perMinute)
    #expect(take(700..<710, over: 9, isOfFavourite: true) == 10)
    #expect(take(710..<720, over: 9, isPrivate: true, isOfFavourite: true) == 10)
    #expect(take(720..<800, over: 9, isOfFavourite: true) == FileIntake.perMinute - 20)
    let later = Instant.zero.advanced(by: .seconds(61))
    let isTaken = intake.take(Self.file(300, of: 0), at: later)
    #expect(isTaken)
  }

  @Test("A favourite's file is accepted after strangers have used up their limit of files", arguments: [true, false])
  @LoopActor
  func ofFavourite(isFavourite: Bool) throws {
    let village = Village()
    let (ann, bob) = (village.add("ann"), village.add("bob", at: 5))
    #expect(village.wait { village.isAcquainted })
    if isFavourite { try bob.mesh.peers.favourite(ann.id, true) }
    for number in 0..<100 as Range<UInt64> {
      bob.mesh.files.received(Self.file(number, of: number))
      #expect(village.wait(.seconds(1)) { bob.mesh.files.waiting == 0 })
    }
    _ = try ann.mesh.files.send(file: [1, 2, 3], name: "a", mime: "", to: "")
    #expect(village.wait(.seconds(20)) { Self.names(bob).contains("a") } == isFavourite)
  }

  @Test("The files that wait for the disk are limited, stay in order, and are written again after a refusal")
  func waiting() throws {
    var intake = FileIntake()
    for number in 0..<9 as Range<UInt64> {
      let isTaken = intake.take(Self.file(number, of: number, bytes: 1 << 20), at: .zero)
      #expect(isTaken == (number < 8))
      let isTakenTwice = intake.take(Self.file(number, of: number, bytes: 1 << 20), at: .zero)
      #expect(!isTakenTwice)
    }
    #expect(intake.lost == 2, "the ninth, twice")
    let (first, second) = (intake.next(at: .zero), intake.next(at: .zero))
    #expect(first?.sender == PeerID(rawValue: 0) && second?.sender == PeerID(rawValue: 1))
    let third = intake.next(at: .zero)
    #expect(third == nil, "two at a time")
    intake.putBack(try #require(first), until: Instant.zero.advanced(by: .seconds(15)))
    intake.wrote(try #require(second))
    let early = intake.next(at: Instant.zero.advanced(by: .seconds(14)))
    let again = intake.next(at: Instant.zero.advanced(by: .seconds(15)))
    #expect(early == nil && again?.sender == PeerID(rawValue: 0))
    intake.lose(try #require(again))
    #expect(intake.lost == 3 && intake.count == 6)
    // A file that was written or lost no longer counts: 2 MiB are free.
    let taken = (20..<23 as Range<UInt64>).map { intake.take(Self.file($0, of: $0, bytes: 1 << 20), at: .zero) }
    #expect(taken == [true, true, false])
  }

  @Test("At most 64 files wait for the disk, however small, and further ones are counted as lost")
  func many() {
    var intake = FileIntake()
    var taken = 0
    for number in 0..<70 as Range<UInt64> {
      // Spread over more than a minute, these files pass.
      let now = Instant.zero.advanced(by: .seconds(number < 60 ? 0 : 61))
      if intake.take(Self.file(number, of: number), at: now) { taken += 1 }
    }
    #expect(taken == FileIntake.limit && intake.count == FileIntake.limit && intake.lost == 6)
  }

  private static func file(
    _ number: UInt64, of sender: UInt64, over link: UInt64? = nil, isPrivate: Bool = false, bytes: Int = 1
  ) -> ReceivedFile {
    ReceivedFile(
      sender: PeerID(rawValue: sender), nickname: "", name: "\(number)", kind: .jpeg,
      content: [UInt8](repeating: 0, count: bytes), time: number,
      packet: isPrivate
        ? nil : PacketID(Packet(type: .fileTransfer, timestamp: number, sender: PeerID(rawValue: sender), payload: [])),
      receipt: isPrivate ? try? MessageID("FILE-\(number)") : nil, link: LinkID(link ?? number))
  }
}

/// A disk worker that the test can hold.
@LoopActor
private final class HeldDisk: Offloading {
  private let time: VirtualTime
  private var held: [@LoopActor () -> Void] = []
  var isHeld = false {
    didSet {
      guard !isHeld else { return }
      let works = held
      held = []
      for work in works { work() }
    }
  }

  init(_ time: VirtualTime) { self.time = time }

  func offload<Value: Sendable>(
    _ work: @escaping @Sendable () -> Value, then: @escaping @LoopActor (Value) -> Void
  ) {
    guard isHeld else { return time.offload(work, then: then) }
    held.append { [time] in time.offload(work, then: then) }
  }
}
