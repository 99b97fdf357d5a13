import Crypto
import Glibc
import TestSupport
import Testing

@testable import Store

@Suite("Credentials that cannot be read")
struct SpoolDamageTests {
  var fixture: Fixture

  init() throws {
    fixture = try Fixture()
  }

  enum Damage: CaseIterable {
    case truncated, emptied, lengthened, flipped, aDirectory, anotherFile
  }

  @Test("A damaged file is reported once and set aside, and keeps no other from being read", arguments: Damage.allCases)
  func damage(damage: Damage) throws {
    let spool = try fixture.spool()
    let good = try spool.put(Fixture.entry("good"))
    let bad = try spool.put(Fixture.entry("bad"))
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
    #expect(contents.credentials.map(\.id) == [good])
    #expect(contents.problems.map(\.name) == ["\(bad).credential"])
    #expect(contents.reasons == [.damaged])
    #expect(Set(fixture.files) == ["\(good).credential", "\(bad).credential.damaged"])
    #expect(spool.count == 1)
    #expect(try spool.list().problems == [])
    try spool.remove(bad)
    #expect(fixture.files.count == 2)
  }

  @Test(
    "A disk that cannot be opened or read for a while damages nothing",
    arguments: [EACCES, EMFILE, ENOMEM, EIO], [SimulatedDisk.Operation.open, .read])
  func passingTrouble(errno: Int32, operation: SimulatedDisk.Operation) throws {
    let spool = try fixture.spool()
    let id = try spool.put(Fixture.entry("credential"))
    fixture.disk.fail { $0.operation == operation ? errno : nil }
    #expect(try spool.list().problems.map(\.isPassing) == [true])
    #expect(spool.count == 1 && fixture.files == ["\(id).credential"])
    fixture.disk.fail(nil)
    #expect(try spool.list().credentials.map(\.id) == [id])
  }

  @Test("What cannot be set aside is reported all the same")
  func readOnly() throws {
    let spool = try fixture.spool()
    let bad = try spool.put(Fixture.entry("bad"))
    fixture.disk.change(Fixture.path(bad)) { $0.bytes = [] }
    fixture.disk.fail { $0.operation.writes ? EROFS : nil }
    #expect(try spool.list().reasons == [.damaged])
    #expect(fixture.files == ["\(bad).credential"])
  }

  @Test("Of damaged files the youngest are kept, as many as the limit says, and none when they are old")
  mutating func bounded() throws {
    fixture.limits.keptDamaged = 2
    let spool = try fixture.spool()
    let ids = try (0..<4).map { number in
      fixture.disk.clock = 100 + Int64(number)
      let id = try spool.put(Fixture.entry("\(number)", received: 9999))
      fixture.disk.change(Fixture.path(id)) { $0.bytes[70] ^= 1 }
      return id
    }
    #expect(try spool.list().problems.count == 4)
    #expect(Set(fixture.files) == Set(ids[2...].map { "\($0).credential.damaged" }))
    _ = spool.removeAll(olderThan: .seconds(10), now: 112)
    #expect(fixture.files.count == 2)
    _ = spool.removeAll(olderThan: .seconds(10), now: 113)
    #expect(fixture.files == ["\(ids[3]).credential.damaged"])
    _ = spool.removeAll(olderThan: .seconds(10), now: 114)
    #expect(fixture.files == [])
  }

  @Test("Damaged files take no room from credentials")
  mutating func room() throws {
    fixture.limits.maximumCount = 1
    let spool = try fixture.spool()
    let bad = try spool.put(Fixture.entry("bad"))
    fixture.disk.change(Fixture.path(bad)) { $0.bytes = [] }
    _ = try spool.list()
    _ = try spool.put(Fixture.entry("good"))
  }

  @Test("What another key sealed is reported, left alone, takes no room, and is read when the key is back")
  mutating func otherKey() throws {
    fixture.limits.maximumCount = 1
    let right = fixture.key
    var spool: CredentialSpool? = try fixture.spool()
    let id = try #require(try spool?.put(Fixture.entry("credential", received: 50)))
    spool = nil
    fixture.key = try SpoolKey(SecretBytes(copying: [UInt8](repeating: 5, count: 32)), .made)
    spool = try fixture.spool(seed: 2)
    let contents = try #require(try spool?.list())
    #expect(contents.credentials == [])
    #expect(contents.reasons == [.keyMissing])
    #expect(contents.problems.first?.error.sentence.contains("spool.key") == true)
    #expect(spool?.count == 1)
    let mine = try #require(try spool?.put(Fixture.entry("mine")))
    #expect(caught(StoreError.self) { try spool?.put(Fixture.entry("more")) }?.reason == .spoolFull)
    try spool?.remove(mine)
    spool = nil
    fixture.key = right
    #expect(try fixture.spool(seed: 3).list().credentials.map(\.id) == [id])
    fixture.key = try SpoolKey(SecretBytes(copying: [UInt8](repeating: 5, count: 32)), .made)
    spool = try fixture.spool(seed: 4)
    _ = try spool?.list()
    #expect(spool?.removeAll(olderThan: .seconds(1), now: 52).removed == [id])
  }

  @Test("What another release wrote is reported and left alone")
  func otherVersion() throws {
    let spool = try fixture.spool()
    let id = try spool.put(Fixture.entry("credential"))
    fixture.disk.change(Fixture.path(id)) { $0.bytes[9] = 2 }
    #expect(try spool.list().reasons == [.tooNew])
    #expect(fixture.files == ["\(id).credential"])
  }

  @Test("Files of other names are nobody's business")
  func strangers() throws {
    _ = try fixture.spool()
    let names = ["README", "x.credential", ".new", "core.new", "\(String(repeating: "G", count: 32)).credential"]
    for name in names { fixture.disk.place("/state/spool/\(name)", [1, 2, 3]) }
    let spool = try fixture.spool()
    #expect(spool.count == 0)
    let contents = try spool.list()
    #expect(contents.credentials == [] && contents.problems == [])
    _ = spool.removeAll(olderThan: .zero, now: .max)
    #expect(fixture.files == names.sorted())
  }

  @Test("What a put or a removal left unfinished is erased at the next start")
  func leftovers() throws {
    _ = try fixture.spool()
    let id = try #require(SpoolID(String(repeating: "ab", count: 16)))
    let bytes = (0..<200).map { UInt8($0) }
    fixture.disk.place(Fixture.path(id, "new"), bytes)
    fixture.disk.place(Fixture.path(id, "erased"), bytes)
    #expect(try fixture.spool().list().credentials == [])
    #expect(fixture.files == [])
    #expect(!fixture.disk.holds(anyOf: bytes))
  }
}
