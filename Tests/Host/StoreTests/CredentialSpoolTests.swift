import Crypto
import Glibc
import TestSupport
import Testing

@testable import Store

@Suite("Credentials that are kept")
struct CredentialSpoolTests {
  var fixture: Fixture

  init() throws {
    fixture = try Fixture()
  }

  @Test("What is put is listed after a restart, the earliest first, until it is removed")
  func life() throws {
    let spool = try fixture.spool()
    let late = Fixture.entry("late", received: 200)
    let early = Fixture.entry("early", received: 100)
    let first = try spool.put(late)
    let second = try spool.put(early)
    #expect(first != second)
    #expect(try spool.list().credentials == [.init(id: second, entry: early), .init(id: first, entry: late)])
    fixture.disk.restart(.everything)
    let again = try fixture.spool(seed: 2)
    #expect(again.count == 2)
    #expect(try again.list().credentials.map(\.entry) == [early, late])
    try again.remove(second)
    try again.remove(second)
    #expect(try again.list().credentials.map(\.id) == [first])
    fixture.disk.restart(.everything)
    #expect(try fixture.spool(seed: 3).list().credentials.map(\.id) == [first])
    #expect(fixture.files == ["\(first).credential"])
  }

  @Test("The last credential that fits is kept, and one more is not; a removal makes room")
  mutating func maximumCount() throws {
    fixture.limits.maximumCount = 3
    let spool = try fixture.spool()
    let ids = try (0..<3).map { try spool.put(Fixture.entry("\($0)")) }
    let error = caught(StoreError.self) { try spool.put(Fixture.entry("more")) }
    #expect(error?.reason == .spoolFull)
    #expect(error?.sentence.contains("wait to be judged") == true)
    fixture.disk.restart(.everything)
    let again = try fixture.spool(seed: 2)
    #expect(caught(StoreError.self) { try again.put(Fixture.entry("more")) }?.reason == .spoolFull)
    try again.remove(ids[1])
    _ = try again.put(Fixture.entry("more"))
    #expect(try again.list().credentials.count == 3)
  }

  @Test("The last byte that fits is kept, and one more is not")
  mutating func maximumBytes() throws {
    let entry = Fixture.entry("0123456789")
    let size = try #require(SpoolFile.size(of: entry))
    fixture.limits.maximumBytes = 2 * size
    let spool = try fixture.spool()
    let id = try spool.put(entry)
    #expect(caught(StoreError.self) { try spool.put(Fixture.entry("0123456789a")) }?.reason == .spoolFull)
    _ = try spool.put(entry)
    #expect(caught(StoreError.self) { try spool.put(Fixture.entry("")) }?.reason == .spoolFull)
    try spool.remove(id)
    _ = try spool.put(entry)
  }

  @Test("An accepted credential is listed as such after a restart, until it is removed")
  func accepted() throws {
    let spool = try fixture.spool()
    let id = try spool.put(Fixture.entry("one"))
    try spool.accept(id)
    try spool.accept(id)
    let other = try spool.put(Fixture.entry("two", received: 1_800_000_000), isAccepted: true)
    #expect(Set(fixture.files) == ["\(id).accepted", "\(other).accepted"])
    fixture.disk.restart(.everything)
    let again = try fixture.spool(seed: 2)
    try again.redate(id, received: 5)
    #expect(
      try again.list().credentials == [
        .init(id: id, entry: Fixture.entry("one", received: 5), isAccepted: true),
        .init(id: other, entry: Fixture.entry("two", received: 1_800_000_000), isAccepted: true),
      ])
    try again.remove(id)
    try again.remove(other)
    #expect(fixture.files == [])
  }

  @Test(
    "A put that is tried again under its name is there once, whatever became of the first", arguments: [EIO, ENOSPC])
  func secondAttempt(errno: Int32) throws {
    for number in 1...8 {
      let fixture = try Fixture()
      let spool = try fixture.spool()
      let id = spool.makeID()
      let first = fixture.disk.calls + number
      fixture.disk.fail { $0.number >= first ? errno : nil }
      _ = try? spool.put(Fixture.entry("credential"), as: id)
      fixture.disk.fail(nil)
      #expect(try spool.put(Fixture.entry("credential"), as: id) == id)
      fixture.disk.restart(.nothing)
      #expect(try fixture.spool(seed: 2).list().credentials.map(\.id) == [id], "call \(number)")
    }
  }

  @Test("Only so many are read as there is room for, the earliest first")
  func room() throws {
    let spool = try fixture.spool()
    let ids = try (1...4).map { try spool.put(Fixture.entry("0123456789", received: Int64(100 - $0))) }
    let size = CredentialSpool.size(of: Fixture.entry("0123456789"))
    let contents = try spool.list(room: (.max, 2 * size))
    #expect(contents.credentials.map(\.id) == [ids[3], ids[2]] && contents.left == 2)
    let more = try spool.list(except: [ids[3], ids[2]], room: (1, .max))
    #expect(more.credentials.map(\.id) == [ids[1]] && more.left == 1)
  }

  @Test("While one has it, no other process gets the directory")
  func lock() throws {
    var spool: CredentialSpool? = try fixture.spool()
    #expect(caught(StoreError.self) { try fixture.spool() }?.reason == .inUse)
    #expect(spool?.count == 0)
    spool = nil
    _ = try fixture.spool()
  }

  @Test("However many put at once, as many are kept as the limit says, and all of them whole")
  mutating func concurrency() async throws {
    fixture.limits.maximumCount = 20
    let spool = try fixture.spool()
    let kept = await withTaskGroup(of: Int?.self) { group in
      for number in 0..<50 {
        group.addTask { (try? spool.put(Fixture.entry("credential \(number)"))) == nil ? nil : number }
      }
      return await group.reduce(into: [String]()) { if let number = $1 { $0.append("credential \(number)") } }
    }
    #expect(kept.count == 20)
    let listed = try spool.list().credentials.map { String(decoding: $0.entry.credential, as: UTF8.self) }
    #expect(listed.sorted() == kept.sorted())
  }

  @Test("A removal overwrites what was on the disk, syncs that, and only then removes the file")
  func erasure() throws {
    let spool = try fixture.spool()
    let id = try spool.put(Fixture.entry(String(repeating: "credential", count: 20)))
    let bytes = try #require(fixture.disk.content(Fixture.path(id)))
    #expect(fixture.disk.holds(anyOf: bytes))
    let start = fixture.disk.trace.count
    try spool.remove(id)
    #expect(!fixture.disk.holds(anyOf: bytes))
    let steps = fixture.disk.trace[start...].filter { $0.operation.writes || $0.operation == .sync }
    #expect(
      steps.map { "\($0.operation) \($0.name)" } == [
        "rename \(id).credential \(id).erased", "sync .", "openForOverwriting \(id).erased", "write \(id).erased",
        "sync \(id).erased", "unlink \(id).erased", "sync .",
      ])
    #expect(fixture.files == [])
  }

  @Test("A full disk refuses a credential, keeps those it has, and leaves nothing behind")
  func fullDisk() throws {
    let spool = try fixture.spool()
    let id = try spool.put(Fixture.entry("kept"))
    fixture.disk.fail { $0.operation == .write ? ENOSPC : nil }
    let error = caught(StoreError.self) { try spool.put(Fixture.entry("refused")) }
    #expect(error?.reason == .diskFull)
    #expect(error?.sentence.contains("Make room") == true)
    #expect(fixture.files == ["\(id).credential"])
    #expect(try spool.list().credentials.map(\.id) == [id])
    // What cannot be overwritten is removed all the same, or a full disk could never be emptied.
    #expect(caught(StoreError.self) { try spool.remove(id) }?.reason == .diskFull)
    #expect(fixture.files == [])
    #expect(spool.count == 0)
  }

  @Test(
    "A read-only disk refuses to keep and to erase, and says so; what is there is read", arguments: [EROFS, EACCES])
  func readOnly(errno: Int32) throws {
    let spool = try fixture.spool()
    let id = try spool.put(Fixture.entry("kept"))
    let reason: StoreError.Reason = errno == EROFS ? .readOnly : .notPermitted
    fixture.disk.fail { $0.operation.writes ? errno : nil }
    #expect(caught(StoreError.self) { try spool.put(Fixture.entry("refused")) }?.reason == reason)
    #expect(caught(StoreError.self) { try spool.remove(id) }?.reason == reason)
    #expect(spool.count == 1)
    let removal = spool.removeAll(olderThan: .zero, now: .max)
    #expect(removal.removed == [])
    #expect(removal.problems.map(\.error.reason) == [reason])
    fixture.disk.restart(.everything)
    #expect(try fixture.spool().list().credentials.map(\.id) == [id])
  }

  @Test(
    "Whichever single call fails in a put, it kept the credential and said so, or did neither",
    arguments: [EIO, ENOSPC])
  func singleFailures(errno: Int32) throws {
    var number = 0
    var failed = true
    while failed {
      number += 1
      let fixture = try Fixture()
      var spool: CredentialSpool? = try fixture.spool()
      let nth = fixture.disk.calls + number
      fixture.disk.fail { $0.number == nth ? errno : nil }
      let id = try? spool?.put(Fixture.entry("credential"))
      failed = id == nil
      fixture.disk.fail(nil)
      let kept = id.map { [$0] } ?? []
      #expect(try spool?.list().credentials.map(\.id) == kept, "call \(number)")
      spool = nil
      fixture.disk.restart(.nothing)
      #expect(try fixture.spool().list().credentials.map(\.id) == kept, "call \(number)")
    }
    #expect(number == 7)
  }

  @Test("Whichever single call fails in a removal, a second removal ends it", arguments: [EIO, ENOSPC])
  func failedRemovals(errno: Int32) throws {
    var number = 0
    var failed = true
    while failed {
      number += 1
      let fixture = try Fixture()
      var spool: CredentialSpool? = try fixture.spool()
      let id = try #require(try spool?.put(Fixture.entry("credential")))
      let nth = fixture.disk.calls + number
      fixture.disk.fail { $0.number == nth ? errno : nil }
      _ = caughtError { () throws(StoreError) in try spool?.remove(id) }
      failed = fixture.disk.calls >= nth
      fixture.disk.fail(nil)
      try spool?.remove(id)
      #expect(spool?.count == 0)
      #expect(fixture.files == [], "call \(number), before the restart")
      spool = nil
      fixture.disk.restart(.everything)
      #expect(try fixture.spool().list().credentials == [], "call \(number)")
      #expect(fixture.files == [], "call \(number)")
    }
    #expect(number > 8)
  }

  @Test("Credentials go when they are older than the age, to the second, and not before")
  func ages() throws {
    let spool = try fixture.spool()
    let old = try spool.put(Fixture.entry("old", received: 99))
    let edge = try spool.put(Fixture.entry("edge", received: 100))
    let future = try spool.put(Fixture.entry("future", received: 5000))
    #expect(spool.removeAll(olderThan: .seconds(50), now: 150).removed == [old])
    // The clock went back: nothing is old, whatever it says.
    #expect(spool.removeAll(olderThan: .seconds(50), now: 10).removed == [])
    #expect(spool.removeAll(olderThan: .seconds(50), now: .min).removed == [])
    #expect(spool.removeAll(olderThan: .zero, now: 5000).removed == [edge])
    #expect(try spool.list().credentials.map(\.id) == [future])
    #expect(spool.removeAll(olderThan: .seconds(1), now: .max).removed == [future])
    #expect(fixture.files == [])
  }

  @Test("The age is known without reading the credentials, after a restart too")
  func agesAfterRestart() throws {
    let old = try fixture.spool().put(Fixture.entry("old", received: 99))
    let young = try fixture.spool(seed: 2).put(Fixture.entry("young", received: 101))
    let spool = try fixture.spool(seed: 3)
    #expect(spool.removeAll(olderThan: .seconds(50), now: 150).removed == [old])
    #expect(try spool.list().credentials.map(\.id) == [young])
  }

  @Test("One that is given another date is as old as that says, after a restart too; of its old file nothing is left")
  func redating() throws {
    let spool = try fixture.spool()
    let entry = Fixture.entry(String(repeating: "credential", count: 20), received: 5000)
    let id = try spool.put(entry)
    let before = try #require(fixture.disk.content(Fixture.path(id)))
    try spool.redate(id, received: 100)
    #expect(!fixture.disk.holds(anyOf: Array(before.dropFirst(SpoolHeader.size))))
    #expect(fixture.files == ["\(id).credential"])
    #expect(spool.removeAll(olderThan: .seconds(50), now: 150).removed == [])
    fixture.disk.restart(.everything)
    let again = try fixture.spool(seed: 2)
    #expect(try again.list().entries[id]?.credential == entry.credential)
    #expect(again.removeAll(olderThan: .seconds(50), now: 151).removed == [id])
    // What is gone stays gone.
    try again.redate(id, received: 200)
    #expect(fixture.files == [])
  }

  @Test(
    "Whichever single call fails when a date is given, the credential is there, with either date",
    arguments: [EIO, ENOSPC])
  func failedRedating(errno: Int32) throws {
    var number = 0
    var hasStruck = true
    while hasStruck {
      number += 1
      let fixture = try Fixture()
      let spool = try fixture.spool()
      let id = try spool.put(Fixture.entry("credential", received: 5000))
      let nth = fixture.disk.calls + number
      fixture.disk.fail { $0.number == nth ? errno : nil }
      let failure = caughtError { () throws(StoreError) in try spool.redate(id, received: 100) }
      hasStruck = fixture.disk.calls >= nth
      fixture.disk.fail(nil)
      fixture.disk.restart(.nothing)
      let kept = try fixture.spool(seed: 2).list().entries
      #expect(kept[id]?.credential == Array("credential".utf8), "call \(number)")
      #expect(failure != nil || kept[id]?.received == 100, "call \(number)")
      #expect(fixture.files == ["\(id).credential"], "call \(number)")
    }
    #expect(number > 8)
  }
}
