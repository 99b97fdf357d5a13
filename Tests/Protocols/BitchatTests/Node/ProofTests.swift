import Common
import Crypto
import Testing

@testable import Bitchat
@testable import BitchatWire

@Suite("Proofs that a mesh peer has the keys of its verification code")
struct ProofTests {
  private static let limit = Duration.seconds(25)

  /// Ann and Bob have a session, and Bob's answers do not arrive.
  private static func silentBob() throws -> MeshHall {
    var hall = ChatTests.line(["ann", "bob"])
    try hall.tell("hello", to: 1, at: 0)
    hall.pass(.seconds(5))
    hall.passes = { bytes, from, _ in from != 1 || bytes[1] == MessageType.announce.rawValue }
    return hall
  }

  private static func asked(_ hall: MeshHall, of peer: Int, at node: Int = 0) -> [VerificationChallenge] {
    hall.nodes[node].engine.challenges.codes.entries[hall.nodes[peer].id]?.asked ?? []
  }

  private static func response(
    _ challenge: VerificationChallenge, of node: Int, in hall: MeshHall
  ) -> NoisePayload {
    .verificationResponse(VerificationResponse(to: challenge, key: hall.nodes[node].engine.identity.signingKey))
  }

  @Test("A peer proves its keys with or without a session, also over several hops", arguments: [2, 3], [false, true])
  func proven(nodes: Int, hasSession: Bool) throws {
    var hall = ChatTests.line(Array(["ann", "bob", "cat"].prefix(nodes)))
    if hasSession {
      try hall.tell("hello", to: nodes - 1, at: 0)
      hall.pass(.seconds(5))
    }
    #expect(hall.nodes[0].engine.hasSession(with: hall.nodes[nodes - 1].id) == hasSession)
    try hall.challenge(nodes - 1, at: 0)
    #expect(hall.nodes[0].proofs == [])
    hall.pass(.seconds(2))
    #expect(hall.nodes[0].proofs == [.proven] && hall.nodes[0].engine.counters.proofs == 1)
    #expect(hall.nodes[nodes - 1].engine.counters.answeredChallenges == 1)
    #expect(hall.nodes[0].engine.challenges.codes.deadline == nil)
    hall.pass(.seconds(60))
    #expect(hall.nodes[0].proofs == [.proven])
  }

  @Test("A successful proof does not by itself mark the peer as verified")
  func noMark() throws {
    var hall = ChatTests.line(["ann", "bob"])
    try hall.challenge(1, at: 0)
    hall.pass(.seconds(5))
    #expect(hall.nodes[0].proofs == [.proven] && hall.nodes[0].engine.verified.isEmpty)
  }

  @Test("A lost challenge or answer causes a new challenge with a new nonce, and an answer to any of them counts")
  func lost() throws {
    var hall = try Self.silentBob()
    try hall.challenge(1, at: 0)
    hall.pass(.seconds(7))
    let asked = Self.asked(hall, of: 1)
    #expect(asked.count == 2 && Set(asked.map(\.nonce)).count == 2 && asked.allSatisfy { $0.nonce.count == 16 })
    hall.passes = { _, _, _ in true }
    hall.seal(Self.response(asked[0], of: 1, in: hall), to: 0, at: 1)
    hall.pass(.seconds(1))
    #expect(hall.nodes[0].proofs == [.proven])
  }

  @Test("A key proof ends with `noAnswer` after 24 s and 4 challenges, and later answers are ignored")
  func noAnswer() throws {
    var hall = try Self.silentBob()
    try hall.challenge(1, at: 0)
    hall.pass(.milliseconds(23_900))
    #expect(hall.nodes[0].proofs == [])
    let asked = Self.asked(hall, of: 1)
    #expect(asked.count == 4)
    hall.pass(.milliseconds(200))
    #expect(hall.nodes[0].proofs == [.noAnswer] && hall.nodes[0].engine.counters.missingProofs == 1)
    hall.passes = { _, _, _ in true }
    hall.seal(Self.response(asked[3], of: 1, in: hall), to: 0, at: 1)
    hall.pass(.seconds(2))
    #expect(hall.nodes[0].proofs == [.noAnswer] && hall.nodes[0].engine.counters.unaskedProofs == 1)
  }

  @Test("An answer to a challenge that is signed with another key ends the key proof with `wrong`")
  func wrongSignature() throws {
    var hall = try Self.silentBob()
    try hall.challenge(1, at: 0)
    hall.pass(.seconds(1))
    let challenge = try #require(Self.asked(hall, of: 1).first)
    hall.passes = { _, _, _ in true }
    let other = Stranger(7).signingKey
    hall.seal(.verificationResponse(VerificationResponse(to: challenge, key: other)), to: 0, at: 1)
    hall.pass(.seconds(1))
    #expect(hall.nodes[0].proofs == [.wrong] && hall.nodes[0].engine.counters.wrongProofs == 1)
    // The valid response arrives too late.
    hall.seal(Self.response(challenge, of: 1, in: hall), to: 0, at: 1)
    hall.pass(.seconds(30))
    #expect(hall.nodes[0].proofs == [.wrong])
  }

  @Test("A peer state with another signing key ends the key proof with `wrong`")
  func otherKeyInside() throws {
    var hall = try Self.silentBob()
    try hall.challenge(1, at: 0)
    hall.pass(.seconds(1))
    let challenge = try #require(Self.asked(hall, of: 1).first)
    hall.passes = { _, _, _ in true }
    hall.seal(
      .peerState(PeerState(capabilities: [], signingKey: Stranger(7).signingKey.publicKey)), to: 0, at: 1)
    hall.seal(Self.response(challenge, of: 1, in: hall), to: 0, at: 1)
    hall.pass(.seconds(1))
    #expect(hall.nodes[0].proofs == [.wrong])
  }

  @Test("A repeated answer to a challenge does not count, either without a key proof or in a later one")
  func replayed() throws {
    var hall = try Self.silentBob()
    try hall.challenge(1, at: 0)
    hall.pass(.seconds(1))
    let answer = Self.response(try #require(Self.asked(hall, of: 1).first), of: 1, in: hall)
    hall.passes = { bytes, from, _ in from != 0 || bytes[1] != MessageType.noiseEncrypted.rawValue }
    hall.seal(answer, to: 0, at: 1)
    hall.pass(.seconds(1))
    #expect(hall.nodes[0].proofs == [.proven])
    hall.seal(answer, to: 0, at: 1)
    try hall.challenge(1, at: 0)
    hall.seal(answer, to: 0, at: 1)
    hall.pass(.seconds(1))
    #expect(hall.nodes[0].proofs == [.proven] && hall.nodes[0].engine.counters.unaskedProofs == 2)
    hall.passes = { _, _, _ in true }
    hall.pass(Self.limit)
    #expect(hall.nodes[0].proofs == [.proven, .proven])
  }

  @Test("An answer to a challenge from another peer does not count, even with a valid signature")
  func otherPeer() throws {
    var hall = ChatTests.line(["ann", "bob", "cat"])
    try hall.tell("hello", to: 1, as: 1, at: 0)
    try hall.tell("hello", to: 2, as: 2, at: 0)
    hall.pass(.seconds(5))
    let bob = hall.nodes[1].id
    hall.passes = { bytes, from, _ in
      from != 1 || bytes[1] != MessageType.noiseEncrypted.rawValue || (try? PacketView(bytes).sender) != bob
    }
    try hall.challenge(1, at: 0)
    hall.pass(.seconds(1))
    let challenge = try #require(Self.asked(hall, of: 1).first)
    hall.seal(Self.response(challenge, of: 1, in: hall), to: 0, at: 2)
    hall.pass(.seconds(1))
    #expect(hall.nodes[0].proofs == [] && hall.nodes[0].engine.counters.unaskedProofs == 1)
    // The response does not count either while a challenge to Cat is open.
    try hall.challenge(2, at: 0)
    hall.seal(Self.response(challenge, of: 1, in: hall), to: 0, at: 2)
    hall.pass(.seconds(3))
    #expect(hall.nodes[0].proofs == [.proven] && hall.nodes[0].engine.challenges.codes.peers == [bob])
    #expect(hall.nodes[0].engine.counters.unaskedProofs == 2)
    hall.pass(Self.limit)
    #expect(hall.nodes[0].proofs == [.proven, .noAnswer])
  }

  @Test("A peer that restarted without its session still proves its keys")
  func staleSession() throws {
    var hall = ChatTests.line(["ann", "bob"])
    try hall.tell("hello", to: 1, at: 0)
    hall.pass(.seconds(5))
    let bob = hall.nodes[1]
    bob.engine = MeshEngine(
      identity: bob.engine.identity, configuration: bob.engine.configuration, random: SeededRandom(seed: 79))
    hall.handle(.clock(isTrusted: true), at: 1)
    hall.handle(.start, at: 1)
    for link in hall.links(0, 1) { hall.disconnect(link) }
    hall.connect(0, 1)
    hall.pass(.seconds(1))
    #expect(hall.nodes[0].engine.hasSession(with: bob.id))
    try hall.challenge(1, at: 0)
    hall.pass(Self.limit)
    #expect(hall.nodes[0].proofs == [.proven])
  }

  @Test("A relay neither answers nor sends challenges for key proofs")
  func relay() throws {
    var hall = MeshHall()
    hall.add(["ann"])
    hall.add(["relay"]) { $0.role = .relay }
    hall.connect(0, 1)
    hall.pass(.seconds(5))
    try hall.challenge(1, at: 0)
    hall.pass(Self.limit)
    #expect(hall.nodes[0].proofs == [.noAnswer] && hall.nodes[1].engine.counters.answeredChallenges == 0)
    #expect(throws: MeshEngine.ChallengeError.relayOnly) { try hall.challenge(0, at: 1) }
  }

  @Test("A key proof ends when the peer leaves, is forgotten or is blocked, or when this node stops")
  func gone() throws {
    for (event, outcome) in [
      (nil, MeshEngine.ProofOutcome.gone), (MeshEngine.Event.stop, .gone), (.forget(PeerID(rawValue: 0)), .gone),
      (.block(PeerID(rawValue: 0), true), .blocked),
    ] as [(MeshEngine.Event?, MeshEngine.ProofOutcome)] {
      var hall = try Self.silentBob()
      try hall.challenge(1, at: 0)
      hall.pass(.seconds(1))
      let bob = hall.nodes[1].id
      hall.passes = { _, _, _ in true }
      switch event {
      case .forget: hall.handle(.forget(bob), at: 0)
      case .block: hall.handle(.block(bob, true), at: 0)
      case .stop: hall.handle(.stop, at: 0)
      default: hall.handle(.stop, at: 1)
      }
      hall.pass(.seconds(1))
      #expect(hall.nodes[0].proofs == [outcome], "\(String(describing: event))")
      #expect(hall.nodes[0].engine.challenges.codes.peers == [])
      hall.pass(Self.limit)
      #expect(hall.nodes[0].proofs == [outcome])
    }
  }

  @Test(
    "A challenge to this node itself, to an absent or blocked peer, or with a wrong key throws a named error"
  )
  func refused() throws {
    var hall = ChatTests.line(["ann", "bob"])
    let key = Stranger(7).signingKey.publicKey
    #expect(throws: MeshEngine.ChallengeError.ourselves) { try hall.challenge(0, at: 0) }
    // An announced key that is not proven may be an attacker's, so a code with another key is checked.
    #expect(hall.nodes[0].engine.neighbourhood.peers.isProven(hall.nodes[1].id) == false)
    try hall.challenge(1, signingKey: key, at: 0)
    hall.pass(.seconds(30))
    #expect(hall.nodes[0].proofs == [.wrong] && hall.nodes[0].engine.neighbourhood.peers.isProven(hall.nodes[1].id))
    #expect(throws: MeshEngine.ChallengeError.otherKey) { try hall.challenge(1, signingKey: key, at: 0) }
    hall.handle(.block(hall.nodes[1].id, true), at: 0)
    #expect(throws: MeshEngine.ChallengeError.blocked) { try hall.challenge(1, at: 0) }
    hall.handle(.block(hall.nodes[1].id, false), at: 0)

    var engine = hall.nodes[0].engine
    var number: UInt64 = 0
    var stranger: Stranger { Stranger(100 + number) }
    func ask() throws -> [MeshEngine.Action] {
      try engine.challenge(stranger.id, signingKey: stranger.signingKey.publicKey, at: hall.now, time: hall.time)
    }
    #expect(throws: MeshEngine.ChallengeError.notNear) { try ask() }
    for _ in 0..<AwaitedProofs.limit + 1 {
      number += 1
      hall.pass(.seconds(1))
      _ = engine.handle(.linkOpened(LinkID(99 + number), frameLimit: 512, isOurs: false), at: hall.now, time: hall.time)
      _ = engine.handle(
        .received(stranger.announce(at: hall.time), on: LinkID(99 + number)), at: hall.now, time: hall.time)
    }
    number = 0
    for _ in 0..<AwaitedProofs.limit {
      number += 1
      _ = try ask()
    }
    // A peer with an open challenge may be challenged again.
    _ = try ask()
    number += 1
    #expect(throws: MeshEngine.ChallengeError.tooMany) { try ask() }

    hall.handle(.clock(isTrusted: false), at: 0)
    #expect(throws: MeshEngine.ChallengeError.notReady) { try hall.challenge(1, at: 0) }
  }

  @Test("A challenge for another node's key, or from a blocked peer, is not answered")
  func answering() throws {
    var hall = ChatTests.line(["ann", "bob"])
    try hall.tell("hello", to: 1, at: 0)
    hall.pass(.seconds(5))
    var random = SeededRandom(seed: 5)
    func question(_ node: Int) -> NoisePayload {
      .verificationChallenge(
        VerificationChallenge(noiseKey: hall.nodes[node].engine.identity.noiseKey.publicKey, randomFrom: &random))
    }
    hall.seal(question(0), to: 1, at: 0)
    hall.pass(.seconds(1))
    #expect(
      hall.nodes[1].engine.counters.strangeChallenges == 1 && hall.nodes[1].engine.counters.answeredChallenges == 0)
    hall.handle(.block(hall.nodes[0].id, true), at: 1)
    hall.seal(question(1), to: 1, at: 0)
    hall.pass(.seconds(1))
    #expect(hall.nodes[1].engine.counters.answeredChallenges == 0)
    hall.handle(.block(hall.nodes[0].id, false), at: 1)
    hall.seal(question(1), to: 1, at: 0)
    hall.pass(.seconds(1))
    #expect(hall.nodes[1].engine.counters.answeredChallenges == 1 && hall.nodes[0].engine.counters.unaskedProofs == 1)
  }
}
