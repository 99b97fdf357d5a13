import Glibc
import Loop
import TestSupport
import Testing

@testable import Network

/// Two ends of a TCP connection on this machine.
@LoopActor
struct StreamPair {
  let listener: TCPListener
  let client: SocketStream
  let server: SocketStream
  let atClient = Mailbox<SocketStreamEvent>()
  let atServer = Mailbox<SocketStreamEvent>()

  init(_ address: IPAddress = .loopback4) async throws {
    let accepted = Mailbox<IncomingConnection>()
    listener = try TCPListener(on: Endpoint(address, port: 0)) { accepted.put($0) }
    let atClient = atClient
    client = SocketStream.connect(to: listener.local, within: Patience.limit) { atClient.put($0) }
    #expect(try await atClient.next() == .connected)
    server = SocketStream(try await accepted.next())
    let atServer = atServer
    server.start { atServer.put($0) }
  }

  /// Receives bytes until the stream ends, or until `count` bytes have arrived.
  static func receive(_ box: Mailbox<SocketStreamEvent>, count: Int = .max) async throws -> (
    bytes: [UInt8], last: SocketStreamEvent
  ) {
    var bytes: [UInt8] = []
    while true {
      let event = try await box.next()
      if case .received(let more) = event { bytes += more } else if event != .writable { return (bytes, event) }
      if bytes.count >= count { return (bytes, event) }
    }
  }

  /// Sends all bytes, and waits for `writable` when the buffer is full.
  static func send(_ bytes: [UInt8], on stream: SocketStream, _ box: Mailbox<SocketStreamEvent>) async throws {
    var rest = bytes[...]
    while true {
      rest = rest.dropFirst(stream.send(rest))
      guard !rest.isEmpty else { return }
      _ = try await box.first { $0 == .writable }
    }
  }
}

@Suite("A stream over TCP", .serialized)
struct SocketStreamTests {
  init() { EventLoop.shared.runInBackground() }

  private static let bytes = (0..<3_000_000).map { UInt8(truncatingIfNeeded: $0 &* 7) }

  @Test(
    "3 MB arrive complete over IPv4 and IPv6, and after one direction ends the other stays open",
    arguments: [IPAddress.loopback4, .loopback6])
  @LoopActor
  func whole(address: IPAddress) async throws {
    let pair = try await StreamPair(address)
    let sending = Task { @LoopActor in
      try await StreamPair.send(Self.bytes, on: pair.client, pair.atClient)
      pair.client.finish()
    }
    let (received, last) = try await StreamPair.receive(pair.atServer)
    try await sending.value
    #expect(received == Self.bytes && last == .ended)
    #expect(pair.client.room == 0 && pair.listener.connectionCount == 1)
    pair.server.send([1, 2, 3])
    pair.server.finish()
    #expect(try await pair.atServer.next() == .closed(nil))
    #expect(try await StreamPair.receive(pair.atClient).bytes == [1, 2, 3])
    #expect(try await pair.atClient.next() == .closed(nil))
    #expect(pair.listener.connectionCount == 0)
  }

  @Test(
    "A stream to a peer that does not read accepts 256 KiB beyond the kernel's buffers, and then waits")
  @LoopActor
  func backPressure() async throws {
    let pair = try await StreamPair()
    pair.server.pauseReading(true)
    #expect(pair.client.room == SocketStream.bufferSize)
    // The kernel accepts bytes until its buffers are full, and none afterwards.
    var accepted = 0
    var pauses = 0
    while pauses < 50 {
      let count = pair.client.send(Self.bytes[accepted...])
      accepted += count
      pauses = count == 0 ? pauses + 1 : 0
      try await Self.turn()
    }
    #expect(accepted < Self.bytes.count)
    #expect(pair.client.room == 0 && !pair.client.isDrained)
    #expect(pair.atServer.all.isEmpty)
    pair.server.pauseReading(false)
    let (received, _) = try await StreamPair.receive(pair.atServer, count: accepted)
    #expect(received == Array(Self.bytes.prefix(accepted)))
    _ = try await pair.atClient.first { $0 == .writable }
    #expect(pair.client.room >= SocketStream.bufferSize / 2)
  }

  /// Waits for one loop iteration, in which ready descriptors are handled.
  @LoopActor
  private static func turn() async throws {
    let box = Mailbox<Bool>()
    let timer = EventLoop.shared.schedule(after: .milliseconds(2)) { box.put(true) }
    _ = try await box.next()
    timer.cancel()
  }

  @Test("A TCP connection to a port without a listener is refused, and one to a silent address times out")
  @LoopActor
  func failures() async throws {
    let listener = try TCPListener(on: Endpoint(.loopback4, port: 0)) { _ in }
    let free = listener.local
    listener.close()
    let box = Mailbox<SocketStreamEvent>()
    let stream = SocketStream.connect(to: free, within: Patience.limit) { box.put($0) }
    #expect(try await box.next() == .closed(.refused))
    #expect(stream.send([1]) == 0)
    // A listener whose queue is full does not answer.
    let clock = HandClock()
    let full = try FullListener()
    defer { full.close() }
    let late = SocketStream.connect(to: full.local, within: .seconds(5), on: clock) { box.put($0) }
    clock.advance(by: .seconds(5))
    #expect(try await box.next() == .closed(.timedOut))
    #expect(late.room == 0)
  }

  @Test("A reset by the peer ends the TCP stream with an error, after the bytes that were sent before")
  @LoopActor
  func reset() async throws {
    let pair = try await StreamPair()
    pair.server.send([9])
    #expect(try await pair.atClient.next() == .received([9]))
    // Unread bytes make the kernel send a reset.
    pair.server.pauseReading(true)
    pair.client.send([1])
    try await Self.turn()
    pair.server.close()
    #expect(try await StreamPair.receive(pair.atClient).last == .closed(.reset))
  }

  @Test("A TCP connection that is reset while reading is paused ends at once")
  @LoopActor
  func resetInPause() async throws {
    let pair = try await StreamPair()
    for stream in [pair.client, pair.server] { stream.pauseReading(true) }
    pair.client.send([1])
    try await Self.turn()
    pair.server.close()
    #expect(try await pair.atClient.next() == .closed(.reset))
  }

  @Test(
    "A peer that closes a Unix socket is reported as hung up, and all it sent before arrives",
    arguments: [false, true])
  @LoopActor
  func hangUp(isPaused: Bool) async throws {
    let (stream, other) = try SocketStream.pair()
    let peer = SocketStream(owning: other)
    let box = Mailbox<SocketStreamEvent>()
    stream.pauseReading(isPaused)
    stream.start { box.put($0) }
    peer.start { _ in }
    peer.send([1, 2, 3])
    while !peer.isDrained { try await Self.turn() }
    peer.close()
    if isPaused {
      #expect(try await box.next() == .hungUp)
      stream.pauseReading(false)
    }
    #expect(try await box.next() == .received([1, 2, 3]))
    #expect(try await box.next() == .ended)
    if !isPaused { #expect(try await box.next() == .hungUp) }
    stream.close()
  }

  @Test("A peer that shut down only its own direction of a Unix socket is not hung up, and still receives")
  @LoopActor
  func halfClosed() async throws {
    let (stream, other) = try SocketStream.pair()
    let peer = SocketStream(owning: other)
    let (box, atPeer) = (Mailbox<SocketStreamEvent>(), Mailbox<SocketStreamEvent>())
    stream.start { box.put($0) }
    peer.start { atPeer.put($0) }
    peer.finish()
    #expect(try await box.next() == .ended)
    stream.send([7])
    #expect(try await atPeer.next() == .received([7]))
    #expect(box.all == [.ended])
    stream.finish()
    #expect(try await box.next() == .closed(nil))
  }

  @Test("A stream that its owner closes reports no more events, and frees its slot in the listener")
  @LoopActor
  func close() async throws {
    let pair = try await StreamPair()
    pair.server.close()
    #expect(pair.listener.connectionCount == 0)
    #expect(try await pair.atClient.next() == .ended)
    pair.client.close()
    try await Self.turn()
    #expect(pair.atServer.all.isEmpty)
  }
}

/// A socket that listens with a full queue, so that further connection attempts get no answer.
private final class FullListener {
  let local: Endpoint
  private var descriptors: [Int32] = []

  init() throws {
    let descriptor = try Socket.make(.stream, for: .loopback4)
    descriptors.append(descriptor)
    try Socket.bind(descriptor, to: Endpoint(.loopback4, port: 0))
    try #require(listen(descriptor, 0) == 0)
    local = try #require(Socket.local(descriptor))
    for _ in 0..<4 {
      let client = try Socket.make(.stream, for: .loopback4)
      descriptors.append(client)
      _ = local.withSocketAddress { connect(client, $0, $1) }
    }
  }

  func close() { for descriptor in descriptors { Glibc.close(descriptor) } }
}
