import BitchatWire
import Crypto
import Loop
import Store
import TestSupport
import Testing

@testable import MeshStore

@Suite("Commits of the mesh store")
struct NodeStoreTests {
  init() { EventLoop.shared.runInBackground() }

  /// A mesh store whose disk completes operations when the test permits it.
  @LoopActor
  final class Stand {
    let disk = StandInDisk()
    let clock = HandClock()
    let worker = HeldWorker()
    let keeper: NodeStore
    /// The replies, in order.
    var answers: [String] = []
    var kept: StoredNode?

    init(archive: Duration = .seconds(6 * 3600), opens: Bool = true) {
      keeper = NodeStore(
        disk, settings: .init(archive: archive), scheduler: clock, worker: worker, clock: Sample.clock,
        random: SeededRandom(seed: 1))
      if opens { open() }
    }

    func open() {
      keeper.open { [weak self] result in
        self?.kept = try? result.get()
        if case .failure(let error) = result { self?.answers.append("open: \(error.code)") }
      }
      work()
    }

    func work() {
      worker.release()
      clock.run()
    }

    func keep(_ name: String, _ changes: MeshChange...) {
      keeper.keep(changes) { [weak self] error in self?.answers.append("\(name): \(error?.code ?? "kept")") }
    }
  }

  static let full = StoreError(.diskFull, "The disk is full.")

  @Test("A change of the mesh store is reported as stored after its commit and not before")
  func answered() async throws {
    try await LoopActor.run {
      let stand = Stand()
      stand.keep("one", .message(try Sample.privateMessage(1)))
      stand.clock.run()
      #expect(stand.answers == [] && stand.worker.held.count == 1)
      stand.work()
      #expect(stand.answers == ["one: kept"])
      #expect(stand.disk.count == 3, "identity, number, message")
    }
  }

  @Test("Changes of the mesh store during a commit are all in the next commit, and answered in order")
  func batches() async throws {
    try await LoopActor.run {
      let stand = Stand()
      let before = stand.disk.commits
      for number in 1...5 as ClosedRange<UInt32> {
        stand.keep("\(number)", .message(try Sample.privateMessage(number)))
      }
      stand.keep("nothing")
      stand.work()
      #expect(stand.answers == ["1: kept"] && stand.disk.commits == before + 1)
      stand.work()
      #expect(stand.answers == ["1: kept", "2: kept", "3: kept", "4: kept", "5: kept", "nothing: kept"])
      #expect(stand.disk.commits == before + 2)
      stand.keep("nothing again")
      #expect(stand.answers.count == 6)
      stand.clock.run()
      #expect(stand.answers.last == "nothing again: kept" && stand.worker.held.isEmpty)
    }
  }

  @Test("A change of the mesh store that a full disk refuses is reported, and stored with the next commit")
  func refused() async throws {
    try await LoopActor.run {
      let stand = Stand()
      var changes = 0
      stand.keeper.onChange = { changes += 1 }
      stand.disk.refuse(Self.full)
      stand.keep("one", .message(try Sample.privateMessage(1, state: .unread)))
      stand.work()
      #expect(stand.answers == ["one: DiskFull"] && stand.keeper.trouble == "The disk is full." && changes == 1)
      stand.keep("two", .message(try Sample.privateMessage(1, state: .seen)), .message(try Sample.privateMessage(2)))
      stand.work()
      #expect(stand.answers == ["one: DiskFull", "two: kept"])
      #expect(stand.keeper.trouble == nil && changes == 2)
      let again = Stand(opens: false)
      let rows = stand.disk.state.withLock { $0.rows }
      again.disk.state.withLock { $0.rows = rows }
      again.open()
      #expect(again.kept?.messages.map(\.state) == [.seen, .unread], "the later word counts")
    }
  }

  @Test("A failed commit of the mesh store is repeated after 1 s, then at growing intervals of up to 60 s")
  func retried() async throws {
    try await LoopActor.run {
      let stand = Stand()
      stand.disk.refuse(Self.full, Self.full, Self.full, Self.full, Self.full, Self.full, Self.full, Self.full)
      stand.keep("one", .message(try Sample.privateMessage(1)))
      stand.work()
      for pause in [1, 2, 4, 8, 16, 32, 60] {
        stand.clock.advance(by: .seconds(pause) - .milliseconds(1))
        #expect(stand.worker.held.isEmpty)
        stand.clock.advance(by: .milliseconds(1))
        #expect(stand.worker.held.count == 1)
        stand.work()
      }
      #expect(stand.keeper.trouble != nil && stand.disk.count == 1)
      stand.clock.advance(by: .seconds(60))
      stand.work()
      #expect(stand.keeper.trouble == nil && stand.disk.count == 3 && stand.answers.count == 1)
      stand.clock.advance(by: .seconds(600))
      #expect(stand.worker.held.isEmpty)
    }
  }

  @Test("A change of the mesh store during a failing commit is written in a commit of its own")
  func refusedMeanwhile() async throws {
    try await LoopActor.run {
      let stand = Stand()
      stand.disk.refuse(Self.full)
      stand.keep("one", .message(try Sample.privateMessage(1)))
      stand.keep("two", .message(try Sample.privateMessage(2)))
      stand.work()
      stand.work()
      #expect(stand.answers == ["one: DiskFull", "two: kept"] && stand.disk.count == 4)
    }
  }

  @Test("A change of the mesh store that needs no write is answered when the running commit ends")
  func nothingToWrite() async throws {
    try await LoopActor.run {
      let stand = Stand()
      stand.keep("one", .message(try Sample.privateMessage(1)))
      // The message does not exist, so nothing is written.
      stand.keep("two", .settled(77))
      stand.work()
      #expect(stand.answers == ["one: kept", "two: kept"] && stand.disk.commits == 2)
    }
  }

  @Test(
    "If the disk does not answer for 10 s, all changes of the mesh store fail with `DiskStalled` and are stored later")
  func hanging() async throws {
    try await LoopActor.run {
      let stand = Stand()
      stand.keep("one", .message(try Sample.privateMessage(1)))
      stand.keep("two", .message(try Sample.privateMessage(2)))
      stand.clock.advance(by: .milliseconds(9_999))
      #expect(stand.answers == [] && stand.keeper.trouble == nil)
      stand.clock.advance(by: .milliseconds(1))
      #expect(stand.answers == ["one: DiskStalled", "two: DiskStalled"])
      #expect(stand.keeper.trouble?.contains("does not answer") == true)
      stand.keep("three", .message(try Sample.privateMessage(3)))
      stand.clock.run()
      #expect(stand.answers.last == "three: DiskStalled" && stand.worker.held.count == 1)
      stand.work()
      stand.work()
      #expect(stand.keeper.trouble == nil && stand.disk.count == 5 && stand.answers.count == 3)
    }
  }

  @Test(
    "A file read that exceeds its time limit is answered once with `DiskStalled`, as are repeated reads"
  )
  func hangingContent() async {
    await LoopActor.run {
      let stand = Stand()
      let file = MeshFile(
        number: 1, time: 1, sender: PeerID(rawValue: 1), nickname: "", name: "a", mime: "", size: 3, packet: nil,
        place: 7)
      stand.disk.state.withLock { $0.files[7] = [1, 2, 3] }
      var answers: [String] = []
      @LoopActor func read() {
        stand.keeper.content(of: file) { result in
          do throws(StoreError) { answers.append("\(try result.get())") } catch { answers.append(error.code) }
        }
      }
      read()
      stand.clock.advance(by: .milliseconds(9_999))
      #expect(answers == [] && stand.keeper.trouble == nil)
      stand.clock.advance(by: .milliseconds(1))
      #expect(answers == ["DiskStalled"] && stand.keeper.trouble?.contains("does not answer") == true)
      read()
      stand.clock.run()
      #expect(answers == ["DiskStalled", "DiskStalled"] && stand.worker.held.count == 1)
      stand.work()
      #expect(answers.count == 2 && stand.keeper.trouble == nil)
      read()
      stand.work()
      #expect(answers.last == "[1, 2, 3]")
      // A content that is being written may take as long, and is still stored when the write succeeds.
      stand.keeper.keep(file, content: [4, 5]) { answers.append("kept: \($0?.code ?? "yes")") }
      stand.clock.advance(by: .seconds(10))
      #expect(answers.count == 3 && stand.keeper.trouble?.contains("does not answer") == true)
      while stand.worker.held.count > 0 { stand.work() }
      #expect(answers.last == "kept: yes" && stand.keeper.trouble == nil)
    }
  }

  @Test("A change of the mesh store that cannot be encoded is reported, and the others are stored")
  func unwritable() async throws {
    try await LoopActor.run {
      let stand = Stand()
      let long = String(repeating: "x", count: 256)
      stand.keep("one", .nickname(long), .message(try Sample.privateMessage(1)))
      stand.work()
      #expect(stand.answers == ["one: TooLarge"] && stand.disk.count == 3 && stand.keeper.trouble == nil)
    }
  }

  @Test("A new identity is on the disk before it is used, and is the same after a restart")
  func identity() async {
    await LoopActor.run {
      let stand = Stand(opens: false)
      stand.disk.refuse()
      stand.keeper.open { result in stand.kept = try? result.get() }
      #expect(stand.kept == nil && stand.disk.count == 0)
      stand.work()
      #expect(stand.kept?.isNew == true && stand.disk.count == 1)
      let next = Stand(opens: false)
      let rows = stand.disk.state.withLock { $0.rows }
      next.disk.state.withLock { $0.rows = rows }
      next.open()
      #expect(next.kept?.isNew == false && next.kept?.identity.id == stand.kept?.identity.id)
    }
  }

  @Test("A failed start of the mesh store gives its reason, stores nothing, and can be repeated")
  func failedStart() async throws {
    try await LoopActor.run {
      let stand = Stand(opens: false)
      stand.keep("early", .message(try Sample.privateMessage(1)))
      stand.clock.run()
      stand.disk.refuse(Self.full)
      stand.open()
      #expect(stand.answers == ["early: Failed", "open: DiskFull"] && stand.keeper.trouble == "The disk is full.")
      stand.open()
      #expect(stand.kept != nil && stand.keeper.trouble == nil)
      stand.open()
      #expect(stand.answers.last == "open: Failed", "it is open")
    }
  }

  @Test("A new identity that the disk refuses to store is not used")
  func identityRefused() async {
    await LoopActor.run {
      let stand = Stand(opens: false)
      // The database opens, but the commit of the identity fails.
      let refusing = RefusingCommits()
      let keeper = NodeStore(
        refusing, scheduler: stand.clock, worker: stand.worker, clock: Sample.clock, random: SeededRandom(seed: 1))
      var failure: StoreError?
      keeper.open { result in if case .failure(let error) = result { failure = error } }
      stand.work()
      #expect(failure == Self.full)
    }
  }

  struct RefusingCommits: MeshDisk {
    func open() -> DiskContents { DiskContents() }
    func commit(_ writes: MeshWrites) throws(StoreError) { throw NodeStoreTests.full }
    func write(_ content: [UInt8], to place: UInt64) throws(StoreError) { throw NodeStoreTests.full }
    func read(_ place: UInt64) throws(StoreError) -> [UInt8] { throw NodeStoreTests.full }
    func erase(_ place: UInt64) {}
    func wipe(keeping number: UInt32) -> Bool { true }
  }

  @Test("`whenIdle` of the mesh store is answered when all changes are written or refused, or at its time limit")
  func idle() async throws {
    try await LoopActor.run {
      let stand = Stand()
      var calls: [String] = []
      stand.keeper.whenIdle(within: .seconds(5)) { calls.append("at once") }
      stand.clock.run()
      #expect(calls == ["at once"])
      stand.keep("one", .message(try Sample.privateMessage(1)))
      stand.keep("two", .message(try Sample.privateMessage(2)))
      stand.keeper.whenIdle(within: .seconds(5)) { calls.append("written") }
      stand.work()
      #expect(calls.count == 1, "the second commit runs")
      stand.work()
      #expect(calls.last == "written" && calls.count == 2)
      stand.disk.refuse(Self.full)
      stand.keep("three", .message(try Sample.privateMessage(3)))
      stand.keeper.whenIdle(within: .seconds(5)) { calls.append("refused") }
      stand.work()
      #expect(calls.last == "refused")
      stand.keep("four", .message(try Sample.privateMessage(4)))
      stand.keeper.whenIdle(within: .seconds(5)) { calls.append("limit") }
      stand.clock.advance(by: .seconds(5))
      #expect(calls.last == "limit" && calls.count == 4)
    }
  }

  @Test("Messages that the mesh store evicts are reported to the service")
  func removed() async throws {
    try await LoopActor.run {
      let stand = Stand()
      var removed: [UInt32] = []
      stand.keeper.onRemoved = { removed += $0 }
      stand.keep("one", .message(try Sample.privateMessage(1)), .message(try Sample.publicMessage(2)))
      stand.work()
      stand.keeper.age(at: Sample.time + 7 * 3600 * 1000)
      #expect(removed == [2])
      stand.work()
      stand.keeper.settings.archive = .zero
      stand.keep("two", .message(try Sample.publicMessage(3)), .gossip(try Sample.gossip()))
      stand.work()
      #expect(stand.disk.count == 3, "identity, number, the private message")
      #expect(stand.answers.last == "two: kept")
    }
  }

  @Test("A wipe refuses waiting changes, and changes made before it that arrive later are not written")
  func wipe() async throws {
    try await LoopActor.run {
      let stand = Stand()
      let old = stand.kept?.identity.id
      stand.keep("one", .message(try Sample.privateMessage(1)))
      stand.keep("two", .message(try Sample.privateMessage(2)))
      var wiped: NodeStore.Wiped?
      stand.keeper.wipe { wiped = try? $0.get() }
      #expect(stand.answers == ["one: Failed", "two: Failed"])
      stand.keep("late", .message(try Sample.privateMessage(3)))
      stand.work()
      #expect(stand.answers.last == "late: Failed")
      #expect(wiped?.isKeyDestroyed == true && wiped?.advice == nil && wiped?.kept.isNew == true)
      #expect(wiped?.kept.messages == [] && wiped?.kept.highestNumber == 0)
      #expect(stand.disk.count == 1, "the new identity")
      #expect(old != nil && stand.disk.state.withLock { $0.wipes } == 1)
      stand.keep("after", .message(try Sample.privateMessage(1)))
      stand.work()
      #expect(stand.answers.last == "after: kept" && stand.answers.count == 4)
    }
  }

  @Test("If a wipe fails, this is reported, and nothing is stored until the store is opened again")
  func wipeRefused() async throws {
    try await LoopActor.run {
      let stand = Stand()
      stand.disk.state.withLock { $0.wipeRefusal = StoreError(.diskFailed, "The disk failed.") }
      var failure: StoreError?
      stand.keeper.wipe { if case .failure(let error) = $0 { failure = error } }
      stand.work()
      #expect(failure?.reason == .diskFailed && stand.keeper.trouble == "The disk failed.")
      stand.keep("one", .message(try Sample.privateMessage(1)))
      stand.clock.run()
      #expect(stand.answers == ["one: Failed"])
      stand.open()
      #expect(stand.keeper.trouble == nil)
    }
  }

  @Test("A wipe of the mesh store reports a key that it could not destroy")
  func foreignKey() async {
    await LoopActor.run {
      let stand = Stand()
      stand.disk.state.withLock { $0.isKeyForeign = true }
      var wiped: NodeStore.Wiped?
      stand.keeper.wipe { wiped = try? $0.get() }
      stand.work()
      #expect(wiped?.isKeyDestroyed == false && wiped?.advice?.contains("earshot-mesh") == true)
    }
  }

  @Test("Without a directory the mesh store holds all records in memory only")
  func memory() async throws {
    try await LoopActor.run {
      let clock = HandClock()
      let keeper = NodeStore(directory: "", scheduler: clock, disk: clock)
      var kept: StoredNode?
      keeper.open { kept = try? $0.get() }
      clock.run()
      #expect(kept?.isNew == true && kept?.keyOrigin == nil)
      var answers: [StoreError?] = []
      keeper.keep(try Sample.changes()) { answers.append($0) }
      clock.run()
      #expect(answers == [nil] && keeper.trouble == nil)
    }
  }
}
