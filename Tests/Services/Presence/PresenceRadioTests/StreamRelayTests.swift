import Air
import Common
import Loop
import Network
import Radio
import TestSupport
import Testing

@testable import PresenceRadio

@Suite("The relay between an RFCOMM link and a program", .serialized)
struct StreamRelayTests {
  init() { EventLoop.shared.runInBackground() }

  /// An RFCOMM link whose events the test generates.
  @LoopActor
  private final class Link: RadioStream {
    let address = BluetoothAddress(1)
    private(set) var handler: (@LoopActor (RadioStreamEvent) -> Void)?
    private(set) var sent: [UInt8] = []
    private(set) var isClosed = false
    /// Number of further bytes that the link accepts from the relay.
    var room = Int.max

    func start(_ handler: @escaping @LoopActor (RadioStreamEvent) -> Void) { self.handler = handler }

    func send(_ bytes: ArraySlice<UInt8>) -> Int {
      let count = min(bytes.count, room)
      room -= count
      sent += bytes.prefix(count)
      return count
    }

    func pauseReading(_ isPaused: Bool) {}
    func close() { isClosed = true }
  }

  /// A relay in virtual time, with the program's end of its socket.
  @LoopActor
  private final class World {
    let time = VirtualTime()
    let link = Link()
    let program: SocketStream
    let atProgram = Mailbox<SocketStreamEvent>()
    let relay: StreamRelay
    let ends = Mailbox<Bool>()

    init() throws {
      let (local, other) = try SocketStream.pair()
      program = SocketStream(owning: other)
      let (ends, atProgram) = (ends, atProgram)
      relay = StreamRelay(link, local, on: time) { ends.put(true) }
      relay.begin()
      program.pauseReading(true)
      program.start { atProgram.put($0) }
    }

    func turn() async throws {
      let box = Mailbox<Bool>()
      let timer = EventLoop.shared.schedule(after: .milliseconds(2)) { box.put(true) }
      _ = try await box.next()
      timer.cancel()
    }
  }

  @Test("A program that has ended its sending direction still gets the last bytes of a link that ended")
  @LoopActor
  func lastBytes() async throws {
    let world = try World()
    let bytes = (0..<400_000).map { UInt8(truncatingIfNeeded: $0 &* 31 >> 3) }
    world.link.handler?(.received(bytes))
    world.link.handler?(.closed(reason: "gone"))
    world.program.finish()
    for _ in 0..<3 { try await world.turn() }
    world.program.pauseReading(false)
    var received: [UInt8] = []
    while received.count < bytes.count, case .received(let more) = try await world.atProgram.next() { received += more }
    #expect(received == bytes)
    _ = try await world.ends.next()
    #expect(world.link.isClosed)
  }

  @Test("A peer that accepts no bytes loses the last bytes of a program 60 s after the program has closed its socket")
  @LoopActor
  func deafPeer() async throws {
    let world = try World()
    world.link.room = 0
    world.program.send([1, 2, 3])
    while world.relay.received.program < 3 { try await world.turn() }
    world.program.close()
    for _ in 0..<5 { try await world.turn() }
    world.time.advance(by: .milliseconds(59_999))
    #expect(world.ends.all.isEmpty && !world.link.isClosed)
    world.time.advance(by: .milliseconds(1))
    #expect(world.ends.all == [true] && world.link.isClosed)
  }

  @Test("A program that does not read loses the last bytes of a link 3 s after the link has ended")
  @LoopActor
  func slowProgram() async throws {
    let world = try World()
    world.link.handler?(.received([UInt8](repeating: 1, count: 400_000)))
    world.link.handler?(.closed(reason: "gone"))
    world.time.advance(by: .milliseconds(2999))
    #expect(world.ends.all.isEmpty)
    world.time.advance(by: .milliseconds(1))
    #expect(world.ends.all == [true])
  }
}
