import Common
import Crypto
import Testing

@testable import Bitchat
@testable import BitchatWire

/// The peer ID and the fingerprint cover the Noise key alone, which is public. An attacker announces it with a signing
/// key of its own.
@Suite("Attack: an impostor announces a peer's Noise key with another signing key")
struct KeyImpostorTests {
  private static let eve = Stranger(66)

  /// An announce of a node's name and Noise key with Eve's signing key.
  private static func forged(_ node: MeshHall.Node, at time: UInt64) -> [UInt8] {
    let announcement = try? Announcement(
      nickname: node.name, noiseKey: node.engine.identity.noiseKey.publicKey, signingKey: eve.signingKey.publicKey)
    return packet(.announce, announcement?.bytes ?? [], as: node.id, at: time)
  }

  private static func packet(_ type: MessageType, _ payload: [UInt8], as sender: PeerID, at time: UInt64) -> [UInt8] {
    let packet = Packet(type: type, timestamp: time, sender: sender, payload: payload)
    return (try? packet.signed(with: eve.signingKey).encoded()) ?? []
  }

  private static func key(of node: MeshHall.Node) -> Ed25519.PublicKey { node.engine.identity.signingKey.publicKey }

  /// Ann, who may have received Eve's forged announce of Bob; Bob, who is out of range; and, for two hops, Cem between
  /// the two.
  private static func stage(isAttacked: Bool, hops: Int = 1) -> (hall: MeshHall, door: LinkID) {
    var hall = MeshHall()
    hall.add(["ann", "bob", "cem"])
    if hops == 2 { hall.connect(0, 2) }
    let door = hall.connect(stranger: isAttacked ? nil : eve, to: 0)
    if isAttacked { hall.inject(forged(hall.nodes[1], at: hall.time), on: door, to: 0) }
    hall.pass(.seconds(10))
    return (hall, door)
  }

  private static func delay(_ hall: inout MeshHall, until isThere: (MeshHall) -> Bool) -> Duration? {
    let begin = hall.now
    for _ in 0..<6000 where !isThere(hall) { hall.pass(.milliseconds(10)) }
    return isThere(hall) ? begin.duration(to: hall.now) : nil
  }

  @Test("A peer whose fingerprint was compared counts as verified only after it has proven its signing key")
  func unproven() {
    var (hall, door) = Self.stage(isAttacked: true)
    let bob = hall.nodes[1].id
    hall.handle(.verified(bob, true), at: 0)
    for _ in 0..<6 {
      hall.pass(.seconds(10))
      hall.inject(Self.forged(hall.nodes[1], at: hall.time), on: door, to: 0)
      #expect(!hall.nodes[0].engine.isVerified(bob))
    }
    #expect(hall.nodes[0].proofs == [.noAnswer])
  }

  @Test(
    "A forged announce delays the verification of the genuine peer by less than 2 s, even after a restart",
    arguments: [1, 2])
  func replaced(hops: Int) throws {
    for isRestarted in [false, true] {
      var delays: [Duration] = []
      for isAttacked in [false, true] {
        var (hall, door) = Self.stage(isAttacked: isAttacked, hops: hops)
        let bob = hall.nodes[1]
        if isAttacked {
          // Bob stays long enough for Ann to store his key.
          for _ in 0..<8 {
            hall.pass(.seconds(10))
            hall.inject(Self.forged(bob, at: hall.time), on: door, to: 0)
          }
          #expect(hall.nodes[0].engine.peer(bob.id)?.signingKey == Self.eve.signingKey.publicKey)
        }
        hall.handle(.verified(bob.id, true), at: 0)
        if isRestarted {
          hall.restart(0)
          hall.handle(.linkClosed(door), at: 0)
          if hops == 2 { hall.connect(0, 2) }
          door = hall.connect(to: 0)
          if isAttacked { hall.inject(Self.forged(bob, at: hall.time), on: door, to: 0) }
          hall.pass(.seconds(10))
        }
        hall.connect(hops == 1 ? 0 : 2, 1)
        let known = Self.delay(&hall) { $0.nodes[0].engine.isVerified(bob.id) }
        delays.append(try #require(known))
        #expect(hall.nodes[0].engine.peer(bob.id)?.signingKey == Self.key(of: bob))
        // From now on Ann accepts the victim's public messages, and none that are signed with Eve's key.
        let said = hall.say("it is me", at: 1)
        #expect(said != nil)
        hall.inject(Self.forged(bob, at: hall.time), on: door, to: 0)
        hall.inject(Self.packet(.message, Array("so am I".utf8), as: bob.id, at: hall.time), on: door, to: 0)
        hall.pass(.seconds(2))
        #expect(hall.nodes[0].heard.map(\.text) == ["it is me"])
        #expect(hall.nodes[0].engine.isVerified(bob.id))
      }
      print("impostor, \(hops) hops, restarted \(isRestarted): \(delays)")
      #expect(delays[1] < delays[0] + .seconds(2), "\(delays)")
    }
  }

  @Test("A peer that arrives after an hour of forged announces in its name is verified within 2 s")
  func longAttack() throws {
    var (hall, door) = Self.stage(isAttacked: true)
    let bob = hall.nodes[1]
    hall.handle(.verified(bob.id, true), at: 0)
    for _ in 0..<240 {
      hall.pass(.seconds(15))
      hall.inject(Self.forged(bob, at: hall.time), on: door, to: 0)
    }
    #expect(!hall.nodes[0].engine.isVerified(bob.id))
    // The pause between two questions doubles, so forged announces cause few handshakes.
    #expect(hall.nodes[0].engine.messages.sessions.counters.begun < 25)
    hall.connect(0, 1)
    let known = try #require(Self.delay(&hall) { $0.nodes[0].engine.isVerified(bob.id) })
    print("impostor, after an hour: \(known)")
    #expect(known < .seconds(2))
    _ = door
  }

  @Test("A proven signing key is stored, and after a restart another key is refused without a handshake")
  func keptProof() throws {
    var (hall, door) = Self.stage(isAttacked: true)
    let bob = hall.nodes[1]
    hall.handle(.favourite(bob.id, true), at: 0)
    hall.connect(0, 1)
    hall.pass(.seconds(5))
    let pins = hall.nodes[0].kept.compactMap { keepsake -> (Ed25519.PublicKey, Bool)? in
      if case .pin(bob.id, let key, let isProven) = keepsake { (key, isProven) } else { nil }
    }
    let last = try #require(pins.last)
    #expect(last == (Self.key(of: bob), true))
    hall.restart(0)
    door = hall.connect(to: 0)
    hall.inject(Self.forged(bob, at: hall.time), on: door, to: 0)
    hall.pass(.seconds(2))
    let ann = hall.nodes[0].engine
    let peers = ann.neighbourhood.peers
    #expect(ann.peer(bob.id) == nil && peers.pin(of: bob.id) == Self.key(of: bob) && peers.isProven(bob.id))
    #expect(ann.challenges.isEmpty && ann.counters.otherSigningKeys == 1)
  }

  @Test("VerifyCode accepts the genuine peer's code and proves it, and refuses a code with the impostor's key")
  func codes() throws {
    var (hall, _) = Self.stage(isAttacked: true)
    let bob = hall.nodes[1]
    hall.passes = { bytes, from, to in from != 1 || bytes[1] != MessageType.noiseEncrypted.rawValue }
    hall.connect(0, 1)
    hall.pass(.milliseconds(200))
    // Nothing that Bob seals arrives yet, so the key is not proven.
    #expect(hall.nodes[0].engine.peer(bob.id)?.signingKey == Self.eve.signingKey.publicKey)
    try hall.challenge(1, at: 0)
    hall.passes = { _, _, _ in true }
    hall.pass(.seconds(10))
    #expect(hall.nodes[0].proofs == [.proven])
    #expect(hall.nodes[0].engine.peer(bob.id)?.signingKey == Self.key(of: bob))
    #expect(throws: MeshEngine.ChallengeError.otherKey) {
      try hall.challenge(1, signingKey: Self.eve.signingKey.publicKey, at: 0)
    }
  }

  @Test("A peer that has not sent its signing key in a session is asked for the key")
  func olderApp() {
    var (hall, _) = Self.stage(isAttacked: true)
    let bob = hall.nodes[1]
    // Each side sends this once after a handshake. Bob's packet is lost.
    var lost = 0
    hall.passes = { bytes, from, _ in
      guard from == 1, bytes[1] == MessageType.noiseEncrypted.rawValue, lost < 1 else { return true }
      lost += 1
      return false
    }
    hall.connect(0, 1)
    hall.pass(.seconds(15))
    #expect(lost == 1)
    #expect(hall.nodes[0].engine.peer(bob.id)?.signingKey == Self.key(of: bob))
    #expect(bob.engine.counters.answeredChallenges == 1)
  }

  @Test("Forged announces of peers with proven keys cause at most one handshake each, and change no key")
  func rateLimit() {
    var hall = MeshHall()
    hall.add(["ann", "bob", "cem", "dea"])
    for other in 1...3 { hall.connect(0, other) }
    hall.pass(.seconds(2))
    let door = hall.connect(stranger: Self.eve, to: 0)
    let before = hall.nodes[0].engine.messages.sessions.counters.begun
    for _ in 0..<120 {
      for victim in 1...3 { hall.inject(Self.forged(hall.nodes[victim], at: hall.time), on: door, to: 0) }
      hall.pass(.milliseconds(500))
    }
    let ann = hall.nodes[0].engine
    // At most one handshake for each victim: then its key is proven.
    #expect(ann.messages.sessions.counters.begun - before <= 3)
    for victim in 1...3 {
      #expect(ann.peer(hall.nodes[victim].id)?.signingKey == Self.key(of: hall.nodes[victim]))
    }
    #expect(ann.challenges.disputes.count == 0)
  }

  @Test("Forged announces of absent peers cause at most 4 handshakes a minute per device, and 12 in total")
  func absentVictims() {
    var hall = MeshHall()
    hall.add(["ann"])
    let others = (0..<60).map { Stranger(1000 + UInt64($0)) }
    let door = hall.connect(stranger: Self.eve, to: 0)
    for other in others {
      hall.inject(other.announce(at: hall.time, timeToLive: 6), on: door, to: 0)
      hall.pass(.milliseconds(150))
    }
    func forge(_ other: Stranger, on link: LinkID) {
      let announcement = try? Announcement(
        nickname: "x", noiseKey: other.noiseKey.publicKey, signingKey: Self.eve.signingKey.publicKey)
      hall.inject(Self.packet(.announce, announcement?.bytes ?? [], as: other.id, at: hall.time), on: link, to: 0)
    }
    for other in others {
      forge(other, on: door)
      hall.pass(.milliseconds(150))
    }
    #expect(hall.nodes[0].engine.messages.sessions.counters.begun == 4)
    #expect(hall.nodes[0].engine.challenges.disputes.count <= Disputes.limit)
    let doors = (0..<10).map { hall.connect(to: 0, from: DeviceOrigin(address: UInt64(100 + $0))) }
    for (number, other) in others.suffix(50).enumerated() {
      forge(other, on: doors[number % 10])
      hall.pass(.milliseconds(110))
    }
    #expect(hall.nodes[0].engine.messages.sessions.counters.begun <= 12)
  }

  @Test("A relay relays the genuine peer's announces and messages although an impostor announced first")
  func relay() throws {
    var hall = MeshHall()
    hall.add(["ann"]) { $0.role = .relay }
    hall.add(["bob", "cem"])
    let door = hall.connect(to: 0)
    hall.inject(Self.forged(hall.nodes[1], at: hall.time), on: door, to: 0)
    hall.pass(.seconds(2))
    hall.connect(0, 2)
    hall.connect(0, 1)
    hall.pass(.seconds(5))
    let said = hall.say("it is me", at: 1)
    #expect(said != nil)
    hall.pass(.seconds(5))
    #expect(hall.nodes[2].heard.map(\.text) == ["it is me"])
    #expect(hall.nodes[2].engine.peer(hall.nodes[1].id)?.signingKey == Self.key(of: hall.nodes[1]))
  }
}
