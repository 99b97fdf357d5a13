import Air
import Common
import Loop
import Network
import Testing

@testable import Presence

@Suite("StreamJoint: two joined streams, of which one hangs up")
struct StreamJointTests {
  /// A stream that records the calls of its owner.
  @LoopActor
  private final class Side: JoinedStream {
    private(set) var sent: [UInt8] = []
    private(set) var hasFinished = false
    private(set) var isClosed = false
    private(set) var isPaused = false
    var room = Int.max
    var isDrained = true

    func send(_ bytes: ArraySlice<UInt8>) -> Int {
      let accepted = bytes.prefix(room)
      room -= accepted.count
      sent += accepted
      return accepted.count
    }

    func finish() { hasFinished = true }
    func pauseReading(_ isPaused: Bool) { self.isPaused = isPaused }
    func close() { isClosed = true }
  }

  @LoopActor
  private final class World {
    let time = VirtualTime()
    let (peer, program) = (Side(), Side())
    private(set) var ends = 0
    private(set) lazy var joint = StreamJoint(peer, program, on: time) { [weak self] in self?.ends += 1 }
  }

  @Test("Bytes for a program that hung up are dropped without blocking the peer, and the stream ends after 10 s")
  @LoopActor
  func programCloses() {
    let world = World()
    world.program.room = 2
    world.joint.handle(.received([1, 2, 3]), of: 0)
    #expect(world.peer.isPaused && world.program.sent == [1, 2])
    world.joint.handle(.received([9]), of: 1)
    world.joint.handle(.ended, of: 1)
    world.joint.handle(.hungUp, of: 1)
    #expect(world.peer.sent == [9] && world.peer.hasFinished && !world.peer.isPaused)
    world.joint.handle(.received([4]), of: 0)
    #expect(!world.peer.isPaused && world.program.sent == [1, 2])
    world.time.advance(by: .milliseconds(9999))
    #expect(world.ends == 0)
    world.time.advance(by: .milliseconds(1))
    #expect(world.ends == 1 && world.peer.isClosed && world.program.isClosed)
  }

  @Test("The last bytes of a program that hung up are sent to a slow peer for at most 2 min")
  @LoopActor
  func slowPeer() {
    for isSlow in [true, false] {
      let world = World()
      world.peer.isDrained = false
      world.joint.handle(.ended, of: 1)
      world.joint.handle(.hungUp, of: 1)
      world.time.advance(by: .seconds(50))
      #expect(world.ends == 0)
      if !isSlow { world.peer.isDrained = true }
      world.time.advance(by: .seconds(10))
      #expect(world.ends == (isSlow ? 0 : 1))
      world.time.advance(by: .seconds(60))
      #expect(world.ends == 1)
    }
  }
}
