import Bytes
import Crypto
import Glibc
import TestSupport
import Testing

@testable import Store

@Suite("Unreadable spool records")
struct SpoolDamageTests {
  var fixture: Fixture

  init() throws {
    fixture = try Fixture()
  }

  enum Damage: CaseIterable {
    case truncated, emptied, lengthened, flipped, aDirectory, anotherFile
  }

  @Test("A damaged spool file is reported once and set aside, and other files are read", arguments: Damage.allCases)
  func damage(damage: Damage) throws {
    let spool = try fixture.spool()
    let good = try spool.put(Fixture.record("good"))
    let bad = try spool.put(Fixture.record("bad"))
    let path = Fixture.path(bad)
    switch damage {
    case .truncated: fixture.disk.change(path) { $0.bytes.removeLast() }
    case .emptied: fixture.disk.change(path) { $0.bytes = [] }
    case .lengthened: fixture.disk.change(path) { $0.bytes.append(0) }
    case .flipped: fixture.disk.change(path) { $0.bytes[70] ^= 0x40 }
    case .aDirectory: fixture.disk.placeDirectory(path)
    case .anotherFile: fixture.disk.place(path, fixture.disk.content(Fixture.path(good)) ?? [])
    }
    let contents = try spool.list()
    #expect(contents.ids == [good])
    #expect(contents.problems.map(\.name) == ["\(bad).00.record"])
    #expect(contents.reasons == [.damaged])
    #expect(Set(fixture.files) == ["\(good).00.record", "\(bad).00.record.damaged"])
    #expect(spool.count == 1)
    #expect(try spool.list().problems == [])
    try spool.remove(bad)
    #expect(fixture.files.count == 2)
  }

  @Test(
    "After a temporary read error no spool file counts as damaged",
    arguments: [EACCES, EMFILE, ENOMEM, EIO], [SimulatedDisk.Operation.open, .read])
  func passingTrouble(errno: Int32, operation: SimulatedDisk.Operation) throws {
    let spool = try fixture.spool()
    let id = try spool.put(Fixture.record("credential"))
    fixture.disk.fail { $0.operation == operation ? errno : nil }
    #expect(try spool.list().problems.map(\.isPassing) == [true])
    #expect(spool.count == 1 && fixture.files == ["\(id).00.record"])
    fixture.disk.fail(nil)
    #expect(try spool.list().ids == [id])
  }

  @Test("A damaged spool file that cannot be set aside is still reported")
  func readOnly() throws {
    let spool = try fixture.spool()
    let bad = try spool.put(Fixture.record("bad"))
    fixture.disk.change(Fixture.path(bad)) { $0.bytes = [] }
    fixture.disk.fail { $0.operation.writes ? EROFS : nil }
    #expect(try spool.list().reasons == [.damaged])
    #expect(fixture.files == ["\(bad).00.record"])
  }

  @Test("The latest damaged spool files are preserved up to a limit, until they expire")
  mutating func bounded() throws {
    fixture.limits.keptDamaged = 2
    let spool = try fixture.spool()
    let ids = try (0..<4).map { number in
      fixture.disk.clock = 100 + Int64(number)
      let id = try spool.put(Fixture.record("\(number)", received: 9999))
      fixture.disk.change(Fixture.path(id)) { $0.bytes[70] ^= 1 }
      return id
    }
    #expect(try spool.list().problems.count == 4)
    #expect(Set(fixture.files) == Set(ids[2...].map { "\($0).00.record.damaged" }))
    _ = spool.removeAll(olderThan: .seconds(10), now: 112)
    #expect(fixture.files.count == 2)
    _ = spool.removeAll(olderThan: .seconds(10), now: 113)
    #expect(fixture.files == ["\(ids[3]).00.record.damaged"])
    _ = spool.removeAll(olderThan: .seconds(10), now: 114)
    #expect(fixture.files == [])
  }

  @Test("Damaged spool files do not reduce the capacity for records")
  mutating func room() throws {
    fixture.limits.maximumCount = 1
    let spool = try fixture.spool()
    let bad = try spool.put(Fixture.record("bad"))
    fixture.disk.change(Fixture.path(bad)) { $0.bytes = [] }
    _ = try spool.list()
    _ = try spool.put(Fixture.record("good"))
  }

  @Test("Spool files sealed with another key are reported, preserved, and read when the key is restored")
  mutating func otherKey() throws {
    fixture.limits.maximumCount = 1
    let right = fixture.key
    var spool: RecordSpool? = try fixture.spool()
    let id = try #require(try spool?.put(Fixture.record("credential", received: 50)))
    spool = nil
    fixture.key = try SpoolKey(SecretBytes(copying: [UInt8](repeating: 5, count: 32)), .made)
    spool = try fixture.spool(seed: 2)
    let contents = try #require(try spool?.list())
    #expect(contents.entries == [])
    #expect(contents.reasons == [.keyMissing])
    #expect(contents.problems.first?.error.sentence.contains("spool.key") == true)
    #expect(spool?.count == 1)
    let mine = try #require(try spool?.put(Fixture.record("mine")))
    #expect(caught(StoreError.self) { try spool?.put(Fixture.record("more")) }?.reason == .spoolFull)
    try spool?.remove(mine)
    spool = nil
    fixture.key = right
    #expect(try fixture.spool(seed: 3).list().ids == [id])
    fixture.key = try SpoolKey(SecretBytes(copying: [UInt8](repeating: 5, count: 32)), .made)
    spool = try fixture.spool(seed: 4)
    _ = try spool?.list()
    #expect(spool?.removeAll(olderThan: .seconds(1), now: 52).removed == [id])
  }

  @Test("Spool files of another release are reported, and preserved until they expire")
  mutating func otherVersion() throws {
    fixture.limits.maximumCount = 1
    let spool = try fixture.spool()
    let id = try spool.put(Fixture.record("credential", received: 50))
    fixture.disk.change(Fixture.path(id)) { $0.bytes[9] = 1 }
    for _ in 0..<2 { #expect(try spool.list().reasons == [.otherRelease]) }
    #expect(fixture.files == ["\(id).00.record"])
    _ = try spool.put(Fixture.record("mine", received: 60))
    #expect(spool.removeAll(olderThan: .seconds(1), now: 52).removed == [id])
  }

  @Test(
    "A spool file of an earlier release is recognised by its name and reported",
    arguments: ["credential", "accepted"])
  mutating func earlierRelease(ending: String) throws {
    fixture.limits.maximumCount = 1
    let id = try #require(SpoolID(String(repeating: "ab", count: 16)))
    _ = try fixture.spool()
    let bytes = (0..<200).map { UInt8($0) }
    fixture.disk.clock = 1000
    fixture.disk.place(Fixture.path(id, ending), bytes)
    let spool = try fixture.spool(seed: 2)
    let contents = try spool.list()
    #expect(contents.entries == [] && contents.reasons == [.otherRelease])
    #expect(contents.problems.first?.error.sentence.contains("another release") == true)
    #expect(contents.problems.map(\.isPassing) == [false])
    #expect(fixture.files == ["\(id).\(ending)"] && spool.count == 1)
    // The file uses no capacity, gets neither a mark nor a date, and is removed when it is too old by its
    // modification time.
    let mine = try spool.put(Fixture.record("mine", received: 1005))
    try spool.mark(id, as: 1)
    try spool.redate(id, received: 5)
    #expect(fixture.files.contains("\(id).\(ending)") && fixture.files.count == 2)
    #expect(spool.removeAll(olderThan: .seconds(10), now: 1010).removed == [])
    #expect(spool.removeAll(olderThan: .seconds(10), now: 1011).removed == [id])
    #expect(fixture.files == ["\(mine).00.record"] && !fixture.disk.holds(anyOf: bytes))
  }

  @Test("A record whose content its owner refuses is set aside, and content of another version is preserved")
  func undecodable() throws {
    let spool = try fixture.spool()
    let ids = try (1...3).map { try spool.put(Fixture.record("\($0)", received: Int64($0), mark: UInt8($0))) }
    let contents = try spool.list { (record) throws(WireError) -> UInt8 in
      if record.mark == 1 { throw .badValue("mark") }
      if record.mark == 2 { throw .badValue("version") }
      return record.content[0]
    }
    #expect(contents.values == [0x33] && contents.ids == [ids[2]] && contents.reasons == [.damaged, .otherRelease])
    #expect(Set(fixture.files) == ["\(ids[0]).01.record.damaged", "\(ids[1]).02.record", "\(ids[2]).03.record"])
  }

  @Test("If a record has two files, the one with the greater mark is read, and a removal deletes both")
  func twoFiles() throws {
    let id = try fixture.spool().put(Fixture.record("one"))
    fixture.disk.place(Fixture.path(id, "02.record"), fixture.disk.content(Fixture.path(id)) ?? [])
    let spool = try fixture.spool(seed: 2)
    for _ in 0..<2 { #expect(try spool.list().values == [Fixture.record("one", mark: 2)]) }
    try spool.remove(id)
    #expect(fixture.files == [])
  }

  @Test("Spool files of unfinished operations are erased at the next start")
  func leftovers() throws {
    _ = try fixture.spool()
    let id = try #require(SpoolID(String(repeating: "ab", count: 16)))
    let bytes = (0..<200).map { UInt8($0) }
    fixture.disk.place(Fixture.path(id, "new"), bytes)
    fixture.disk.place(Fixture.path(id, "erased"), bytes)
    fixture.disk.place(Fixture.path(id, "01.record.erased"), bytes)
    #expect(try fixture.spool().list().entries == [])
    #expect(fixture.files == [])
    #expect(!fixture.disk.holds(anyOf: bytes))
  }
}
