import Bytes
import Common
import Crypto
import TestSupport
import Testing

@testable import ASN

@Suite("Shares of ASN users and the load on the store")
struct ShareTests {
  let keys = Vectors.shared.keys

  private func octets(_ count: Int) -> [UInt8] { [UInt8](repeating: 1, count: count) }

  // MARK: The store

  @Test("A user that has used up its share of the store is refused, may remove blobs, and affects no others")
  func bytes() throws {
    let world = try SocialWorld()
    let (alice, bob) = (try world.user(1), try world.user(2))
    world.engine.configuration.quota.storePerUser = 6000
    #expect(try world.exec(alice.id, "blob", "a", input: octets(4000)).result == .success)
    let refused = try world.exec(alice.id, "blob", "b", input: octets(4000))
    #expect(refused.result == .failure && refused.text == "The user has reached the limit of 6000 octets; remove blobs")
    // A blob counts for its author, not for the owner of the directory.
    #expect(try world.exec(alice.id, "blob", bob.key.hex, input: octets(4000)).result == .failure)
    #expect(try world.exec(bob.id, "blob", "b", input: octets(4000)).result == .success)
    _ = try world.text(alice.id, "rm", "a")
    let admin = try world.connect(user: keys.admin)
    _ = try world.text(admin, "gc")
    #expect(try world.exec(alice.id, "blob", "b", input: octets(4000)).result == .success)
    #expect(try world.exec(admin, "blob", "c", input: octets(9000)).result == .success)
  }

  @Test("A user may create as many users as its share allows, and the administrator any number")
  func users() throws {
    let world = try SocialWorld()
    let alice = try world.user(1)
    world.engine.configuration.quota.usersPerUser = 3
    // Its own asn/user is the first.
    for _ in 0..<2 { #expect(try world.exec(alice.id, "newuser", "forum").result == .success) }
    let refused = try world.exec(alice.id, "newuser", "forum")
    #expect(refused.result == .failure && refused.text == "The user has created its limit of 3 users")
    let admin = try world.connect(user: keys.admin)
    for _ in 0..<4 { #expect(try world.exec(admin, "newuser", "forum").result == .success) }
  }

  @Test("The links of a blob count towards the limit of the store")
  func links() throws {
    let world = try SocialWorld()
    let user = try world.user(1)
    let blob = Blob.fixedHeader + 1 + 300
    let link = Int(Limits.linkOctets)
    world.engine.configuration.quota.store = world.engine.store.usage().octets + UInt64(2 * blob + link)
    #expect(try world.exec(user.id, "blob", "a", input: octets(300)).result == .success)
    #expect(try world.exec(user.id, "blob", "b", input: octets(300)).text == "The blob cannot be stored")
    world.engine.configuration.quota.store += UInt64(link)
    #expect(try world.exec(user.id, "blob", "b", input: octets(300)).result == .success)
  }

  // MARK: Lookups

  @Test("A user has one lookup at a time in the store, however many sessions it has, and others have theirs")
  func oneLookup() throws {
    let world = try SocialWorld()
    let (alice, bob) = (try world.user(1), try world.user(2))
    let second = try world.connect(alice.key, alice.authentication)
    let sessions = [alice.id, alice.id, second, bob.id]
    let before = sessions.map { world.peers[$0]?.answers.count ?? 0 }
    world.holdsStore = true
    for id in sessions {
      try world.client(id) { (client) throws(ClientError) in try client.exec(Command(["ls"])).actions }
    }
    #expect(world.held == 2)
    world.releaseStore()
    let after = sessions.map { world.peers[$0]?.answers.count ?? 0 }
    #expect(zip(before, after).map { $1 - $0 } == [2, 2, 1, 1])
  }

  @Test("A user whose lookup compared many names waits before its next lookup, and others do not")
  func lookupRate() throws {
    let world = try SocialWorld { $0.lookups = 100 }
    let (alice, bob) = (try world.user(1), try world.user(2))
    for number in 0..<60 { _ = try world.text(alice.id, "blob", "n\(number)", input: "x") }
    _ = try world.text(alice.id, "ls", "n*")
    _ = try world.text(alice.id, "ls", "n*")
    let answered = world.peers[alice.id]?.answers.count ?? 0
    try world.client(alice.id) { (client) throws(ClientError) in try client.exec(Command(["ls", "n*"])).actions }
    #expect(world.peers[alice.id]?.answers.count == answered)
    _ = try world.text(bob.id, "ls")
    world.wait(.seconds(1))
    #expect(world.peers[alice.id]?.answers.count == answered + 1)
  }

  @Test("After a session ended during its lookup, its user can look up names again")
  func endedLookup() throws {
    let world = try SocialWorld()
    let alice = try world.user(1)
    world.holdsStore = true
    for _ in 0..<3 {
      try world.client(alice.id) { (client) throws(ClientError) in try client.exec(Command(["ls"])).actions }
    }
    world.carryOut(world.server.disconnected(alice.id, at: world.now, epoch: world.epoch))
    // The lookup that is with the store, and the end of marks: nobody waits for the two others.
    #expect(world.held == 2)
    world.releaseStore()
    let again = try world.connect(alice.key, alice.authentication)
    #expect(try world.exec(again, "ls").result == .success && world.server.held == 0)
  }

  // MARK: Collecting and streaming

  /// Blobs that a removal flagged.
  private func flagged(_ count: Int, _ world: SocialWorld) throws -> [Sum] {
    let user = try keys.user.user
    let blobs = try (0..<count).map { number in
      Blob(
        owner: user, author: user, epoch: UInt64(number), name: try BlobName("n\(number)"), content: [],
        random: [UInt8](repeating: 0, count: 32))
    }
    let removal = Sum(of: [1])
    try world.engine.store.apply(blobs.flatMap { [.insert($0), .flag($0.sum, removal: removal)] })
    return blobs.map(\.sum).sorted()
  }

  @Test("gc purges in portions, so that other requests run in between, and its answer lists every blob")
  func portions() throws {
    let world = try SocialWorld()
    let sums = try flagged(2500, world)
    let admin = try world.connect(user: keys.admin)
    let lines = sums.map { "\($0.hex.prefix(2))/\($0.hex.dropFirst(2))" }
    #expect(try world.text(admin, "gc", "-n").split(separator: "\n").map(String.init) == lines)
    #expect(world.engine.store.usage().blobs == 2500)
    let first = try world.engine.collect(before: nil, isDry: true, after: nil)
    #expect(first.sums.count == Limits.flagsInPortion && first.last != nil)
    let groups = world.groups
    #expect(try world.text(admin, "gc", "-v").split(separator: "\n").map(String.init) == lines)
    #expect(world.engine.store.usage().blobs == 0 && world.groups == groups + 3 && world.server.held == 0)
    #expect(try world.text(admin, "gc", "-v") == "")
  }

  @Test("gc purges everything even if its answer is too long, and reports that the answer is incomplete")
  func longAnswer() throws {
    let world = try SocialWorld { $0.answer = 1000 }
    _ = try flagged(1500, world)
    let admin = try world.connect(user: keys.admin)
    let answer = try world.exec(admin, "gc", "-v")
    #expect(answer.result == .failure && answer.text.hasPrefix("The request is carried out"))
    #expect(world.engine.store.usage().blobs == 0)
  }

  @Test("Blobs that need more segments than one key allows are not fetched, and the answer gives the reason")
  func stream() throws {
    let world = try SocialWorld()
    let alice = try world.user(1)
    for name in ["a", "b", "c"] {
      #expect(try world.exec(alice.id, "blob", name, input: octets(4000)).result == .success)
    }
    let login = Login(try keys.admin.user, .admin)
    func query(_ segments: Int) -> Query<MemoryBlobStore> {
      var query = world.engine.query(login, .seed)
      query.streamed = segments
      return query
    }
    let names = ["a", "b", "c"].map { alice.key.hex + "/" + $0 }
    #expect(try query(6).fetch(names).stream.count == 3)
    let refusal = caught(Refusal.self) { _ = try query(5).fetch(names) }
    #expect(refusal?.sentence == "The blobs have more than \(5 * 4080) octets; name fewer, or add @EPOCH")
    #expect(throws: Refusal.self) { try query(5).clone([]) }
  }

  // MARK: Time, names and marks

  @Test("A blob that the server makes gets its name even after the clock was set back")
  func clock() throws {
    let world = try SocialWorld()
    let alice = try world.user(1)
    _ = try world.text(alice.id, "blob", "n", input: "old")
    _ = try world.text(alice.id, "mark", "1", "2")
    world.epoch -= 3600 * 1_000_000_000
    _ = try world.text(alice.id, "blob", "n", input: "new")
    #expect(try world.text(alice.id, "cat", "n") == "new")
    _ = try world.text(alice.id, "mark", "3", "4")
    let mark = try #require(world.engine.marks[alice.key])
    #expect(try Mark(mark.content).position == .coordinates(latitude: 3_000_000, longitude: 4_000_000))
  }

  @Test("Names with equal characters and different bytes are different, also in removals and reversals")
  func forms() throws {
    let world = try SocialWorld()
    let alice = try world.user(1)
    for name in ["\u{E9}", "e\u{301}"] { _ = try world.text(alice.id, "blob", name, input: "x") }
    let removal = try world.text(alice.id, "rm", "\u{E9}", "e\u{301}")
    #expect(try world.exec(alice.id, "cat", "\u{E9}").result == .failure)
    _ = try world.text(alice.id, "rm", removal)
    let again = try world.text(alice.id, "ls", "\u{E9}", "e\u{301}")
    #expect(Array(again.utf8) == Array("\u{E9}\ne\u{301}\n".utf8))
  }

  @Test("The operator, who has no session, cannot set marks, but can store that of a place")
  func operatorMark() throws {
    let world = try SocialWorld()
    let alice = try world.user(1)
    let admin = Login(try keys.admin.user, .admin)
    func make(_ user: UserKey) -> StoreOutcome {
      let mark = Mark(user: user, position: .coordinates(latitude: 1, longitude: 2))
      let request = StoreRequest(
        session: .operator, login: admin, ephemeral: admin.key, dialect: .seed,
        kind: .make(owner: user, name: .mark, content: mark.bytes))
      return world.engine.handle(request, epoch: world.epoch)
    }
    #expect(make(alice.key).result == .unsupported && world.engine.marks.count == 0)
    let place = try world.newUser(alice.id, "place")
    #expect(make(place.key).result == .success)
  }

  @Test("The command iam refuses names that look like keys", arguments: [64, 16])
  func nameOfKey(digits: Int) throws {
    let world = try SocialWorld()
    let (alice, bob) = (try world.user(1, dialect: .year2015), try world.user(2, dialect: .year2015))
    #expect(try world.exec(alice.id, "iam", String(bob.key.hex.prefix(digits))).result == .illFormatted)
    #expect(try world.exec(alice.id, "iam", "deadbeef").result == .success)
    #expect(try world.text(bob.id, "who") == "deadbeef\n\(bob.key.hex)\n")
  }

  @Test("Acknowledgements, which have no answer, count towards the rate limit of a session")
  func acknowledgements() throws {
    let world = try SocialWorld {
      $0.session.burst = 10
      $0.session.commands = 10
    }
    let alice = try world.user(1)
    var channel = try #require(world.channel(of: alice.id))
    for _ in 0..<12 {
      let bytes = PDU.acknowledge(Acknowledgement(Requester("x"))).bytes(dialect: .seed)
      for segment in try channel.seal(bytes) { world.inject(alice.id, segment) }
    }
    #expect(world.server.isHolding(alice.id))
    world.wait(.seconds(10))
    #expect(!world.server.isHolding(alice.id) && world.server.state(of: alice.id) == .established)
  }
}
