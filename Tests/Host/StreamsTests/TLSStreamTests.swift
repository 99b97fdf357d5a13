import COpenSSLTLS
import LocalSockets
import Loop
import Streams
import TLS
import TestSupport
import Testing

@Suite("A TLS connection")
struct TLSStreamTests {
  init() { EventLoop.shared.runInBackground() }

  @Test("A client that keeps requesting TLS key updates and reads nothing is disconnected at 64 KiB of answers")
  @LoopActor
  func keyUpdates() throws {
    let clock = HandClock()
    let transport = FakeStream(clock)
    let certificate = TestCertificate.first
    let identity = try #require(TLSIdentity(chain: Array(certificate.chain.utf8), key: Array(certificate.key.utf8)))
    let folder = try ScratchFolder()
    try folder.write(Array(certificate.chain.utf8), to: "trust.pem")
    let client = try #require(KeyUpdatingClient(trusting: folder.path("trust.pem"), host: "social.test"))
    let session = try #require(TLSCertificateSession(identity))
    let stream = TLSStream(transport, session)
    var events: [StreamEvent] = []
    stream.onEvent = { events.append($0) }
    var isEstablished = false
    transport.onOutput = { bytes in
      if client.receive(bytes) { isEstablished = true }
      let answer = client.takeOutgoing()
      if !answer.isEmpty { transport.arrive(answer) }
    }
    transport.arrive(client.takeOutgoing())
    clock.run()
    #expect(isEstablished)
    // The peer reads: every answer is written.
    for _ in 0..<10 {
      client.updateKeys()
      transport.arrive(client.takeOutgoing())
      clock.run()
    }
    #expect(events.isEmpty && !transport.isClosed)
    transport.takesOutput = false
    var asked = 0
    while !transport.isClosed, asked < 10_000 {
      client.updateKeys()
      transport.arrive(client.takeOutgoing())
      clock.run()
      asked += 1
    }
    #expect(transport.isClosed && events == [.ended])
    #expect((64 << 10..<66 << 10).contains(transport.unsent.reduce(0) { $0 + $1.count }))
  }
}

/// A TLS client that can ask its server for new keys, which Earshot's own client never does.
private final class KeyUpdatingClient {
  private let context: OpaquePointer
  private let session: OpaquePointer
  private let incoming: OpaquePointer
  private let outgoing: OpaquePointer

  init?(trusting file: String, host: String) {
    guard let context = earshot_tls_verifying_context(file) else { return nil }
    var (incoming, outgoing): (OpaquePointer?, OpaquePointer?) = (nil, nil)
    guard let session = earshot_tls_session(context, 0, nil, &incoming, &outgoing), let incoming, let outgoing,
      earshot_tls_expect(session, host, 0) == 1
    else { return nil }
    (self.context, self.session, self.incoming, self.outgoing) = (context, session, incoming, outgoing)
    SSL_do_handshake(session)
  }

  deinit {
    SSL_free(session)
    SSL_CTX_free(context)
  }

  /// Processes bytes of the server.
  ///
  /// - Returns: whether the handshake is complete.
  func receive(_ bytes: [UInt8]) -> Bool {
    _ = bytes.withUnsafeBytes { BIO_write(incoming, $0.baseAddress, Int32($0.count)) }
    guard SSL_do_handshake(session) == 1 else { return false }
    var data = [UInt8](repeating: 0, count: 4096)
    while SSL_read(session, &data, Int32(data.count)) > 0 {}
    return true
  }

  func takeOutgoing() -> [UInt8] {
    let size = earshot_tls_pending(outgoing)
    return [UInt8](unsafeUninitializedCapacity: size) { buffer, count in
      count = max(0, Int(BIO_read(outgoing, buffer.baseAddress, Int32(size))))
    }
  }

  /// Replaces the keys of this side and asks the server to replace its own.
  func updateKeys() {
    if SSL_key_update(session, Int32(SSL_KEY_UPDATE_REQUESTED)) == 1 { SSL_do_handshake(session) }
  }
}
