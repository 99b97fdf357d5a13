import Bytes
import Crypto
import Glibc
import TestSupport
import Testing

@testable import Store

@Suite("The record spool")
struct RecordSpoolTests {
  var fixture: Fixture

  init() throws {
    fixture = try Fixture()
  }

  @Test("Spool records are listed after a restart, the earliest first, until they are removed")
  func life() throws {
    let spool = try fixture.spool()
    let late = Fixture.record("late", received: 200)
    let early = Fixture.record("early", received: 100)
    let first = try spool.put(late)
    let second = try spool.put(early)
    #expect(first != second)
    #expect(try spool.list().ids == [second, first])
    #expect(try spool.list().values == [early, late])
    fixture.disk.restart(.everything)
    let again = try fixture.spool(seed: 2)
    #expect(again.count == 2)
    #expect(try again.list().values == [early, late])
    try again.remove(second)
    try again.remove(second)
    #expect(try again.list().ids == [first])
    fixture.disk.restart(.everything)
    #expect(try fixture.spool(seed: 3).list().ids == [first])
    #expect(fixture.files == ["\(first).00.record"])
  }

  @Test("The spool accepts records up to the maximum number and refuses one more, until one is removed")
  mutating func maximumCount() throws {
    fixture.limits.maximumCount = 3
    let spool = try fixture.spool()
    let ids = try (0..<3).map { try spool.put(Fixture.record("\($0)")) }
    let error = caught(StoreError.self) { try spool.put(Fixture.record("more")) }
    #expect(error?.reason == .spoolFull)
    #expect(error?.sentence.contains("has 3 records") == true)
    fixture.disk.restart(.everything)
    let again = try fixture.spool(seed: 2)
    #expect(caught(StoreError.self) { try again.put(Fixture.record("more")) }?.reason == .spoolFull)
    try again.remove(ids[1])
    _ = try again.put(Fixture.record("more"))
    #expect(try again.list().entries.count == 3)
  }

  @Test("The spool accepts records up to the maximum total size, and refuses one more byte")
  mutating func maximumBytes() throws {
    let entry = Fixture.record("0123456789")
    let size = RecordSpool.size(ofContent: 10)
    fixture.limits.maximumBytes = 2 * size
    let spool = try fixture.spool()
    let id = try spool.put(entry)
    #expect(caught(StoreError.self) { try spool.put(Fixture.record("0123456789a")) }?.reason == .spoolFull)
    _ = try spool.put(entry)
    #expect(caught(StoreError.self) { try spool.put(Fixture.record("")) }?.reason == .spoolFull)
    try spool.remove(id)
    _ = try spool.put(entry)
  }

  @Test("A spool record has the mark that was set last, until the record is removed")
  func marks() throws {
    let spool = try fixture.spool()
    let id = try spool.put(Fixture.record("one"))
    try spool.mark(id, as: 1)
    try spool.mark(id, as: 1)
    let other = try spool.put(Fixture.record("two", received: 1_800_000_000, mark: 0xAB))
    #expect(Set(fixture.files) == ["\(id).01.record", "\(other).ab.record"])
    fixture.disk.restart(.everything)
    let again = try fixture.spool(seed: 2)
    try again.redate(id, received: 5)
    #expect(try again.list().ids == [id, other])
    #expect(
      try again.list().values == [
        Fixture.record("one", received: 5, mark: 1), Fixture.record("two", received: 1_800_000_000, mark: 0xAB),
      ])
    try again.mark(other, as: 0)
    #expect(try again.list().byID[other]?.mark == 0)
    try again.remove(id)
    try again.remove(other)
    try again.mark(other, as: 7)
    #expect(fixture.files == [])
  }

  @Test("The mark of a spool record survives each simulated kind of power loss", arguments: SimulatedDisk.Loss.all)
  func marksAreSynced(loss: SimulatedDisk.Loss) throws {
    let spool = try fixture.spool()
    let id = try spool.put(Fixture.record("one"))
    try spool.mark(id, as: 1)
    fixture.disk.restart(loss)
    #expect(try fixture.spool(seed: 2).list().byID[id]?.mark == 1)
  }

  @Test("If a disk operation fails while a record's mark is set, a second attempt succeeds")
  func failedMarks() throws {
    var number = 0
    var hasStruck = true
    while hasStruck {
      number += 1
      let fixture = try Fixture()
      let spool = try fixture.spool()
      let id = try spool.put(Fixture.record("one"))
      let nth = fixture.disk.calls + number
      fixture.disk.fail { $0.number == nth ? EIO : nil }
      _ = caughtError { () throws(StoreError) in try spool.mark(id, as: 1) }
      hasStruck = fixture.disk.calls >= nth
      fixture.disk.fail(nil)
      try spool.mark(id, as: 1)
      fixture.disk.restart(.everything)
      #expect(try fixture.spool(seed: 2).list().byID[id]?.mark == 1, "call \(number)")
      #expect(fixture.files == ["\(id).01.record"], "call \(number)")
    }
    #expect(number > 3)
  }

  @Test(
    "Storing a record twice under one ID leaves one record", arguments: [EIO, ENOSPC])
  func secondAttempt(errno: Int32) throws {
    for number in 1...8 {
      let fixture = try Fixture()
      let spool = try fixture.spool()
      let id = try #require(SpoolID("000102030405060708090a0b0c0d0e0f"))
      let first = fixture.disk.calls + number
      fixture.disk.fail { $0.number >= first ? errno : nil }
      _ = try? spool.put(Fixture.record("credential"), as: id)
      fixture.disk.fail(nil)
      // The record got another mark meanwhile.
      #expect(try spool.put(Fixture.record("credential", mark: 1), as: id) == id)
      #expect(fixture.files == ["\(id).01.record"], "call \(number)")
      fixture.disk.restart(.nothing)
      let again = try fixture.spool(seed: 2)
      #expect(try again.list().byID == [id: Fixture.record("credential", mark: 1)], "call \(number)")
      try again.remove(id)
      #expect(fixture.files == [], "call \(number)")
    }
  }

  @Test("No two spool files or generations of a record share a nonce")
  func nonces() throws {
    var nonces: [[UInt8]] = []
    func note(_ id: SpoolID) throws {
      var reader = ByteReader(try #require(fixture.disk.content(Fixture.path(id))))
      nonces.append(try SpoolHeader(reading: &reader).nonce)
    }
    let spool = try fixture.spool()
    for number in 1...5 {
      let id = try spool.put(Fixture.record("one", received: 0))
      try note(id)
      for date in 1...5 as ClosedRange<Int64> {
        try spool.redate(id, received: date)
        try note(id)
      }
      #expect(nonces.count == 6 * number && Set(nonces).count == nonces.count)
    }
    // Every byte of the nonces is random; none is a counter.
    for place in 0..<12 { #expect(Set(nonces.map { $0[place] }).count > 20, "byte \(place)") }
    // The ID under a restarted generator is stored again with the nonce that this generator draws.
    let id = try #require(try spool.list().ids.first)
    try spool.remove(id)
    try spool.put(Fixture.record("one"), as: id)
    try note(id)
    #expect(Set(nonces).count == nonces.count)
  }

  @Test("Spool records are read earliest first, up to the given total size")
  func room() throws {
    let spool = try fixture.spool()
    let ids = try (1...4).map { try spool.put(Fixture.record("0123456789", received: Int64(100 - $0))) }
    let size = RecordSpool.size(ofContent: 10)
    let contents = try spool.list(room: (.max, 2 * size))
    #expect(contents.ids == [ids[3], ids[2]] && contents.withoutRoom == 2)
    let more = try spool.list(except: [ids[3], ids[2]], room: (1, .max))
    #expect(more.ids == [ids[1]] && more.withoutRoom == 1)
  }

  @Test("A second process cannot open the spool directory")
  func lock() throws {
    var spool: RecordSpool? = try fixture.spool()
    #expect(caught(StoreError.self) { try fixture.spool() }?.reason == .inUse)
    #expect(spool?.count == 0)
    spool = nil
    _ = try fixture.spool()
  }

  @Test("Of 50 records stored at once as many are accepted as the limit allows")
  mutating func concurrency() async throws {
    fixture.limits.maximumCount = 20
    let spool = try fixture.spool()
    let kept = await withTaskGroup(of: Int?.self) { group in
      for number in 0..<50 {
        group.addTask { (try? spool.put(Fixture.record("credential \(number)"))) == nil ? nil : number }
      }
      return await group.reduce(into: [String]()) { if let number = $1 { $0.append("credential \(number)") } }
    }
    #expect(kept.count == 20)
    let listed = try spool.list().entries.map { String(decoding: $0.value.content, as: UTF8.self) }
    #expect(listed.sorted() == kept.sorted())
  }

  @Test("Removing a spool record overwrites the file, syncs it, and then deletes it")
  func erasure() throws {
    let spool = try fixture.spool()
    let id = try spool.put(Fixture.record(String(repeating: "credential", count: 20)))
    let bytes = try #require(fixture.disk.content(Fixture.path(id)))
    #expect(fixture.disk.holds(anyOf: bytes))
    let erased = "\(id).00.record.erased"
    let start = fixture.disk.trace.count
    try spool.remove(id)
    #expect(!fixture.disk.holds(anyOf: bytes))
    let steps = fixture.disk.trace[start...].filter { $0.operation.writes || $0.operation == .sync }
    #expect(
      steps.map { "\($0.operation) \($0.name)" } == [
        "rename \(id).00.record \(erased)", "sync .", "openForOverwriting \(erased)", "write \(erased)",
        "sync \(erased)", "unlink \(erased)", "sync .",
      ])
    #expect(fixture.files == [])
  }

  @Test("On a full disk a new spool record is refused and leaves no file")
  func fullDisk() throws {
    let spool = try fixture.spool()
    let id = try spool.put(Fixture.record("kept"))
    fixture.disk.fail { $0.operation == .write ? ENOSPC : nil }
    let error = caught(StoreError.self) { try spool.put(Fixture.record("refused")) }
    #expect(error?.reason == .diskFull)
    #expect(error?.sentence.contains("Free space") == true)
    #expect(fixture.files == ["\(id).00.record"])
    #expect(try spool.list().ids == [id])
    // A file that cannot be overwritten is still removed; otherwise a full disk could never be emptied.
    #expect(caught(StoreError.self) { try spool.remove(id) }?.reason == .diskFull)
    #expect(fixture.files == [])
    #expect(spool.count == 0)
  }

  @Test(
    "On a read-only disk, storing and removing records fail with a named error, and records are readable",
    arguments: [EROFS, EACCES])
  func readOnly(errno: Int32) throws {
    let spool = try fixture.spool()
    let id = try spool.put(Fixture.record("kept"))
    let reason: StoreError.Reason = errno == EROFS ? .readOnly : .notPermitted
    fixture.disk.fail { $0.operation.writes ? errno : nil }
    #expect(caught(StoreError.self) { try spool.put(Fixture.record("refused")) }?.reason == reason)
    #expect(caught(StoreError.self) { try spool.remove(id) }?.reason == reason)
    #expect(spool.count == 1)
    let removal = spool.removeAll(olderThan: .zero, now: .max)
    #expect(removal.removed == [])
    #expect(removal.problems.map(\.error.reason) == [reason])
    fixture.disk.restart(.everything)
    #expect(try fixture.spool().list().ids == [id])
  }

  @Test(
    "If any disk operation of storing a record fails, the record is stored completely or not at all",
    arguments: [EIO, ENOSPC])
  func singleFailures(errno: Int32) throws {
    var number = 0
    var failed = true
    while failed {
      number += 1
      let fixture = try Fixture()
      var spool: RecordSpool? = try fixture.spool()
      let nth = fixture.disk.calls + number
      fixture.disk.fail { $0.number == nth ? errno : nil }
      let id = try? spool?.put(Fixture.record("credential"))
      failed = id == nil
      fixture.disk.fail(nil)
      let kept = id.map { [$0] } ?? []
      #expect(try spool?.list().ids == kept, "call \(number)")
      spool = nil
      fixture.disk.restart(.nothing)
      #expect(try fixture.spool().list().ids == kept, "call \(number)")
    }
    #expect(number == 7)
  }

  @Test("If any disk operation of a removal fails, a second removal completes it", arguments: [EIO, ENOSPC])
  func failedRemovals(errno: Int32) throws {
    var number = 0
    var failed = true
    while failed {
      number += 1
      let fixture = try Fixture()
      var spool: RecordSpool? = try fixture.spool()
      let id = try #require(try spool?.put(Fixture.record("credential")))
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
      #expect(try fixture.spool().list().entries == [], "call \(number)")
      #expect(fixture.files == [], "call \(number)")
    }
    #expect(number > 8)
  }

  @Test("A spool record is removed as soon as it is older than the maximum age, to the second")
  func ages() throws {
    let spool = try fixture.spool()
    let old = try spool.put(Fixture.record("old", received: 99))
    let edge = try spool.put(Fixture.record("edge", received: 100))
    let future = try spool.put(Fixture.record("future", received: 5000))
    #expect(spool.removeAll(olderThan: .seconds(50), now: 150).removed == [old])
    // The clock went back: no record counts as old.
    #expect(spool.removeAll(olderThan: .seconds(50), now: 10).removed == [])
    #expect(spool.removeAll(olderThan: .seconds(50), now: .min).removed == [])
    #expect(spool.removeAll(olderThan: .zero, now: 5000).removed == [edge])
    #expect(try spool.list().ids == [future])
    #expect(spool.removeAll(olderThan: .seconds(1), now: .max).removed == [future])
    #expect(fixture.files == [])
  }

  @Test("Protected records, and records that were dated by an unset clock, do not expire")
  func spared() throws {
    let spool = try fixture.spool()
    let spared = try spool.put(Fixture.record("spared", received: 1000))
    let other = try spool.put(Fixture.record("other", received: 1000))
    let undated = try spool.put(Fixture.record("undated", received: 999))
    let removal = spool.removeAll(olderThan: .seconds(50), now: 5000, epoch: 1000, except: [spared])
    #expect(removal.removed == [other] && removal.problems.isEmpty)
    let left: Set<SpoolID> = Set(try spool.list().ids)
    #expect(left == [spared, undated])
  }

  @Test("The age of a spool record is known after a restart without reading its content")
  func agesAfterRestart() throws {
    let old = try fixture.spool().put(Fixture.record("old", received: 99))
    let young = try fixture.spool(seed: 2).put(Fixture.record("young", received: 101))
    let spool = try fixture.spool(seed: 3)
    #expect(spool.removeAll(olderThan: .seconds(50), now: 150).removed == [old])
    #expect(try spool.list().ids == [young])
  }

  @Test("A record whose date is changed has its new age after a restart, and its old file is erased")
  func redating() throws {
    let spool = try fixture.spool()
    let entry = Fixture.record(String(repeating: "credential", count: 20), received: 5000)
    let id = try spool.put(entry)
    let before = try #require(fixture.disk.content(Fixture.path(id)))
    try spool.redate(id, received: 100)
    #expect(!fixture.disk.holds(anyOf: Array(before.dropFirst(SpoolHeader.size))))
    #expect(fixture.files == ["\(id).00.record"])
    #expect(spool.removeAll(olderThan: .seconds(50), now: 150).removed == [])
    fixture.disk.restart(.everything)
    let again = try fixture.spool(seed: 2)
    #expect(try again.list().byID[id]?.content == entry.content)
    #expect(again.removeAll(olderThan: .seconds(50), now: 151).removed == [id])
    // A removed record is not restored.
    try again.redate(id, received: 200)
    #expect(fixture.files == [])
  }

  @Test(
    "If any disk operation of a date change fails, the record exists with either the old or the new date",
    arguments: [EIO, ENOSPC])
  func failedRedating(errno: Int32) throws {
    var number = 0
    var hasStruck = true
    while hasStruck {
      number += 1
      let fixture = try Fixture()
      let spool = try fixture.spool()
      let id = try spool.put(Fixture.record("credential", received: 5000))
      let nth = fixture.disk.calls + number
      fixture.disk.fail { $0.number == nth ? errno : nil }
      let failure = caughtError { () throws(StoreError) in try spool.redate(id, received: 100) }
      hasStruck = fixture.disk.calls >= nth
      fixture.disk.fail(nil)
      fixture.disk.restart(.nothing)
      let kept = try fixture.spool(seed: 2).list().byID
      #expect(kept[id]?.content == Array("credential".utf8), "call \(number)")
      #expect(failure != nil || kept[id]?.received == 100, "call \(number)")
      #expect(fixture.files == ["\(id).00.record"], "call \(number)")
    }
    #expect(number > 8)
  }
}
