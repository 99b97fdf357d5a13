import Bytes
import Common
import Crypto
import TestSupport
import Testing

@testable import ASN

@Suite("Memory limits of an ASN server")
struct MemoryTests {
  let keys = Vectors.shared.keys

  private func blob(_ user: SocialWorld.User, _ number: Int, octets: Int = 10, in world: SocialWorld) throws -> Blob {
    Blob(
      owner: user.key, author: user.key, epoch: world.epoch, name: try BlobName("n\(number)"),
      content: [UInt8](repeating: UInt8(truncatingIfNeeded: number), count: octets),
      random: [UInt8](repeating: UInt8(truncatingIfNeeded: number), count: 32))
  }

  private func send(_ blob: Blob, _ id: SessionID, _ world: SocialWorld) throws {
    try world.client(id) { (client) throws(ClientError) in try client.send(blob) }
  }

  @Test("Blobs delayed by their user's rate limit count as memory, and their session is not read meanwhile")
  func queued() throws {
    let world = try SocialWorld { $0.blobs = 1 }
    let user = try world.user(1)
    #expect(world.server.held == 0)
    for number in 0..<30 { try send(try blob(user, number, octets: 100_000, in: world), user.id, world) }
    #expect(world.server.held > 2_900_000)
    #expect(world.server.isHolding(user.id))
    world.wait(.seconds(60))
    #expect(world.server.held == 0 && world.server.state(of: user.id) == .established)
    #expect(try world.text(user.id, "ls", "n29") == "n29\n")
  }

  @Test("When the requests of all ASN sessions fill a quarter of the memory, no session is read")
  func crowded() throws {
    let world = try SocialWorld {
      $0.blobs = 1
      $0.held = 4_000_000
    }
    let users = try (0..<4).map { try world.user(UInt64($0), address: "\($0)") }
    for user in users.prefix(3) {
      for number in 0..<5 { try send(try blob(user, number, octets: 100_000, in: world), user.id, world) }
    }
    #expect(world.server.isCrowded && world.server.isHolding(users[3].id))
    world.wait(.seconds(10))
    #expect(!world.server.isCrowded && !world.server.isHolding(users[3].id) && world.server.held == 0)
  }

  @Test("An ASN blob for 20 sessions that read nothing is in memory once, and is sealed when they read")
  func fanOut() throws {
    let world = try SocialWorld()
    let admin = try world.connect(user: keys.admin, address: "admin")
    let forum = try world.newUser(admin, "forum")
    let users = try (0..<20).map { try world.user(UInt64($0), address: "\($0)") }
    let list = users.flatMap(\.key.bytes)
    #expect(try world.exec(admin, "blob", forum.key.hex + "/asn/subscribers", input: list).result == .success)
    for user in users { world.peers[user.id]?.isReading = false }
    let content = [UInt8](repeating: 5, count: 900_000)
    #expect(try world.exec(admin, "blob", forum.key.hex, input: content).result == .success)
    #expect(users.allSatisfy { (60_000..<70_000).contains(world.unread($0.id)) })
    #expect((900_000..<20 * 70_000 + 1_000_000).contains(world.server.held))
    for user in users.dropFirst() {
      _ = world.takeBlobs(user.id)
      world.readAll(user.id)
      #expect(world.takeBlobs(user.id).map { Array($0.content) } == [content])
    }
    // The blob is released with the last session that has it.
    #expect(world.server.held > 900_000)
    world.carryOut(world.server.disconnected(users[0].id, at: world.now, epoch: world.epoch))
    #expect(world.server.held == 0)
  }

  @Test("A user whose blob was pushed to many sessions waits before its next blob, and other users do not")
  func fanOutRate() throws {
    let world = try SocialWorld { $0.fanOut = 1_000_000 }
    let (alice, bob) = (try world.user(1), try world.user(2))
    _ = try world.exec(alice.id, "blob", bob.key.hex, input: [UInt8](repeating: 1, count: 900_000))
    _ = try world.exec(alice.id, "blob", bob.key.hex, input: [UInt8](repeating: 2, count: 900_000))
    let answered = world.peers[alice.id]?.answers.count ?? 0
    let command = Command(["blob", "own"], input: [1])
    try world.client(alice.id) { (client) throws(ClientError) in try client.exec(command).actions }
    #expect(world.peers[alice.id]?.answers.count == answered)
    #expect(try world.exec(bob.id, "blob", "own", input: [1]).result == .success)
    world.wait(.seconds(1))
    #expect(world.peers[alice.id]?.answers.count == answered + 1)
  }

  @Test("A session whose client reads no answers is not read, and gets every answer later")
  func answers() throws {
    let world = try SocialWorld()
    let user = try world.user(1)
    _ = try world.exec(user.id, "blob", "big", input: [UInt8](repeating: 3, count: 900_000))
    let answered = world.peers[user.id]?.answers.count ?? 0
    world.peers[user.id]?.isReading = false
    for _ in 0..<60 {
      try world.client(user.id) { (client) throws(ClientError) in try client.exec(Command(["cat", "big"])).actions }
    }
    #expect(world.server.isHolding(user.id) && world.server.held < 6 << 20)
    world.readAll(user.id)
    #expect(world.peers[user.id]?.answers.count == answered + 60 && world.server.held == 0)
  }

  @Test("At most four answers of up to 1 MiB per session are requested from the store at a time")
  func reserved() throws {
    let world = try SocialWorld()
    let id = try world.connect(user: keys.admin)
    world.holdsStore = true
    for _ in 0..<20 {
      try world.client(id) { (client) throws(ClientError) in try client.exec(Command(["ls"])).actions }
    }
    #expect(world.held == 4 && world.server.held >= 4 << 20)
    world.releaseStore()
    #expect(world.peers[id]?.answers.count == 21 && world.server.held == 0)
  }

  @Test(
    "The output of an ended ASN session counts as memory until it is written, for at most 10 s",
    arguments: [true, false])
  func closing(reads: Bool) throws {
    let world = try SocialWorld()
    let (alice, bob) = (try world.user(1), try world.user(2))
    world.peers[alice.id]?.isReading = false
    _ = try world.exec(bob.id, "blob", alice.key.hex, input: [UInt8](repeating: 1, count: 200_000))
    // A length that no segment has.
    world.inject(alice.id, [0, 1])
    #expect(world.server.state(of: alice.id) == .closed && world.peers[alice.id]?.serverClosed == nil)
    #expect(world.server.held > 200_000)
    if reads {
      world.readAll(alice.id)
      #expect(world.peers[alice.id]?.serverClosed == .segment(.badLength(1)))
      #expect(world.takeBlobs(alice.id).count == 1)
    } else {
      world.wait(.seconds(10))
      #expect(world.peers[alice.id]?.serverClosed == .slow)
    }
    #expect(world.server.state(of: alice.id) == nil && world.server.held == 0)
  }

  @Test("A user above its share of memory loses its largest session, and other users lose none")
  func userShare() throws {
    let world = try SocialWorld { $0.heldPerUser = 300_000 }
    let (alice, bob) = (try world.user(1), try world.user(2))
    let second = try world.connect(alice.key, alice.authentication)
    // Each session has an incomplete PDU.
    for (id, missing) in [(alice.id, 5), (second, 20)] {
      var channel = try #require(world.channel(of: id))
      let segments = try channel.seal([UInt8](repeating: 0, count: 200_000))
      for segment in segments.dropLast(missing) { world.inject(id, segment) }
    }
    #expect(world.peers[alice.id]?.serverClosed == .slow && world.peers[second]?.serverClosed == nil)
    #expect(world.server.state(of: bob.id) == .established)
  }

  @Test("A user that reconnects does not get a higher rate of new blobs")
  func rateOfConnections() throws {
    let world = try SocialWorld { $0.blobs = 2 }
    let user = try world.user(1)
    world.wait(.seconds(2))
    let before = world.engine.store.usage().blobs
    var id = user.id
    for round in 0..<3 {
      for number in 0..<10 { try send(try blob(user, 10 * round + number, in: world), id, world) }
      world.carryOut(world.server.disconnected(id, at: world.now, epoch: world.epoch))
      world.wait(.zero)
      id = try world.connect(user.key, user.authentication)
    }
    #expect(world.engine.store.usage().blobs == before + 2)
    #expect(world.server.counters.droppedBlobs == 28 && world.server.held == 0)
  }

  @Test("An ASN quit command is acknowledged after the blobs before it are stored")
  func quitAfterBlobs() throws {
    let world = try SocialWorld { $0.blobs = 2 }
    let user = try world.user(1)
    world.wait(.seconds(2))
    let before = world.engine.store.usage().blobs
    for number in 0..<10 { try send(try blob(user, number, in: world), user.id, world) }
    try world.client(user.id) { (client) throws(ClientError) in try client.quit() }
    #expect(world.peers[user.id]?.closed == nil)
    world.wait(.seconds(5))
    #expect(world.peers[user.id]?.closed == .quit && world.engine.store.usage().blobs == before + 10)
  }

  @Test("A login that waits for the store is not closed by the login timeout")
  func slowLogin() throws {
    let world = try SocialWorld()
    world.holdsStore = true
    let id = try world.connect(user: keys.admin)
    world.wait(.seconds(60))
    #expect(world.server.state(of: id) == .opened)
    world.releaseStore()
    #expect(world.server.state(of: id) == .established)
  }
}
