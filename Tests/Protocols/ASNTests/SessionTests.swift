import Bytes
import Common
import Crypto
import TestSupport
import Testing

@testable import ASN

@Suite("ASN sessions between a server and its clients")
struct SessionTests {
  let keys = Vectors.shared.keys

  private func isEstablished(_ world: SocialWorld, _ id: SessionID) -> Bool {
    world.peers[id]?.client.state == .established && world.server.state(of: id) == .established
  }

  /// A segment that the client's session would send next, with any octets for a PDU.
  private func inject(_ world: SocialWorld, _ id: SessionID, pdu: [UInt8]) {
    guard var channel = world.channel(of: id), let segments = try? channel.seal(pdu) else { return }
    for segment in segments { world.inject(id, segment) }
  }

  // MARK: Login

  @Test("Administrator, service and users log in with signatures of their keys, whichever key is smaller")
  func logins() throws {
    let world = try SocialWorld()
    let roles = [keys.admin, keys.server, keys.user]
    #expect(isEstablished(world, try world.connect(user: roles[0])))
    #expect(isEstablished(world, try world.connect(user: roles[1])))
    #expect(isEstablished(world, try world.connect(user: roles[2], isNew: true)))
    #expect(isEstablished(world, try world.connect(user: roles[2])))
    // The ephemeral keys of both sides are in either order in 40 logins.
    for number in 0..<40 { #expect(isEstablished(world, try world.user(UInt64(number), address: "\(number)").id)) }
    #expect(world.server.counters.logins == 44 && world.server.counters.malformed == 0)
  }

  @Test("A new user is provisional until its authentication key is stored, and then has its three blobs")
  func provisional() throws {
    let world = try SocialWorld()
    let id = try world.connect(user: keys.user, logsIn: true)
    // This client does not know that it is new, so it uploads nothing.
    #expect(world.server.state(of: id) == .provisional)
    #expect(try world.exec(id, "ls").result == .unexpected)
    #expect(try world.exec(id, "echo", "a").result == .success)
    let answer = try world.exec(id, "auth", Hex.encode(keys.user.authPub.bytes))
    #expect(answer.result == .success && answer.data.count == 128)
    #expect(world.server.state(of: id) == .established)
    #expect(try world.text(id, "ls", "asn") == "asn/auth\nasn/author\nasn/user\n")
    #expect(try world.text(id, "cat", "asn/user") == "actual")
    #expect(try world.exec(id, "cat", "asn/author").data == keys.user.encrPub.bytes)
    #expect(try world.exec(id, "cat", "asn/auth").data == keys.user.authPub.bytes)
  }

  @Test("An authentication key that did not sign the login is denied and not stored, and the session ends")
  func wrongUpload() throws {
    let world = try SocialWorld()
    let id = try world.connect(user: keys.user)
    let answer = try world.exec(id, "auth", Hex.encode(keys.admin.authPub.bytes))
    #expect(answer.result == .denied)
    #expect(world.peers[id]?.serverClosed == .loginRefused)
    #expect(try world.engine.store.link(keys.user.user, "asn/auth") == nil)
    #expect(world.server.counters.failedLogins == 1)
    // The owner of the key can still log in.
    #expect(isEstablished(world, try world.connect(user: keys.user, isNew: true)))
  }

  @Test("With NewUsers=admin only the administrator creates users, and an unknown key is denied")
  func strangersDenied() throws {
    let world = try SocialWorld(newUsers: .admin)
    let id = try world.connect(user: keys.user)
    #expect(world.peers[id]?.answers.map(\.result) == [.denied])
    #expect(world.peers[id]?.answers.first?.text == "Permission denied")
    #expect(world.peers[id]?.serverClosed == .loginRefused)
    #expect(world.engine.store.usage().blobs == 0)
    let admin = try world.connect(user: keys.admin)
    #expect(try world.text(admin, "newuser", "actual").hasPrefix("pub:\n  encr: "))
    let forum = try world.exec(admin, "newuser", "forum")
    #expect(forum.result == .success)
  }

  @Test(
    "A login with a wrong signature, or with the key of a forum, bridge or place, is denied",
    arguments: UserKind.allCases)
  func refusedLogins(kind: UserKind) throws {
    let world = try SocialWorld()
    let admin = try world.connect(user: keys.admin)
    let made = try world.newUser(admin, kind.rawValue)
    let good = try world.connect(made.key, made.authentication)
    #expect(isEstablished(world, good) == (kind == .actual))
    var random = SeededRandom(seed: 77)
    let bad = try world.connect(made.key, Ed25519.PrivateKey(randomFrom: &random))
    #expect(world.peers[bad]?.answers.map(\.result) == [.denied] && world.peers[bad]?.closed != nil)
    for known in [keys.admin, keys.server] {
      let id = try world.connect(known.user, Ed25519.PrivateKey(randomFrom: &random))
      #expect(world.peers[id]?.answers.map(\.result) == [.denied])
    }
  }

  @Test("Five failed logins in a minute block their address for ten minutes, and no other address")
  func failedLogins() throws {
    let world = try SocialWorld(newUsers: .admin)
    for _ in 0..<5 { _ = try world.connect(user: keys.user, address: "bad") }
    #expect(world.server.open(address: "bad", at: world.now) == nil)
    #expect(world.server.open(address: "good", at: world.now) != nil)
    world.now = world.now.advanced(by: .seconds(599))
    #expect(world.server.open(address: "bad", at: world.now) == nil)
    world.now = world.now.advanced(by: .seconds(2))
    #expect(world.server.open(address: "bad", at: world.now) != nil)
  }

  // MARK: What bad input gets

  @Test("A bad ASN PDU ends the session, with a result after the login and without one before it")
  func badPDUs() throws {
    let cases: [(pdu: [UInt8], result: ResultCode?)] = [
      ([5, 2] + [UInt8](repeating: 7, count: 8), .incompatible), ([0, 0] + [UInt8](repeating: 7, count: 8), .unknown),
      ([0, 200] + [UInt8](repeating: 7, count: 8), .unknown), ([0, 4, 1], .short), ([0], .short),
      ([0, 4] + [UInt8](repeating: 7, count: 9), .illFormatted),
      (Vectors.shared.malformed["bad_magic"]?.bytes ?? [], nil),
      (Vectors.shared.malformed["name_overruns"]?.bytes ?? [], nil),
    ]
    for row in cases {
      for logsIn in [false, true] {
        let world = try SocialWorld()
        let id = try world.connect(user: keys.admin, logsIn: logsIn)
        let before = world.peers[id]?.answers.count ?? 0
        inject(world, id, pdu: row.pdu)
        let answers = world.peers[id]?.answers.dropFirst(before).map(\.result)
        #expect(answers == (logsIn ? [row.result].compactMap { $0 } : []), "\(row.pdu)")
        if case .pdu? = world.peers[id]?.serverClosed {} else { Issue.record("\(row.pdu) did not end the session") }
        #expect(world.server.counters.malformed == 1)
      }
    }
  }

  @Test("An ASN segment with a wrong length or authentication tag ends the session and is counted")
  func badSegments() throws {
    for bytes in [[0, 0], [0, 16], [0x10, 1], [0, 17] + [UInt8](repeating: 1, count: 17)] as [[UInt8]] {
      let world = try SocialWorld()
      let id = try world.connect(user: keys.admin)
      world.inject(id, bytes)
      if case .segment? = world.peers[id]?.serverClosed {} else { Issue.record("\(bytes) did not end the session") }
      #expect(world.server.counters.malformed == 1 && world.server.sessionCount == 0)
    }
  }

  @Test("On a transport with frames, the first frame contains only the key", arguments: [1, 31, 33, 64])
  func firstFrame(count: Int) throws {
    let world = try SocialWorld()
    let opened = world.server.open(address: "a", at: .zero)
    let id = try #require(opened)
    world.peers[id] = nil
    let intents = world.server.receive(id, [UInt8](repeating: 9, count: count), at: .zero, epoch: 0)
    guard case .close(id, .badKey)? = intents.last else {
      Issue.record("not closed")
      return
    }
    #expect(world.server.sessionCount == 0)
  }

  @Test("A client key of low order is refused")
  func weakKey() throws {
    let world = try SocialWorld()
    let opened = world.server.open(address: "a", at: .zero)
    let id = try #require(opened)
    let intents = world.server.receive(id, [UInt8](repeating: 0, count: 32), at: .zero, epoch: 0)
    guard case .close(id, .badKey)? = intents.last else {
      Issue.record("not closed")
      return
    }
  }

  @Test("An ASN command in a wrong state, unknown, unsupported or malformed gets result 7, 2, 9 or 3")
  func results() throws {
    let world = try SocialWorld()
    let id = try world.connect(user: keys.admin)
    let rows: [([String], ResultCode)] = [
      (["nonsense"], .failure), (["filter", "cat"], .unsupported), (["clone", "ws://x/y"], .unsupported),
      (["clone", "MIRROR@5"], .unsupported), (["cat"], .illFormatted), (["auth", "00"], .illFormatted),
      (["auth", Hex.encode(keys.admin.authPub.bytes)], .unexpected), (["mark", "91", "0"], .illFormatted),
      (["mark", "x"], .illFormatted), (["newuser", "king"], .illFormatted),
      (["vouch", "abcdef01", "00"], .illFormatted),
      (["gc", "now"], .illFormatted), (["cat", "../x"], .illFormatted), (["cat", "nothing"], .failure),
      (["blob", "../x"], .illFormatted), (["trace", "resize", "0"], .illFormatted),
      (["trace", "resize", "+5"], .illFormatted), (["trace", "filter", "+1"], .illFormatted), (["users"], .failure),
      (["who"], .failure), (["iam", "x"], .failure),
    ]
    for (arguments, result) in rows {
      let before = world.peers[id]?.answers.count ?? 0
      try world.client(id) { (client) throws(ClientError) in try client.exec(Command(arguments)).actions }
      let answers = world.peers[id]?.answers ?? []
      let answer = try #require(answers.dropFirst(before).first)
      #expect(answer.result == result, "\(arguments): \(answer.text)")
      #expect(!answer.text.isEmpty)
    }
    #expect(isEstablished(world, id))
  }

  // MARK: Pause, resume and quit

  @Test("A paused ASN session gets no pushes and accepts only resume and quit; resume brings a new key")
  func pause() throws {
    for rekeys in [true, false] {
      let world = try SocialWorld { $0.session.rekeysAtResume = rekeys }
      let (alice, bob) = (try world.user(1), try world.user(2))
      _ = world.takeBlobs(alice.id)
      try world.client(alice.id) { (client) throws(ClientError) in try client.pause() }
      #expect(world.server.state(of: alice.id) == .suspended)
      _ = try world.text(bob.id, "blob", alice.key.hex, input: "missed")
      #expect(world.takeBlobs(alice.id) == [])
      let key = world.channel(of: alice.id)?.nextCounter
      try world.client(alice.id) { (client) throws(ClientError) in try client.resume() }
      #expect((world.channel(of: alice.id)?.nextCounter ?? 0 < key ?? 0) == rekeys)
      #expect(isEstablished(world, alice.id))
      _ = try world.text(bob.id, "blob", alice.key.hex, input: "heard")
      #expect(world.takeBlobs(alice.id).map { String(decoding: $0.content, as: UTF8.self) } == ["heard"])
      #expect(try world.text(alice.id, "ls", "asn/messages").split(separator: "\n").count == 2)
      try world.client(alice.id) { (client) throws(ClientError) in try client.pause() }
      try world.client(alice.id) { (client) throws(ClientError) in try client.quit() }
      #expect(world.peers[alice.id]?.closed == .quit && world.peers[alice.id]?.serverClosed == .quit)
    }
  }

  @Test("A paused session answers a command with result 7")
  func suspendedCommand() throws {
    let world = try SocialWorld()
    let id = try world.connect(user: keys.admin)
    let other = try world.connect(user: keys.admin)
    try world.client(id) { (client) throws(ClientError) in try client.pause() }
    let command = Command(["ls"]).bytes(dialect: .seed)
    inject(world, id, pdu: PDU.exec(Requester("x"), command[...]).bytes(dialect: .seed))
    #expect(world.peers[id]?.answers.last?.result == .unexpected)
    #expect(isEstablished(world, other))
  }

  // MARK: Counters and time

  @Test(
    "A session of 40,000 segments is redirected before its counter ends, and loses and repeats nothing",
    arguments: [true, false])
  func redirect(isClientFirst: Bool) throws {
    let world = try SocialWorld { $0.session.burst = 1_000_000 }
    let id = try world.connect(user: keys.admin)
    let blob = Blob(
      owner: try keys.admin.user, author: try keys.admin.user, epoch: world.epoch, name: try BlobName("big"),
      content: [UInt8](repeating: 7, count: 900_000), random: [UInt8](repeating: 1, count: 32))
    var (asked, answered) = (0, 1)
    while world.peers[id]?.closed == nil, asked < 200 {
      if isClientFirst || asked == 0 {
        // 221 segments from the client.
        try world.client(id) { (client) throws(ClientError) in try client.send(blob) }
      } else {
        // 221 segments from the server.
        try world.client(id) { (client) throws(ClientError) in try client.exec(Command(["cat", "big"])).actions }
        answered += 1
      }
      asked += 1
    }
    #expect(world.peers[id]?.redirected == "" && asked * 221 > 32_000)
    #expect(world.peers[id]?.closed == .redirected && world.peers[id]?.serverClosed == .redirected)
    #expect(world.peers[id]?.answers.count == answered && world.server.counters.redirected == 1)
    let (sent, received) = (world.peers[id]?.sent ?? 0, world.peers[id]?.received ?? 0)
    #expect((32_000...32_768).contains(max(sent, received)))
    // A nonce that is used twice with one plaintext gives one segment twice.
    #expect(Set(world.wire).count == world.wire.count)
  }

  @Test("An ASN connection ends after 10 s without a key, 10 s later without a login, after 10 min without requests")
  func timers() throws {
    let world = try SocialWorld()
    let opened = world.server.open(address: "a", at: world.now)
    let silent = try #require(opened)
    let stranger = try world.connect(user: keys.admin, logsIn: false)
    let paused = try world.connect(user: keys.admin)
    try world.client(paused) { (client) throws(ClientError) in try client.pause() }
    let reading = try world.connect(user: keys.admin)
    #expect(try world.text(reading, "echo", "x") == "x\n")
    let idle = try world.connect(user: keys.admin)
    world.wait(.seconds(9))
    #expect(world.server.state(of: silent) == .opened && world.server.state(of: stranger) == .opened)
    world.wait(.seconds(1))
    #expect(world.server.state(of: silent) == nil && world.peers[stranger]?.serverClosed == .noLogin)
    world.peers[idle]?.isReading = false
    world.wait(.seconds(589))
    #expect(world.server.state(of: idle) == .established)
    world.wait(.seconds(2))
    #expect(world.peers[idle]?.serverClosed == .idle)
    // One that answers pings stays.
    #expect(isEstablished(world, reading))
    world.wait(.seconds(24 * 3600 - 700))
    #expect(world.server.state(of: paused) == .suspended)
    world.wait(.seconds(200))
    #expect(world.peers[paused]?.serverClosed == .suspendedTooLong)
  }

  // MARK: Limits

  @Test("A user's ninth session closes its oldest; sessions of an address, of strangers and in total are limited")
  func sessionLimits() throws {
    let world = try SocialWorld()
    let user = try world.user(1, address: "0")
    func connect(_ address: String) throws -> SessionID {
      let id = try world.connect(user.key, user.authentication, address: address)
      #expect(try world.text(id, "echo", "x") == "x\n")
      return id
    }
    let others = try (1..<8).map { try connect("\($0)") }
    #expect(isEstablished(world, user.id))
    let ninth = try connect("9")
    #expect(isEstablished(world, ninth) && world.peers[user.id]?.serverClosed == .tooMany)
    // A paused session counts.
    try world.client(others[1]) { (client) throws(ClientError) in try client.pause() }
    _ = try connect("9")
    #expect(world.peers[others[0]]?.serverClosed == .tooMany)
    _ = try connect("9")
    #expect(world.peers[others[1]]?.serverClosed == .tooMany && isEstablished(world, others[2]))
    for _ in 0..<16 { #expect(world.server.open(address: "x", at: world.now) != nil) }
    #expect(world.server.open(address: "x", at: world.now) == nil)
    for number in 16..<256 { #expect(world.server.open(address: "y\(number)", at: world.now) != nil) }
    #expect(world.server.open(address: "z", at: world.now) == nil)
    let small = try SocialWorld { $0.sessions = 2 }
    for number in 0..<3 { #expect((small.server.open(address: "\(number)", at: .zero) != nil) == (number < 2)) }
    #expect(small.server.counters.refused == 1)
  }

  @Test("ASN commands above 50 a second are delayed, and none is lost")
  func rate() throws {
    let world = try SocialWorld { $0.session.burst = 200 }
    let id = try world.connect(user: keys.admin)
    for _ in 0..<300 {
      try world.client(id) { (client) throws(ClientError) in try client.exec(Command(["echo"])).actions }
    }
    #expect((195...201).contains(world.peers[id]?.answers.count ?? 0))
    #expect(world.server.isHolding(id))
    world.wait(.seconds(1))
    #expect((240...255).contains(world.peers[id]?.answers.count ?? 0))
    world.wait(.seconds(2))
    #expect(world.peers[id]?.answers.count == 301)
  }

  @Test("A user's new blobs above 20 a second are delayed in order, and so are queries after them")
  func blobRate() throws {
    let world = try SocialWorld { $0.blobs = 20 }
    let user = try world.user(1)
    world.wait(.seconds(1))
    for number in 0..<30 {
      let command = Command(["blob", "n\(number)"], input: [1])
      try world.client(user.id) { (client) throws(ClientError) in try client.exec(command).actions }
    }
    try world.client(user.id) { (client) throws(ClientError) in try client.exec(Command(["ls", "n29"])).actions }
    let before = world.peers[user.id]?.answers.count ?? 0
    #expect(before == 22)
    world.wait(.seconds(1))
    #expect(world.peers[user.id]?.answers.count == 33)
    #expect(world.peers[user.id]?.answers.last?.text == "n29\n")
  }

  @Test("A client that reads nothing is closed when 4 MiB wait; a slow reader gets a complete fetch")
  func backPressure() throws {
    let world = try SocialWorld()
    let (alice, admin) = (try world.user(1), try world.connect(user: keys.admin))
    for number in 0..<12 {
      _ = try world.exec(alice.id, "blob", "big/\(number)", input: [UInt8](repeating: UInt8(number), count: 900_000))
    }
    world.peers[admin]?.isReading = false
    let command = Command(["fetch", alice.key.hex + "/big"])
    try world.client(admin) { (client) throws(ClientError) in try client.exec(command).actions }
    // Blobs are read from the store while less than half of the limit waits, and sealed as the transport takes them.
    #expect((2 << 20..<5 << 20).contains(world.server.held))
    #expect((60_000..<70_000).contains(world.unread(admin)))
    #expect(isEstablished(world, admin) || world.server.state(of: admin) == .established)
    world.readAll(admin)
    #expect(world.peers[admin]?.blobs.count == 12 && world.peers[admin]?.answers.last?.result == .success)
    // Pushes do not wait for a reader.
    world.peers[alice.id]?.isReading = false
    var sent = 0
    while world.server.state(of: alice.id) != nil, sent < 20 {
      _ = try world.exec(admin, "blob", alice.key.hex, input: [UInt8](repeating: 1, count: 900_000))
      sent += 1
    }
    #expect(world.peers[alice.id]?.serverClosed == .slow && (5...7).contains(sent))
  }

  @Test("Answers have the order of their requests, even if the store is slow")
  func order() throws {
    let world = try SocialWorld()
    let id = try world.connect(user: keys.admin)
    world.holdsStore = true
    try world.client(id) { (client) throws(ClientError) in try client.exec(Command(["ls"])).actions }
    try world.client(id) { (client) throws(ClientError) in try client.exec(Command(["trace"])).actions }
    try world.client(id) { (client) throws(ClientError) in try client.exec(Command(["cat"])).actions }
    try world.client(id) { (client) throws(ClientError) in try client.quit() }
    #expect(world.peers[id]?.answers.count == 1)
    world.releaseStore()
    #expect(world.peers[id]?.answers.dropFirst().map(\.result) == [.success, .success, .illFormatted, .success])
    #expect(world.peers[id]?.closed == .quit)
  }

  @Test("At most 64 requests wait for the store, and later ones are not read from the transport")
  func inFlight() throws {
    let world = try SocialWorld()
    let id = try world.connect(user: keys.admin)
    world.holdsStore = true
    for _ in 0..<100 {
      try world.client(id) { (client) throws(ClientError) in try client.exec(Command(["echo"])).actions }
    }
    #expect(world.held == 64 && world.server.isHolding(id))
    world.releaseStore()
    #expect(world.peers[id]?.answers.count == 101)
  }

  // MARK: Streams of octets

  /// A session with every kind of request; returns the answers.
  private func script(_ world: SocialWorld) throws -> [String] {
    let (alice, bob) = (try world.user(1), try world.user(2))
    _ = try world.text(alice.id, "blob", "notes/one", input: String(repeating: "long ", count: 2000))
    _ = try world.text(bob.id, "blob", alice.key.hex, input: "hello")
    _ = try world.text(bob.id, "mark", "1", "2")
    try world.client(alice.id) { (client) throws(ClientError) in try client.pause() }
    try world.client(alice.id) { (client) throws(ClientError) in try client.resume() }
    _ = try world.text(alice.id, "cat", "notes/one")
    try world.client(bob.id) { (client) throws(ClientError) in try client.quit() }
    try world.client(alice.id) { (client) throws(ClientError) in try client.quit() }
    return [alice.id, bob.id].flatMap { id in
      (world.peers[id]?.answers.map { "\($0.result) \($0.text.count)" } ?? [])
        + (world.peers[id]?.blobs.map { "\($0.header.name?.text ?? "?") \($0.content.count)" } ?? [])
    }
  }

  @Test("A session has the same result whether its bytes arrive together, one by one, or split anywhere")
  func everySplit() throws {
    let whole = try SocialWorld()
    let expected = try script(whole)
    #expect(expected.count == 15)
    let places = Extent.isWhole ? Array(1..<4098) : [1, 2, 3, 17, 31, 32, 33, 34, 35, 105, 4079, 4097]
    for place in places {
      let world = try SocialWorld()
      world.isFramed = false
      world.cut = { [Array($0.prefix(place)), Array($0.dropFirst(place))] }
      #expect(try script(world) == expected, "cut at \(place)")
    }
    let world = try SocialWorld()
    world.isFramed = false
    world.cut = { $0.map { [$0] } }
    #expect(try script(world) == expected)
  }

  @Test("Random sessions with randomly split bytes end as predicted, and every request gets its answer")
  func randomSessions() throws {
    for seed in 0..<UInt64(Extent.of(150, all: 10_000)) {
      var random = SeededRandom(seed: seed)
      let world = try SocialWorld(newUsers: .anyone)
      world.isFramed = false
      world.random = SeededRandom(seed: seed + 1_000_000)
      var cuts = SeededRandom(seed: seed + 2_000_000)
      world.cut = { bytes in
        var (pieces, rest): ([[UInt8]], ArraySlice<UInt8>) = ([], bytes[...])
        while !rest.isEmpty {
          let count = min(rest.count, 1 + Int(cuts.next() % 64) * Int(cuts.next() % 64))
          pieces.append(Array(rest.prefix(count)))
          rest = rest.dropFirst(count)
        }
        return pieces
      }
      let dialect = Dialect.allCases[Int(random.next() % 2)]
      let user = try world.user(seed, dialect: dialect)
      var asked = 2
      var isOpen = true
      for _ in 0..<Int(random.next() % 12) where isOpen {
        switch random.next() % 6 {
        case 0:
          try world.client(user.id) { (client) throws(ClientError) in try client.pause() }
          try world.client(user.id) { (client) throws(ClientError) in try client.resume() }
          asked += 2
        case 1:
          let input = random.bytes(Int(random.next() % 9000))
          #expect(try world.exec(user.id, "blob", "x/\(random.next() % 3)", input: input).result == .success)
          asked += 1
        case 2:
          try world.client(user.id) { (client) throws(ClientError) in try client.quit() }
          asked += 1
          isOpen = false
        default:
          let text = String(repeating: "e", count: Int(random.next() % 5000))
          #expect(try world.exec(user.id, "echo", text).text == text + "\n")
          asked += 1
        }
      }
      #expect(world.peers[user.id]?.answers.count == asked)
      #expect(world.server.counters.malformed == 0 && (world.peers[user.id]?.closed == nil) == isOpen)
    }
  }
}
