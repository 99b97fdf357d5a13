import Crypto
import Glibc
import TestSupport
import Testing

@testable import Store

/// The spool's owner retries failed operations, and the power may be lost at any time after a failure.
@Suite("Disk faults followed by a power loss")
struct SpoolFailureTests {
  /// The kinds of disk faults, which begin at a chosen disk call.
  enum Fault: CaseIterable, Sendable {
    /// A single call fails.
    case once
    /// The call and the next thirty, so that the reaction to the failure fails as well.
    case forAWhile
    /// All synchronizing calls from there on, for a while.
    case syncing
    /// All erasing and overwriting calls.
    case erasing

    func hits(_ call: SimulatedDisk.Call, from first: Int) -> Bool {
      let isNear = (first...(first + 30)).contains(call.number)
      return switch self {
      case .once: call.number == first
      case .forAWhile: isNear
      case .syncing: isNear && call.operation == .sync
      case .erasing: isNear && [.openForOverwriting, .unlink].contains(call.operation)
      }
    }
  }

  /// The ways in which a record is stored, accepted and removed: by a changed mark, or by a second `put`.
  enum Life: CaseIterable, Sendable { case marked, putAgain, putAccepted }

  /// A record whose owner retries each operation, as the credential store does.
  struct Owner {
    let spool: RecordSpool
    let id: SpoolID
    /// The last state that the store confirmed to the owner: a mark, or nil if the record is absent.
    var known: UInt8?
    /// Further states that are possible because an unconfirmed operation may have taken effect.
    var possible: Set<UInt8?> = [nil]
    var retries = 0

    /// - Returns: false if the operation is not done: the power is lost, or all attempts failed.
    mutating func reach(_ state: UInt8?, attempts: Int = 200, _ body: () throws(StoreError) -> Void) -> Bool {
      possible.insert(state)
      for _ in 0..<attempts {
        do throws(StoreError) {
          try body()
          known = state
          possible = [state]
          return true
        } catch  where error.sentence == "no power" {
          return false
        } catch {
          retries += 1
        }
      }
      if attempts > 1 { Issue.record("it is never done") }
      return false
    }

    mutating func live(_ life: Life) {
      let record = { (mark: UInt8) in Fixture.record("credential", mark: mark) }
      let (spool, id) = (spool, id)
      let first: UInt8 = life == .putAccepted ? 1 : 0
      let isPut = reach(
        first, attempts: life == .putAgain ? 1 : 200,
        { () throws(StoreError) in _ = try spool.put(record(first), as: id) })
      switch life {
      case .putAgain where !isPut:
        // The store does so where it does not know whether the first put has left a file.
        guard reach(1, { () throws(StoreError) in _ = try spool.put(record(1), as: id) }) else { return }
      case .marked, .putAgain:
        guard isPut, reach(1, { () throws(StoreError) in try spool.mark(id, as: 1) }) else { return }
      case .putAccepted: guard isPut else { return }
      }
      _ = reach(nil) { () throws(StoreError) in try spool.remove(id) }
    }
  }

  private static let id = SpoolID("0123456789abcdef0123456789abcdef")

  @Test(
    "After any failing disk operation and any power loss, each confirmed record exists once with its mark",
    arguments: Fault.allCases, Life.allCases)
  func everyFailure(fault: Fault, life: Life) throws {
    let id = try #require(Self.id)
    var (runs, retries) = (0, 0)
    for first in 1... {
      var ended = 0
      for end in stride(from: first + first % 5, to: .max, by: 5) {
        let fixture = try Fixture()
        let spool = try fixture.spool()
        let start = fixture.disk.calls
        fixture.disk.fail { fault.hits($0, from: start + first) ? EIO : nil }
        fixture.disk.losePower(at: start + end)
        var owner = Owner(spool: spool, id: id)
        owner.live(life)
        runs += 1
        retries += owner.retries
        ended = fixture.disk.calls - start
        let isThrough = ended < end
        // Where the power did not fail during the run, it fails after the end.
        for loss in [.everything, .some(seed: UInt64(runs))] as [SimulatedDisk.Loss] {
          let (disk, comment) = (fixture.disk.copy(), "\(fault) from \(first), power until \(end), \(loss)" as Comment)
          disk.restart(loss)
          try check(owner, fixture, disk, comment)
        }
        if isThrough { break }
      }
      if ended < first { break }
    }
    #expect(runs > 50 && retries > 20, "\(runs) runs, \(retries) retries")
  }

  private func check(_ owner: Owner, _ fixture: Fixture, _ disk: SimulatedDisk, _ comment: Comment) throws {
    disk.fail(nil)
    let state = try StateDirectory(path: "/state", on: disk)
    let contents = try RecordSpool(in: state, key: fixture.key, random: SeededRandom(seed: 9)).list()
    #expect(contents.problems.isEmpty, comment)
    #expect(contents.entries.count <= 1, comment)
    let found = contents.entries.first?.mark
    #expect(owner.possible.contains(found) || found == owner.known, comment)
    #expect(contents.values.allSatisfy { $0.content == Fixture.record("credential").content }, comment)
    #expect(disk.names(in: "/state/spool").count == contents.entries.count, comment)
  }

  @Test(
    "Of two files of one record, the undamaged one with the greater mark stays and the other is erased")
  func doubles() throws {
    let id = try #require(Self.id)
    for isDamaged in [false, true] {
      let fixture = try Fixture()
      do {
        let spool = try fixture.spool()
        try spool.put(Fixture.record("credential"), as: id)
        let bytes = try #require(fixture.disk.content(Fixture.path(id)))
        fixture.disk.place(Fixture.path(id, "01.record"), isDamaged ? Array(bytes.dropLast()) : bytes)
      }
      fixture.disk.restart(.nothing)
      let spool = try fixture.spool()
      #expect(try spool.list().entries.map(\.mark) == [isDamaged ? 0 : 1])
      #expect(fixture.files == ["\(id).\(isDamaged ? "00" : "01").record"])
      // The names on the disk equal those in memory.
      fixture.disk.restart(.everything)
      #expect(fixture.files == ["\(id).\(isDamaged ? "00" : "01").record"])
    }
  }

  @Test("A duplicate spool file that cannot be erased does not return after its record is removed")
  func stuckDouble() throws {
    let id = try #require(Self.id)
    let fixture = try Fixture()
    do { try fixture.spool().put(Fixture.record("credential"), as: id) }
    let bytes = try #require(fixture.disk.content(Fixture.path(id)))
    fixture.disk.place(Fixture.path(id, "01.record"), bytes)
    fixture.disk.restart(.nothing)
    fixture.disk.fail { [.rename, .unlink].contains($0.operation) ? EROFS : nil }
    let spool = try fixture.spool()
    #expect(try spool.list().entries.map(\.mark) == [1])
    #expect(caughtError { () throws(StoreError) in try spool.remove(id) }?.reason == .readOnly)
    fixture.disk.fail(nil)
    try spool.remove(id)
    fixture.disk.restart(.everything)
    #expect(fixture.files.isEmpty)
  }

  @Test("A removal is confirmed only after a sync, which the next removal repeats if it failed")
  func removedTwice() throws {
    let fixture = try Fixture()
    let spool = try fixture.spool()
    let id = try spool.put(Fixture.record("credential"))
    fixture.disk.fail { $0.operation == .sync && $0.name == "." ? EIO : nil }
    // The first attempt renames the file, the second finds no record any more.
    for _ in 0..<2 { #expect(caughtError { () throws(StoreError) in try spool.remove(id) }?.reason == .diskFailed) }
    fixture.disk.fail(nil)
    try spool.remove(id)
    fixture.disk.restart(.everything)
    #expect(fixture.files.isEmpty)
  }

  @Test(
    "The spool's note is the one that was written last, or the previous one if the last is damaged")
  func note() throws {
    let fixture = try Fixture()
    do {
      let spool = try fixture.spool()
      #expect(try spool.note() == nil)
      try spool.write(note: [1, 2])
      try spool.write(note: [3])
    }
    fixture.disk.restart(.everything)
    do {
      let reading = try fixture.spool().note()
      #expect(reading?.value == [3] && reading?.damage == nil)
    }
    fixture.disk.restart(.everything)
    fixture.disk.change("/state/\(RecordSpool.noteName)") { $0.bytes[$0.bytes.count - 1] ^= 1 }
    let reading = try fixture.spool().note()
    #expect(reading?.value == [1, 2] && reading?.damage?.reason == .damaged)
  }
}
