import Loop
import TestSupport
import Testing

@testable import Broadcast

@Suite("Message numbers of the local broadcast channel")
struct FeedNumberTests {
  init() { EventLoop.shared.runInBackground() }

  @Test("After a restart broadcast message numbers are higher than before, and no old message is listed")
  @LoopActor
  func restarted() throws {
    let folder = try ScratchFolder()
    let plaza = Plaza()
    let (one, other) = (plaza.add(directory: folder.path), plaza.add())
    #expect(one.service.messages(after: 0, limit: 10).isEmpty)
    let first = try one.send("before")
    _ = try other.send("heard before")
    plaza.time.advance(by: .seconds(10))
    let last = try #require(one.service.messages(after: 0, limit: 10).last?.number)
    plaza.restart(one, directory: folder.path)
    plaza.time.advance(by: .seconds(10))
    #expect(one.service.messages(after: 0, limit: 10).isEmpty)
    #expect(try one.send("after") > first)
    _ = try other.send("heard after")
    plaza.time.advance(by: .seconds(10))
    #expect(one.service.messages(after: last, limit: 10).map(\.text.string) == ["heard after"])
  }
}
