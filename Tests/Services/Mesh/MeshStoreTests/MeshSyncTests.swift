import Bitchat
import Common
import Crypto
import Glibc
import Loop
import Store
import TestSupport
import Testing

@testable import MeshStore

@Suite("What the mesh hands to the disk")
struct MeshSyncTests {
  init() { EventLoop.shared.runInBackground() }

  @Test("Whoever is told that something is kept finds it on a disk that has only what was synced")
  @LoopActor
  func synced() async throws {
    let stand = try MeshFilesTests()
    let clock = HandClock()
    let disk = SyncedFiles(stand.folder.path("mesh"))
    var answers = 0
    try disk.during {
      let keeper = MeshKeeper(
        stand.files(), scheduler: clock, worker: clock, clock: SetClock(), random: SeededRandom(seed: 1))
      var identity: PeerID?
      keeper.open { identity = (try? $0.get())?.identity.id }
      clock.run()
      for number in 1...40 as ClosedRange<UInt32> {
        keeper.keep([.message(try Sample.privateMessage(number)), .outgoing(try Sample.outgoing(number))]) { error in
          guard error == nil else { return }
          answers += 1
          // As the machine comes back when power is lost at this very moment.
          guard let other = try? MeshFilesTests(), mkdir(other.folder.path("mesh"), 0o700) == 0 else { return }
          // The key was renamed into its place when it was synced.
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

  @Test("What the disk refuses to sync is not said to be kept, and is tried again")
  @LoopActor
  func refused() async throws {
    let stand = try MeshFilesTests()
    let clock = HandClock()
    let keeper = MeshKeeper(
      stand.files(), scheduler: clock, worker: clock, clock: SetClock(), random: SeededRandom(seed: 1))
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
}
