import Common
import Crypto
import TLS
import Testing

@Suite("TLS-PSK sessions in memory")
struct TLSSessionTests {
  @Test(
    "Both sides of a TLS session get the identity and cipher suite, and 1 MB arrives in each direction",
    arguments: TLSSuite.allCases, [1, 1000, .max])
  func exchange(suite: TLSSuite, portion: Int) throws {
    var asked: [String] = []
    var pair = try TLSPair(
      clientSuites: [suite], serverSuites: TLSSuite.allCases,
      serverKey: { identity, used in
        asked.append(identity)
        return used == suite ? TLSPair.key : nil
      })
    pair.run(portion: portion)
    let established = TLSEvent.established(identity: TLSPair.identity, suite: suite)
    #expect(pair.clientEvents == [established] && pair.serverEvents == [established])
    #expect(asked == [TLSPair.identity] && TLSPair.identity.utf8.count == 192)
    pair.forget()
    let bytes = (0..<(portion == 1 ? 20_000 : 1_000_000)).map { UInt8(truncatingIfNeeded: $0 &* 31) }
    #expect(pair.client.send(bytes[...]))
    #expect(pair.server.send(bytes.reversed()[...]))
    pair.run(portion: portion)
    #expect(TLSPair.received(pair.serverEvents) == bytes)
    #expect(TLSPair.received(pair.clientEvents) == bytes.reversed())
  }

  @Test("A TLS side that ended its sending direction still receives, and each direction ends separately")
  func halfClose() throws {
    var pair = try TLSPair()
    pair.run()
    pair.forget()
    pair.client.send([1, 2])
    pair.client.finish()
    #expect(!pair.client.send([3]))
    pair.run()
    #expect(pair.serverEvents == [.received([1, 2]), .ended])
    #expect(pair.server.receiveEnd() == [])
    #expect(pair.server.send([4]))
    pair.run()
    pair.server.finish()
    pair.run()
    #expect(pair.clientEvents == [.received([4]), .ended])
  }

  @Test("Bytes after the TLS alert close_notify are an error, whether they arrive with it or later")
  func afterEnd() throws {
    for isTogether in [true, false] {
      var pair = try TLSPair()
      pair.run()
      pair.client.finish()
      let end = pair.client.takeOutgoing()
      // The beginning of a TLS record, whose rest never arrives.
      let more: [UInt8] = [23, 3, 3, 0x40, 0]
      if isTogether {
        #expect(pair.server.receive((end + more)[...]) == [.ended, .failed(.failed)])
      } else {
        #expect(pair.server.receive(end[...]) == [.ended])
        #expect(pair.server.receive(more[...]) == [.failed(.failed)])
      }
      #expect(pair.server.receive(more[...]) == [] && !pair.server.send([1]))
    }
  }

  @Test("The end of a connection without close_notify is an error, during the TLS handshake and after it")
  func truncation() throws {
    var pair = try TLSPair()
    #expect(pair.server.receiveEnd() == [.failed(.truncated)])
    pair = try TLSPair()
    pair.run()
    #expect(pair.client.receiveEnd() == [.failed(.truncated)])
    #expect(pair.client.receiveEnd() == [] && !pair.client.send([1]))
  }

  @Test("A PSK identity without a key is refused with alert 115, and a wrong key with alert 20")
  func keys() throws {
    var pair = try TLSPair(serverKey: { _, _ in nil })
    pair.run()
    #expect(pair.serverEvents == [.failed(.refused(.unknownIdentity))])
    #expect(pair.clientEvents == [.failed(.refusedByPeer(.unknownIdentity))])
    pair = try TLSPair(clientKey: SecretBytes(copying: [UInt8](2...17)))
    pair.run()
    #expect(pair.serverEvents == [.failed(.refused(.badRecord))])
    #expect(pair.clientEvents == [.failed(.refusedByPeer(.badRecord))])
  }

  @Test("A TLS handshake without a common cipher suite fails, and the client gets alert 40")
  func suites() throws {
    var pair = try TLSPair(clientSuites: [.plain])
    pair.run()
    #expect(pair.serverEvents == [.failed(.refused(.handshakeFailure))])
    #expect(pair.clientEvents == [.failed(.refusedByPeer(.handshakeFailure))])
  }

  @Test("The server prefers the suite with ephemeral keys, and its owner can refuse the plain suite by identity")
  func preference() throws {
    var pair = try TLSPair(clientSuites: [.plain, .ephemeral], serverSuites: [.ephemeral, .plain])
    pair.run()
    #expect(pair.serverEvents == [.established(identity: TLSPair.identity, suite: .ephemeral)])
    pair = try TLSPair(
      clientSuites: [.plain], serverSuites: [.ephemeral, .plain],
      serverKey: { _, suite in suite == .plain ? nil : TLSPair.key })
    pair.run()
    #expect(pair.serverEvents == [.failed(.refused(.unknownIdentity))])
  }

  @Test("A TLS handshake fails after exactly 10 s, and an established session has no time limit")
  func timeout() throws {
    var pair = try TLSPair()
    let limit = Instant.zero.advanced(by: .seconds(10))
    #expect(pair.server.deadline == limit)
    #expect(pair.server.timer(at: limit.advanced(by: .nanoseconds(-1))) == [])
    #expect(pair.server.timer(at: limit) == [.failed(.timedOut)])
    pair = try TLSPair()
    pair.run()
    #expect(pair.client.isEstablished && pair.client.deadline == nil && pair.client.timer(at: limit) == [])
  }

  @Test("PSK identities of 1 to 192 bytes without NUL are accepted, and no others")
  func identities() throws {
    let context = try #require(TLSContext(isServer: false))
    for identity in ["", String(repeating: "x", count: 193), "a\0b"] {
      #expect(throws: TLSFailure.failed, "\(identity.count)") {
        try TLSSession(context, .client(identity: identity, key: TLSPair.key), at: .zero)
      }
    }
    #expect(throws: TLSFailure.failed) {
      try TLSSession(context, .server(key: { _, _ in nil }), at: .zero)
    }
    var pair = try TLSPair(identity: "x")
    pair.run()
    #expect(pair.serverEvents == [.established(identity: "x", suite: .ephemeral)])
  }

  @Test("The TLS server sends neither an identity hint nor a session ticket")
  func messages() throws {
    let servers = try #require(TLSContext(isServer: true))
    let clients = try #require(TLSContext(isServer: false))
    let server = try TLSSession(servers, .server(key: { _, _ in TLSPair.key }), at: .zero)
    let client = try TLSSession(clients, .client(identity: "x", key: TLSPair.key), at: .zero)
    _ = server.receive(client.takeOutgoing()[...])
    let flight = server.takeOutgoing()
    let messages = Self.handshakeMessages(flight)
    // ServerHello, ServerKeyExchange, ServerHelloDone.
    #expect(messages.map(\.first) == [2, 12, 14])
    // The hint comes first in ServerKeyExchange: its length is 0. The prime of the group follows, 3072 bits.
    try #require(messages.count == 3)
    #expect(messages[1].dropFirst(4).prefix(4) == [0, 0, 1, 128])
    _ = client.receive(flight[...])
    _ = server.receive(client.takeOutgoing()[...])
    // ChangeCipherSpec comes next, without a NewSessionTicket before it.
    #expect(server.takeOutgoing().first == 20)
  }

  /// Splits unencrypted TLS records into handshake messages.
  private static func handshakeMessages(_ bytes: [UInt8]) -> [[UInt8]] {
    var content: [UInt8] = []
    var rest = bytes[...]
    while rest.count >= 5, rest.first == 22 {
      let size = Int(rest[rest.startIndex + 3]) << 8 | Int(rest[rest.startIndex + 4])
      content += rest.dropFirst(5).prefix(size)
      rest = rest.dropFirst(5 + size)
    }
    var messages: [[UInt8]] = []
    while content.count >= 4 {
      let size = 4 + (Int(content[1]) << 16 | Int(content[2]) << 8 | Int(content[3]))
      messages.append(Array(content.prefix(size)))
      content.removeFirst(min(size, content.count))
    }
    return messages
  }

  @Test("Mutated bytes end a TLS session with an event, and never crash it", arguments: 0..<40)
  func mutations(seed: Int) throws {
    var random = SeededRandom(seed: UInt64(seed))
    var pair = try TLSPair()
    pair.run()
    // What the client sends first, then noise in its place.
    let clients = try #require(TLSContext(isServer: false))
    let servers = try #require(TLSContext(isServer: true))
    let client = try TLSSession(clients, .client(identity: "x", key: TLSPair.key), at: .zero)
    let server = try TLSSession(servers, .server(key: { _, _ in TLSPair.key }), at: .zero)
    var hello = client.takeOutgoing()
    for _ in 0..<4 {
      let place = Int(random.bytes(2).reduce(0) { $0 << 8 | UInt32($1) }) % hello.count
      hello[place] = random.bytes(1)[0]
    }
    var events = server.receive(hello[...])
    events += server.receive(random.bytes(40_000)[...])
    #expect(events.count == 1)
    if case .failed = events.first {} else { Issue.record("no failure: \(events)") }
    #expect(pair.client.receive(random.bytes(20_000)[...]).count == 1)
  }

  @Test("Each kind of TLS failure has its own counter")
  func counters() throws {
    var counters = TLSCounters()
    var pair = try TLSPair(serverKey: { _, _ in nil })
    pair.run()
    for event in pair.serverEvents + pair.clientEvents { counters.count(event) }
    counters.count(.established(identity: "x", suite: .ephemeral))
    counters.count(.failed(.refused(TLSAlert(51))))
    let counted = counters.tallies.filter { $0.count > 0 }.map { "\($0.name) \($0.count)" }
    #expect(
      counted == [
        "TLSHandshakes 1", "TLSUnknownIdentities 1", "TLSIdentityUnknownToPeer 1", "TLSOtherFailures 1",
      ])
  }
}
