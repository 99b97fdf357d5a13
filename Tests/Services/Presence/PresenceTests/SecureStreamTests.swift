import Air
import Common
import Crypto
import Loop
import Network
import TLS
import TestSupport
import Testing

@testable import Presence

@Suite("SecureStream: the end of a TLS connection", .serialized)
struct SecureStreamTests {
  init() { EventLoop.shared.runInBackground() }

  /// The owner of a server, which closes the stream within its last event, as the service does.
  @LoopActor
  private final class Owner {
    var server: SecureStream?
  }

  /// A server in virtual time, and a client at the other end of its socket.
  @LoopActor
  private final class Stand {
    let time = VirtualTime()
    let events = Mailbox<SocketStreamEvent>()
    let server: SecureStream
    let atPeer = Mailbox<TLSEvent>()
    let session: TLSSession
    private let peer: SocketStream

    /// - Parameter isKnown: whether the server has the client's key.
    init(isKnown: Bool = true) throws {
      let key = SecretBytes(copying: [UInt8](1...16))
      let servers = try #require(TLSContext(isServer: true))
      let clients = try #require(TLSContext(isServer: false))
      let (transport, other) = try SocketStream.pair()
      let (events, owner) = (events, Owner())
      server = SecureStream(
        servers, .server(key: { _, _ in isKnown ? key : nil }), on: time, onTLS: { _ in },
        onEvent: { event in
          events.put(event)
          if case .closed = event { owner.server?.close() }
        })
      owner.server = server
      session = try TLSSession(clients, .client(identity: "x", key: key), at: .zero)
      peer = SocketStream(owning: other)
      server.start(on: transport)
      peer.start { [weak self] in self?.handle($0) }
      flush()
    }

    func flush() { peer.send(session.takeOutgoing()[...]) }

    /// Stops the peer from reading, so that the server's bytes stay in the kernel's buffers.
    func stopReading() { peer.pauseReading(true) }

    func sendRaw(_ bytes: [UInt8]) { peer.send(bytes[...]) }

    private func handle(_ event: SocketStreamEvent) {
      guard case .received(let bytes) = event else { return }
      for event in session.receive(bytes[...]) { atPeer.put(event) }
      flush()
    }
  }

  @Test("A TLS connection that ended in both directions is closed after 10 s if the peer does not close it")
  @LoopActor
  func lingering() async throws {
    let stand = try Stand()
    _ = try await stand.events.first { $0 == .connected }
    stand.server.finish()
    _ = try await stand.atPeer.first { $0 == .ended }
    stand.session.finish()
    stand.flush()
    _ = try await stand.events.first { $0 == .ended }
    stand.time.advance(by: .milliseconds(9999))
    #expect(stand.events.all.last == .ended)
    stand.time.advance(by: .milliseconds(1))
    #expect(stand.events.all.last == .closed(nil))
  }

  @Test("A TLS connection that ended in both directions is closed after 2 min if the peer reads nothing")
  @LoopActor
  func deafPeer() async throws {
    let stand = try Stand()
    _ = try await stand.events.first { $0 == .connected }
    _ = try await stand.atPeer.first { if case .established = $0 { true } else { false } }
    stand.stopReading()
    let portion = [UInt8](repeating: 7, count: 64 << 10)
    while stand.server.send(portion[...]) > 0 {}
    stand.server.finish()
    stand.session.finish()
    stand.flush()
    _ = try await stand.events.first { $0 == .ended }
    stand.time.advance(by: .seconds(119))
    let isClosed = stand.events.all.contains { if case .closed = $0 { true } else { false } }
    #expect(!isClosed)
    stand.time.advance(by: .seconds(1))
    #expect(stand.events.all.last == .closed(.timedOut))
  }

  @Test("The peer gets the TLS alert even if the owner closes the stream at once")
  @LoopActor
  func alert() async throws {
    let stand = try Stand(isKnown: false)
    _ = try await stand.events.first { $0 == .closed(.reset) }
    #expect(try await stand.atPeer.next() == .failed(.refusedByPeer(.unknownIdentity)))
  }

  @Test("Bytes after the end of the peer's TLS direction close the stream as truncated")
  @LoopActor
  func behindTheEnd() async throws {
    let stand = try Stand()
    _ = try await stand.events.first { $0 == .connected }
    // The server completes the handshake before the client.
    _ = try await stand.atPeer.first { if case .established = $0 { true } else { false } }
    stand.session.finish()
    stand.flush()
    _ = try await stand.events.first { $0 == .ended }
    stand.sendRaw([23, 3, 3, 0x40, 0])
    #expect(try await stand.events.next() == .closed(.reset))
  }
}
