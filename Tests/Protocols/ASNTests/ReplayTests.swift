import Bytes
import Common
import Crypto
import TestSupport
import Testing

@testable import ASN

@Suite("Replayed and idle ASN connections")
struct ReplayTests {
  let keys = Vectors.shared.keys

  /// The octets of an ephemeral key and a login of the administrator.
  private func recording() throws -> [[UInt8]] {
    var random = SeededRandom(seed: 5)
    let configuration = ClientSession.Configuration(
      service: try X25519.PublicKey(keys.server.encrPub.bytes), nonce: keys.nonce.bytes, user: try keys.admin.user,
      authentication: try keys.admin.authentication)
    var session = ClientSession(configuration: configuration, random: &random)
    let actions = session.start() + (try session.logIn())
    return actions.compactMap { action in
      if case .send(let bytes) = action { return bytes }
      return nil
    }
  }

  private func play(_ octets: [[UInt8]], _ world: SocialWorld) throws -> SessionID {
    let opened = world.server.open(address: "a", isFramed: world.isFramed, at: world.now)
    let id = try #require(opened)
    for portion in octets { world.inject(id, portion) }
    return id
  }

  @Test(
    "A replayed login opens no second session, whether the recorded session is open or has ended",
    arguments: [true, false])
  func replay(isFramed: Bool) throws {
    let world = try SocialWorld()
    world.isFramed = isFramed
    var octets = try recording()
    // A stream may have the key and the login in one portion.
    if !isFramed { octets = [octets.flatMap { $0 }] }
    let first = try play(octets, world)
    #expect(world.server.state(of: first) == .established)
    let sent = world.wire.count
    let second = try play(octets, world)
    #expect(world.server.state(of: second) == nil && world.server.state(of: first) == .established)
    world.carryOut(world.server.disconnected(first, at: world.now, epoch: world.epoch))
    let third = try play(octets, world)
    #expect(world.server.state(of: third) == nil)
    // Nothing was sealed for the replays.
    #expect(world.wire.count == sent && world.server.counters.logins == 1 && world.server.counters.malformed == 2)
  }

  @Test("A client that answers pings stays connected, and other bytes do not keep a session open")
  func passive() throws {
    let world = try SocialWorld()
    let (passive, silent) = (try world.connect(user: keys.admin), try world.connect(user: keys.admin))
    world.peers[silent]?.isReading = false
    world.inject(silent, [0, 100])
    for _ in 0..<9 {
      world.wait(.seconds(60))
      world.inject(silent, [1])
    }
    #expect(world.server.state(of: silent) == .established)
    world.wait(.seconds(61))
    #expect(world.peers[silent]?.serverClosed == .idle)
    world.wait(.seconds(7200))
    #expect(world.server.state(of: passive) == .established)
  }

  @Test("A session over a plain stream, which has no pings, stays open as long as its connection")
  func plain() throws {
    let world = try SocialWorld()
    world.isFramed = false
    let id = try world.connect(user: keys.admin)
    world.wait(.seconds(7200))
    #expect(world.server.state(of: id) == .established)
    world.carryOut(world.server.disconnected(id, at: world.now, epoch: world.epoch))
    #expect(world.server.state(of: id) == nil)
  }

  /// Whether a connection of an address is taken.
  private func isTaken(_ address: String, _ world: SocialWorld) -> Bool {
    world.carryOut(world.server.makeRoom(for: address, at: world.now, epoch: world.epoch))
    return world.server.open(address: address, at: world.now) != nil
  }

  @Test(
    "At a limit a new connection replaces only the oldest session that has sent nothing for 10 min",
    arguments: [true, false])
  func yields(isServerFull: Bool) throws {
    let world = try SocialWorld { if isServerFull { $0.sessions = 3 } else { $0.sessionsPerAddress = 3 } }
    let user = try world.user(1)
    let passive = try (0..<2).map { _ in try world.connect(user: keys.admin) }
    let address = isServerFull ? "b" : "a"
    #expect(!isTaken(address, world) && world.server.state(of: passive[0]) == .established)
    world.wait(.seconds(600))
    #expect(isTaken(address, world))
    #expect(world.peers[passive[0]]?.serverClosed == .displaced && world.server.state(of: passive[1]) == .established)
    #expect(isTaken(address, world) && !isTaken(address, world))
    #expect(world.server.state(of: user.id) == .established)
  }

  @Test("If too many connections have no login, the address with the most loses its oldest to another address")
  func strangers() throws {
    let world = try SocialWorld { $0.strangers = 4 }
    for address in ["a", "a", "a", "b"] { #expect(isTaken(address, world)) }
    #expect(isTaken("c", world) && world.server.counters.refused == 1)
    #expect(world.server.state(of: SessionID(1)) == nil && world.server.state(of: SessionID(2)) == .opened)
    // Now no address has two more than another one.
    for address in ["a", "b", "c"] { #expect(!isTaken(address, world)) }
    #expect(isTaken("d", world) && world.server.state(of: SessionID(2)) == nil)
  }

  @Test("Later logins that send nothing do not close an active session of the same user")
  func displaced() throws {
    let world = try SocialWorld()
    let user = try world.user(1)
    let mute = try (0..<20).map { try world.connect(user.key, user.authentication, address: "\($0)") }
    #expect(world.server.state(of: user.id) == .established)
    #expect(mute.filter { world.server.state(of: $0) == .established } == Array(mute.suffix(8)))
  }

  @Test("A user with many logins evicts only its own keys from the server's memory")
  func bounded() throws {
    func key(_ number: Int) throws -> UserKey {
      try UserKey([UInt8(number >> 8), UInt8(number & 0xFF)] + [UInt8](repeating: 0, count: 30))
    }
    var accepted = AcceptedKeys(total: 100)
    let (quiet, loud) = (try key(60_001), try key(60_002))
    accepted.insert(try key(0), of: quiet)
    for number in 1...2000 { accepted.insert(try key(number), of: loud) }
    #expect(try accepted.contains(key(0)))
    #expect(accepted.count == 100)
    #expect(try !accepted.contains(key(1)))
    #expect(try accepted.contains(key(2000)))
  }
}
