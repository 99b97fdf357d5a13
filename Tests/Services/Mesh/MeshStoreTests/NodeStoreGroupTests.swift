import Bitchat
import Loop
import TestSupport
import Testing

@testable import MeshStore

@Suite("Grouping of mesh store commits")
struct NodeStoreGroupTests {
  init() { EventLoop.shared.runInBackground() }

  /// Stores a public message of another peer, as the service does.
  @LoopActor
  private static func hear(_ number: UInt32, _ stand: NodeStoreTests.Stand) {
    let line = MeshMessage(
      number: number, time: Sample.time, conversation: nil, sender: Sample.peer(9), nickname: "", text: "\(number)",
      state: .unread)
    stand.keeper.keep([.message(line)], isUrgent: false) { error in
      stand.answers.append("\(number): \(error?.code ?? "kept")")
    }
  }

  @Test("140 public messages a second cause at most two commits a second, and each is stored within 0.5 s")
  func flood() async throws {
    await LoopActor.run {
      let stand = NodeStoreTests.Stand()
      let before = stand.disk.commits
      for number in 1...1400 as ClosedRange<UInt32> {
        Self.hear(number, stand)
        stand.clock.advance(by: .milliseconds(7))
        stand.work()
        #expect(Int(number) - stand.answers.count <= 72, "at most half a second of messages waits")
      }
      stand.clock.advance(by: .milliseconds(500))
      stand.work()
      #expect(stand.answers.count == 1400)
      #expect((15...21).contains(stand.disk.commits - before), "\(stand.disk.commits - before) in 9.8 s")
    }
  }

  @Test("A public message after a pause, or any urgent change, is committed at once with all waiting ones")
  func urgent() async throws {
    try await LoopActor.run {
      let stand = NodeStoreTests.Stand()
      stand.clock.advance(by: .seconds(1))
      Self.hear(1, stand)
      stand.work()
      #expect(stand.answers == ["1: kept"])
      Self.hear(2, stand)
      stand.work()
      #expect(stand.answers == ["1: kept"])
      stand.keep("private", .message(try Sample.privateMessage(3)))
      stand.work()
      #expect(stand.answers == ["1: kept", "2: kept", "private: kept"])
    }
  }
}
