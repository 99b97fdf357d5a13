import Air
import Common
import Hall
import Loop
import Radio
import Sharing
import Store
import TestSupport
import Testing
import Transfers
import Tuvali

@testable import Verifier

@Suite("The history of credential transfers")
struct HistoryTests {
  init() { EventLoop.shared.runInBackground() }

  private static let day = Duration.seconds(86_400)

  /// A history store with a disk in virtual time, whose results the test reads.
  @LoopActor
  private struct Rig {
    let time = VirtualTime()
    let clock: VirtualWallClock
    let keeper: TransferHistoryStore
    let list: TransferList

    /// - Parameter disk: nil for one that ends each operation at once.
    init(_ folder: ScratchFolder, keepFor: Duration = HistoryTests.day, disk: (any Offloading)? = nil) {
      clock = VirtualWallClock(time)
      keeper = TransferHistoryStore(
        directory: folder.path, keepFor: keepFor, scheduler: time, disk: disk, clock: clock)
      list = TransferList(limit: 2000, scheduler: time, clock: clock)
    }

    func end(_ state: Transfer.State, error: TuvaliError? = nil, after duration: Duration = .seconds(3)) -> Transfer {
      let transfer = list.add(.incoming, .connected)
      time.advance(by: duration)
      transfer.enter(state, error: error)
      keeper.note(transfer)
      return transfer
    }

    func entries(before id: Int64? = nil, limit: Int = 100) throws -> [(id: Int64, entry: HistoryEntry)] {
      var found: TransferHistoryStore.Page?
      keeper.read(before: id, limit: limit) { found = $0 }
      time.advance(by: .zero)
      return try #require(found).get()
    }
  }

  @Test("A history entry has time, duration and error code, is written once, and survives a restart")
  @LoopActor
  func survives() async throws {
    let folder = try ScratchFolder()
    let first: Int64
    do {
      let rig = Rig(folder)
      let failed = rig.end(.failed, error: TuvaliError(.verifierTooManyMissing, .protocolViolation, "Lost."))
      rig.keeper.note(failed)
      first = rig.clock.milliseconds
      _ = rig.end(.accepted)
      rig.time.advance(by: .seconds(1))
    }
    let entries = try Rig(folder).entries()
    #expect(entries.map(\.entry.result) == ["accepted", "failed"])
    #expect(entries.last?.entry.reason == "TVV_TRA_002" && entries.last?.entry.duration == 3000)
    #expect(entries.last?.entry.time == first)
  }

  @Test("A history page ends before the given entry, and has at most the requested number of entries")
  @LoopActor
  func pages() async throws {
    let folder = try ScratchFolder()
    let rig = Rig(folder)
    for _ in 0..<5 { _ = rig.end(.rejected) }
    let page = try rig.entries(limit: 2)
    let next = try rig.entries(before: page.last?.id, limit: 10)
    #expect(page.count == 2 && next.count == 3)
    #expect(Set((page + next).map(\.entry.transfer)).count == 5)
    #expect(try rig.entries(limit: 0).isEmpty)
  }

  @Test("A history entry is erased after HistoryFor=, even if no further transfer ends")
  @LoopActor
  func expires() async throws {
    let folder = try ScratchFolder()
    let rig = Rig(folder)
    rig.keeper.begin()
    _ = rig.end(.accepted)
    rig.time.advance(by: .seconds(86_400 - 7200))
    #expect(try rig.entries().count == 1)
    rig.time.advance(by: .seconds(4 * 3600))
    #expect(try rig.entries().isEmpty)
  }

  @Test("HistoryFor=0s erases the stored history, and records no entry")
  @LoopActor
  func off() async throws {
    let folder = try ScratchFolder()
    let rig = Rig(folder)
    _ = rig.end(.accepted)
    rig.keeper.keepFor = .zero
    _ = rig.end(.accepted)
    rig.time.advance(by: .seconds(1))
    var page: TransferHistoryStore.Page?
    rig.keeper.read(before: nil, limit: 10) { page = $0 }
    rig.time.advance(by: .zero)
    #expect(throws: StoreError.self) { try #require(page).get() }
    rig.keeper.keepFor = Self.day
    #expect(try rig.entries().isEmpty)
  }

  @Test("A verdict on a transfer of an earlier run is not recorded in the history again")
  @LoopActor
  func restored() async throws {
    let folder = try ScratchFolder()
    let rig = Rig(folder)
    let accepted = rig.list.restore(Array("{}".utf8), peer: "", dialect: "0.5", isAccepted: true)
    rig.keeper.note(accepted)
    let waiting = rig.list.restore(Array("{}".utf8), peer: "", dialect: "0.5")
    rig.keeper.note(waiting)
    waiting.decide(accepted: false, .peerGone)
    rig.keeper.note(waiting)
    let entries = try rig.entries()
    #expect(entries.map(\.entry.result) == ["rejected"] && entries.first?.entry.duration == 0)
  }

  @Test("While the disk fails, at most 1000 history entries wait, and are written when the disk works")
  @LoopActor
  func diskFails() async throws {
    let folder = try ScratchFolder()
    // A file where the folder should be.
    try folder.write([1], to: "history")
    let rig = Rig(folder)
    for _ in 0..<(TransferHistoryStore.waitingLimit + 5) { _ = rig.end(.accepted, after: .milliseconds(1)) }
    rig.time.advance(by: .milliseconds(1))
    #expect(rig.keeper.trouble != nil && rig.keeper.lost == 5)
    try folder.remove("history")
    rig.time.advance(by: .seconds(60))
    #expect(rig.keeper.trouble == nil)
    #expect(try rig.entries(limit: 1000).count == 1000)
  }

  @Test("After a failed write the history is not written before the next attempt is due, however many transfers end")
  @LoopActor
  func pause() async throws {
    let folder = try ScratchFolder()
    // A file where the folder should be.
    try folder.write([1], to: "history")
    let disk = HeldWorker()
    let rig = Rig(folder, disk: disk)
    _ = rig.end(.accepted)
    #expect(disk.held.count == 1)
    disk.release()
    #expect(rig.keeper.trouble != nil)
    for _ in 0..<10 { _ = rig.end(.accepted, after: .milliseconds(1)) }
    #expect(disk.held.isEmpty)
    try folder.remove("history")
    rig.time.advance(by: Backoff.shortest)
    #expect(disk.held.count == 1)
    disk.release()
    #expect(rig.keeper.trouble == nil)
  }

  @Test("At the stop, history entries that wait for the next attempt are written at once")
  @LoopActor
  func stop() async throws {
    let folder = try ScratchFolder()
    // A file where the folder should be.
    try folder.write([1], to: "history")
    let disk = HeldWorker()
    let rig = Rig(folder, disk: disk)
    let radio = Hall().sharedRadio.tenant("history", share: .nothing)
    let service = VerifierService(
      radio: radio, scheduler: rig.time, settings: VerifierService.Settings(), history: rig.keeper)
    _ = rig.end(.accepted)
    disk.release()
    #expect(rig.keeper.trouble != nil && disk.held.isEmpty)
    try folder.remove("history")
    var isAtRest = false
    service.rest(within: .seconds(8)) { isAtRest = true }
    #expect(!isAtRest && disk.held.count == 1)
    disk.release()
    rig.time.advance(by: .seconds(8))
    #expect(isAtRest && rig.keeper.trouble == nil)
  }

  @Test("At the stop, a failed history write is repeated once, and a hanging disk delays the end to the limit")
  @LoopActor
  func stopWhileWriting() async throws {
    let folder = try ScratchFolder()
    // A file where the folder should be.
    try folder.write([1], to: "history")
    let disk = HeldWorker()
    let rig = Rig(folder, disk: disk)
    _ = rig.end(.accepted)
    var ends = 0
    rig.keeper.writeLast(within: .seconds(2)) { ends += 1 }
    _ = rig.end(.accepted, after: .milliseconds(1))
    disk.release()
    #expect(ends == 0 && disk.held.count == 1)
    disk.release()
    #expect(ends == 1 && disk.held.isEmpty)
    rig.keeper.writeLast(within: .seconds(2)) { ends += 1 }
    rig.time.advance(by: .seconds(2))
    #expect(ends == 2 && disk.held.count == 1)
  }

  @Test("A failed removal of old history entries is repeated, even if no transfer ends")
  @LoopActor
  func removalFails() async throws {
    let folder = try ScratchFolder()
    // A file where the folder should be.
    try folder.write([1], to: "history")
    let rig = Rig(folder)
    rig.keeper.begin()
    rig.time.advance(by: .zero)
    #expect(rig.keeper.trouble != nil)
    try folder.remove("history")
    rig.time.advance(by: Backoff.shortest)
    #expect(rig.keeper.trouble == nil)
  }

  @Test("At most eight reads wait for the disk")
  func reads() async throws {
    let folder = try ScratchFolder()
    await LoopActor.run {
      let rig = Rig(folder)
      var count = 0
      for _ in 0..<TransferHistoryStore.readLimit {
        #expect(rig.keeper.mayRead)
        rig.keeper.read(before: nil, limit: 1) { _ in count += 1 }
      }
      #expect(!rig.keeper.mayRead && count == 0)
      rig.time.advance(by: .zero)
      #expect(rig.keeper.mayRead && count == TransferHistoryStore.readLimit)
    }
  }

  @Test("A damaged database is set aside for HistoryFor=, and a new history begins")
  @LoopActor
  func damaged() async throws {
    let folder = try ScratchFolder()
    do {
      let rig = Rig(folder)
      _ = rig.end(.accepted)
      rig.time.advance(by: .seconds(1))
    }
    try folder.write([UInt8](repeating: 0x5A, count: 8192), to: "history/history.db")
    // The file has a time of this machine's clock, years before that of the rig.
    let rig = Rig(folder, keepFor: Self.day * 10_000)
    _ = rig.end(.rejected)
    #expect(try rig.entries().map(\.entry.result) == ["rejected"])
    #expect(folder.exists("history/history.db.damaged"))
    // The damaged database may have results, too.
    rig.keeper.keepFor = .zero
    rig.time.advance(by: .seconds(1))
    #expect(!folder.exists("history/history.db.damaged"))
  }

  @Test("In the history a long issuer's name is cut between two characters")
  func cut() {
    let entry = HistoryEntry(
      transfer: 1, time: 1, duration: 1, result: "accepted", reason: "", issuer: String(repeating: "ü", count: 150))
    #expect(entry.issuer == String(repeating: "ü", count: 100))
  }
}
