import BitchatWire
import Common
import Crypto
import Glibc
import Loop
import Store
import TestSupport
import Testing

@testable import MeshStore

@Suite("Durability of the mesh store")
struct MeshSyncTests {
  init() { EventLoop.shared.runInBackground() }

  @Test("A mesh record reported as stored survives on a disk that preserves only synced bytes")
  @LoopActor
  func synced() async throws {
    let stand = try MeshFilesTests()
    let clock = HandClock()
    let disk = SyncedFiles(stand.folder.path("mesh"))
    var answers = 0
    try disk.during {
      let keeper = NodeStore(
        stand.files(), scheduler: clock, worker: clock, clock: Sample.clock, random: SeededRandom(seed: 1))
      var identity: PeerID?
      keeper.open { identity = (try? $0.get())?.identity.id }
      clock.run()
      for number in 1...40 as ClosedRange<UInt32> {
        keeper.keep([.message(try Sample.privateMessage(number)), .outgoing(try Sample.outgoing(number))]) { error in
          guard error == nil else { return }
          answers += 1
          // The state after a power failure at this moment.
          guard let other = try? MeshFilesTests(), mkdir(other.folder.path("mesh"), 0o700) == 0 else { return }
          // The key was already renamed to its final name when it was synced.
          let files = disk.content.merging(disk.written.filter { $0.key == "mesh.key" }) { $1 }
          for (name, bytes) in files { try? other.folder.write(bytes, to: "mesh/\(name)") }
          guard let kept = try? other.load(other.files()).kept else {
            Issue.record("message \(number): nothing can be opened")
            return
          }
          #expect(kept.identity.id == identity)
          #expect(kept.messages.map(\.number) == Array(1...number) && kept.outgoing.map(\.number) == Array(1...number))
        }
        clock.run()
      }
    }
    #expect(answers == 40)
  }

  @Test("A mesh record whose sync fails is not reported as stored, and is written again")
  @LoopActor
  func refused() async throws {
    let stand = try MeshFilesTests()
    let clock = HandClock()
    let keeper = NodeStore(
      stand.files(), scheduler: clock, worker: clock, clock: Sample.clock, random: SeededRandom(seed: 1))
    keeper.open { _ in }
    clock.run()
    var answers: [StoreError?] = []
    let change = MeshChange.message(try Sample.privateMessage(1))
    let refuseLog: @Sendable (String) -> Int32? = { $0.hasSuffix("mesh.db-wal") ? EIO : nil }
    _ = SyncCalls.during(includingData: true, refusing: refuseLog) {
      keeper.keep([change]) { answers.append($0) }
      clock.run()
    }
    #expect(answers.map { $0?.reason } == [.diskFailed] && keeper.trouble != nil)
    clock.advance(by: .seconds(2))
    #expect(keeper.trouble == nil)
    keeper.keep([change]) { answers.append($0) }
    clock.run()
    #expect(answers.last?.map(\.reason) == nil && answers.count == 2)
  }

  @Test("A mesh file reported as stored survives on a disk that preserves only synced bytes and names")
  @LoopActor
  func files() async throws {
    let stand = try MeshFilesTests()
    let clock = HandClock()
    let disk = SyncedFiles(stand.folder.path("mesh"))
    let content = [UInt8](repeating: 7, count: 5000)
    var answers = 0
    disk.during {
      let keeper = NodeStore(
        stand.files(), scheduler: clock, worker: clock, clock: Sample.clock, random: SeededRandom(seed: 1))
      keeper.open { _ in }
      clock.run()
      for number in 1...3 as ClosedRange<UInt32> {
        let file = KeptFilesTests.file(number, size: content.count)
        keeper.keep(file, content: content) { error in
          answers += error == nil ? 1 : 0
          #expect(disk.syncedNames.contains(SealedFile.name(file.place)))
          guard let other = try? MeshFilesTests(), mkdir(other.folder.path("mesh"), 0o700) == 0 else { return }
          let files = disk.content.merging(disk.written.filter { $0.key == "mesh.key" }) { $1 }
          for (name, bytes) in files { try? other.folder.write(bytes, to: "mesh/\(name)") }
          let again = other.files()
          let kept = try? other.load(again).kept.files
          #expect(kept?.map(\.number) == Array(1...number))
          #expect((try? again.read(file.place)) == content)
        }
        clock.run()
      }
    }
    #expect(answers == 3)
  }

  @Test(
    "File contents whose sync fails, or whose key is missing, leave no file")
  @LoopActor
  func nothingLeft() async throws {
    let stand = try MeshFilesTests()
    var store: MeshFiles? = stand.files()
    try stand.fill(try #require(store))
    func sealed() throws -> [String] { try stand.folder.files().keys.filter { $0.hasSuffix(".sealed") } }
    var failure: StoreError?
    let refuse: @Sendable (String) -> Int32? = { $0.hasSuffix(".sealed") ? EIO : nil }
    _ = SyncCalls.during(includingData: true, refusing: refuse) {
      failure = caughtError { () throws(StoreError) in try store?.write([1, 2, 3], to: 5) }
    }
    #expect(failure?.reason == .diskFailed)
    #expect(try sealed().isEmpty)
    try store?.write([1, 2, 3], to: 5)
    #expect(try sealed().count == 1)
    store = nil
    for name in try stand.folder.files().keys where !name.hasSuffix(".sealed") { try stand.folder.remove(name) }
    let other = try MeshFilesTests()
    #expect(mkdir(other.folder.path("mesh"), 0o700) == 0)
    for (name, bytes) in try stand.folder.files() { try other.folder.write(bytes, to: name) }
    _ = try other.load(other.files())
    #expect(try other.folder.files().keys.allSatisfy { !$0.hasSuffix(".sealed") })
  }

  @Test("When a forgotten peer is reported as removed, it is no longer in the database log")
  func logEmptied() throws {
    let stand = try MeshFilesTests()
    let files = stand.files()
    try stand.fill(files)
    #expect(try !stand.folder.read("mesh/mesh.db-wal").isEmpty)
    var loading = try stand.load(files)
    try files.commit(try loading.ledger.apply(.forget(Sample.peer(1)), at: 1))
    #expect(try stand.folder.read("mesh/mesh.db-wal").isEmpty)
  }

  @Test("File contents that cannot be erased are reported, and erased with the next attempt")
  func eraseRefused() throws {
    let stand = try MeshFilesTests()
    let files = stand.files()
    try stand.fill(files)
    try files.write([1, 2, 3], to: 5)
    var writes = MeshWrites()
    writes.erased = [5]
    let refuse: @Sendable (String) -> Int32? = { $0.hasSuffix(".sealed") ? EIO : nil }
    var failure: StoreError?
    _ = SyncCalls.during(includingData: true, refusing: refuse) {
      failure = caughtError { () throws(StoreError) in try files.commit(writes) }
    }
    #expect(failure?.reason == .diskFailed)
    try files.commit(writes)
    #expect(try stand.folder.files().keys.allSatisfy { !$0.hasSuffix(".sealed") })
  }
}
