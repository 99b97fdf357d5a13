import Bytes
import Common
import Crypto
import TestSupport
import Testing

@testable import ASN

@Suite("Replayed connections")
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
    "A recorded login opens no second session, whether the first one is open or has ended", arguments: [true, false])
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

  @Test("A session that has sent nothing under its key is closed after 10 min, whatever octets and pongs arrive")
  func zombie() throws {
    let world = try SocialWorld()
    let id = try play(try recording(), world)
    world.inject(id, [0, 100])
    for _ in 0..<9 {
      world.wait(.seconds(60))
      world.inject(id, [1])
      world.server.heardPong(id, at: world.now)
    }
    #expect(world.server.state(of: id) == .established)
    world.wait(.seconds(61))
    #expect(world.server.state(of: id) == .closed)
    // Nobody reads the acknowledgement of the login.
    world.wait(.seconds(10))
    #expect(world.server.state(of: id) == nil)
  }

  @Test("Logins that send nothing more do not close an active session of the same user")
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
