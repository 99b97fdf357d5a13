import Bitchat
import Crypto
import Loop
import Store
import TestSupport
import Testing

@testable import MeshStore

@Suite("Order of commits of the mesh store")
struct CommitOrderTests {
  typealias Stand = NodeStoreTests.Stand

  init() { EventLoop.shared.runInBackground() }

  /// The messages that the next run reads from a disk.
  @LoopActor
  private static func messages(after stand: Stand) -> [MeshMessage] {
    let next = Stand(opens: false)
    let rows = stand.disk.state.withLock { $0.rows }
    next.disk.state.withLock { $0.rows = rows }
    next.open()
    return next.kept?.messages ?? []
  }

  @Test("After a failed commit the newer version of a message is written to the disk, not the older one")
  func newerWins() async throws {
    try await LoopActor.run {
      let stand = Stand()
      stand.disk.refuse(NodeStoreTests.full)
      stand.keep("unread", .message(try Sample.privateMessage(1, state: .unread)))
      // This happens while that commit is held.
      stand.keep("seen", .message(try Sample.privateMessage(1, state: .seen)))
      for _ in 0..<4 {
        stand.work()
        stand.clock.advance(by: .seconds(2))
      }
      #expect(stand.answers == ["unread: DiskFull", "seen: kept"])
      #expect(Self.messages(after: stand).map(\.state) == [.seen])
    }
  }

  @Test("During a commit no change is reported as stored, not even one that needs no row")
  func notBefore() async throws {
    try await LoopActor.run {
      let stand = Stand()
      stand.keep("message", .message(try Sample.privateMessage(1)))
      stand.clock.run()
      stand.keep("settled", .settled(77))
      stand.keep("nothing")
      stand.clock.run()
      #expect(stand.answers == [])
      stand.disk.refuse(NodeStoreTests.full)
      stand.work()
      #expect(!stand.answers.contains { $0.hasSuffix("kept") }, "\(stand.answers)")
      for _ in 0..<4 {
        stand.clock.advance(by: .seconds(2))
        stand.work()
      }
      #expect(stand.answers.first == "message: DiskFull" && stand.answers.count == 3)
    }
  }

  @Test("A limit of file sizes that is set while the store is being read applies from its start")
  func limitsDuringStart() async {
    await LoopActor.run {
      let before = Stand()
      for number in UInt32(1)...4 {
        before.keeper.keep(
          MeshFile(
            number: number, time: Sample.time + UInt64(number), sender: Sample.peer(UInt64(number)), nickname: "",
            name: "a",
            mime: "", size: 1000, packet: nil, place: UInt64(number)),
          content: [UInt8](repeating: 7, count: 1000)
        ) { _ in }
        for _ in 0..<3 { before.work() }
      }
      let stand = Stand(opens: false)
      let (rows, files) = before.disk.state.withLock { ($0.rows, $0.files) }
      stand.disk.state.withLock { ($0.rows, $0.files) = (rows, files) }
      #expect(files.count == 4)
      stand.keeper.open { stand.kept = try? $0.get() }
      stand.keeper.settings.fileBytes = 2500
      for _ in 0..<4 {
        stand.work()
        stand.clock.advance(by: .seconds(2))
      }
      #expect(stand.disk.state.withLock { $0.files.keys.sorted() } == [3, 4])
    }
  }

  @Test("A wipe preserves only the highest message number and the hashes of erased packets")
  func survivors() async throws {
    try await LoopActor.run {
      let stand = Stand()
      stand.keep("one", .message(try Sample.publicMessage(7)))
      for _ in 0..<3 { stand.work() }
      var random = SeededRandom(seed: 4)
      var traces = ErasedTraces(randomFrom: &random)
      let packet = try Sample.gossip().id
      traces.add([packet], own: stand.kept?.identity.id, at: Sample.time)
      var wiped: NodeStore.Wiped?
      stand.keeper.wipe(keeping: WipeSurvivors(highestNumber: 7, erased: traces)) { wiped = try? $0.get() }
      for _ in 0..<3 { stand.work() }
      #expect(wiped?.kept.highestNumber == 7 && wiped?.kept.erased == traces && wiped?.kept.messages == [])
      let next = Stand(opens: false)
      let rows = stand.disk.state.withLock { $0.rows }
      next.disk.state.withLock { $0.rows = rows }
      next.open()
      #expect(next.kept?.highestNumber == 7 && next.kept?.erased?.contains(packet) == true)
      next.keeper.forgetErased()
      for _ in 0..<3 { next.work() }
      #expect(next.disk.count == 2, "identity and number")
    }
  }
}
