import Loop
import Network
import TestSupport
import Testing

@Suite("A TCP listener", .serialized)
struct TCPListenerTests {
  init() { EventLoop.shared.runInBackground() }

  @Test("A TCP listener accepts a limited number of connections from one address, and another one after one ends")
  @LoopActor
  func ofOneAddress() async throws {
    let accepted = Mailbox<IncomingConnection>()
    let listener = try TCPListener(on: Endpoint(.loopback4, port: 0)) { accepted.put($0) }
    defer { listener.close() }
    var streams: [SocketStream] = []
    var served: [SocketStream] = []
    for _ in 0..<4 {
      streams.append(SocketStream.connect(to: listener.local, within: Patience.limit) { _ in })
      served.append(SocketStream(try await accepted.next()))
    }
    accepted.empty()
    let fifth = Mailbox<SocketStreamEvent>()
    streams.append(SocketStream.connect(to: listener.local, within: Patience.limit) { fifth.put($0) })
    let end = try await fifth.first { $0 != .connected }
    #expect(end == .ended || end == .closed(.reset))
    #expect(listener.counters.tooManyOfAddress == 1 && listener.connectionCount == 4)
    served.removeFirst().close()
    streams.append(SocketStream.connect(to: listener.local, within: Patience.limit) { _ in })
    served.append(SocketStream(try await accepted.next()))
    #expect(listener.counters.accepted == 5)
  }

  @Test("A TCP listener closes connections above its total, and a connection that its owner drops frees its slot")
  @LoopActor
  func total() async throws {
    let box = Mailbox<IncomingConnection>()
    let listener = try TCPListener(
      on: Endpoint(.loopback6, port: 0), bounds: ConnectionBounds(total: 1, ofOneAddress: 4)
    ) { box.put($0) }
    defer { listener.close() }
    let ends = Mailbox<SocketStreamEvent>()
    let first = SocketStream.connect(to: listener.local, within: Patience.limit) { _ in }
    _ = try await box.next()
    let second = SocketStream.connect(to: listener.local, within: Patience.limit) { ends.put($0) }
    _ = try await ends.first { $0 != .connected }
    #expect(listener.counters.tooMany == 1)
    #expect(listener.connectionCount == 1)
    box.empty()
    #expect(listener.connectionCount == 0)
    first.close()
    second.close()
  }

  @Test("Listening on a port in use, or on an address of another machine, gives a named error")
  @LoopActor
  func errors() throws {
    let listener = try TCPListener(on: Endpoint(.loopback4, port: 0)) { _ in }
    defer { listener.close() }
    #expect(throws: NetworkError.portInUse) { try TCPListener(on: listener.local) { _ in } }
    // 192.0.2.0/24 is for documentation only.
    let foreign = Endpoint(.v4(0xC000_02FE), port: 0)
    #expect(throws: NetworkError.noSuchAddress) { try TCPListener(on: foreign) { _ in } }
  }
}
