import LocalSockets
import Loop
import TLS
import TestSupport
import Testing

@testable import Social

@Suite("A TLS connection")
struct TLSStreamTests {
  init() { EventLoop.shared.runInBackground() }

  @Test("A client that keeps requesting new keys and reads nothing is dropped at 64 KiB of answers")
  @LoopActor
  func keyUpdates() throws {
    let clock = HandClock()
    let transport = FakeStream(clock)
    let certificate = TestCertificate.first
    let identity = try #require(TLSIdentity(chain: Array(certificate.chain.utf8), key: Array(certificate.key.utf8)))
    let folder = try ScratchFolder()
    try folder.write(Array(certificate.chain.utf8), to: "trust.pem")
    let trust = try #require(TLSTrust(file: folder.path("trust.pem")))
    let client = try #require(TLSCertificateSession(trust, host: "social.test", isNumeric: false))
    let session = try #require(TLSCertificateSession(identity))
    let stream = TLSStream(transport, session)
    var events: [StreamEvent] = []
    stream.onEvent = { events.append($0) }
    var isEstablished = false
    transport.onOutput = { bytes in
      if client.receive(bytes).contains(.established) { isEstablished = true }
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
