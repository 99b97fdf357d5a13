import Crypto
import Testing

@testable import Noise

@Suite("Handshake")
struct HandshakeTests {
  private var random = SeededRandom(seed: 1)
  private let alice: X25519.PrivateKey
  private let bob: X25519.PrivateKey

  init() {
    alice = X25519.PrivateKey(randomFrom: &random)
    bob = X25519.PrivateKey(randomFrom: &random)
  }

  /// Both sides after this number of messages, and those messages.
  private mutating func progress(
    _ count: Int, payload: [UInt8] = []
  ) throws -> (sides: [Handshake], messages: [[UInt8]]) {
    var sides = [Handshake(.xxInitiator, key: alice), Handshake(.xxResponder, key: bob)]
    var messages: [[UInt8]] = []
    for index in 0..<count {
      let message = try sides[index % 2].write(payload, randomFrom: &random)
      #expect(try sides[1 - index % 2].read(message) == payload)
      messages.append(message)
    }
    return (sides, messages)
  }

  @Test("A completed Noise handshake gives both sides the same hash and each other's key, and no message repeats")
  mutating func complete() throws {
    let (sides, messages) = try progress(3)
    #expect(sides[0].hash == sides[1].hash)
    #expect(sides[0].peer == bob.publicKey)
    #expect(sides[1].peer == alice.publicKey)
    // Neither side retains its ephemeral key.
    #expect(sides.allSatisfy { $0.ephemeral == nil })
    let (others, again) = try progress(3)
    #expect(others[0].hash != sides[0].hash)
    for (one, other) in zip(messages, again) {
      let (key, otherKey): ([UInt8], [UInt8]) = (Array(one.prefix(32)), Array(other.prefix(32)))
      #expect(key != otherKey)
    }
  }

  @Test(
    "Each Noise handshake message carries a payload, and only the first payload is in plain text", arguments: [1, 100])
  mutating func payloads(count: Int) throws {
    let payload = [UInt8](repeating: 0xAB, count: count)
    let (_, messages) = try progress(3, payload: payload)
    let counts: [Int] = messages.map { $0.count - count }
    #expect(counts == [32, 96, 64])
    let open: [UInt8] = Array(messages[0].suffix(count))
    let sealed: [UInt8] = Array(messages[1].dropLast(16).suffix(count))
    #expect(open == payload)
    #expect(sealed != payload)
  }

  @Test("Writing or reading a Noise handshake message out of turn, or after completion, throws `outOfTurn`")
  mutating func turns() throws {
    for count in 0...3 {
      var (sides, _) = try progress(count)
      let next = count == 3 ? nil : count % 2
      for side in 0...1 {
        if side != next {
          #expect(throws: NoiseError.outOfTurn) { try sides[side].write(randomFrom: &random) }
        }
        if side == next || next == nil {
          #expect(throws: NoiseError.outOfTurn) { try sides[side].read([UInt8](repeating: 1, count: 96)) }
        }
        if count < 3 { #expect(throws: NoiseError.outOfTurn) { try sides[side].session() } }
      }
    }
  }

  @Test(
    "A Noise handshake message with a changed bit is refused, and the unchanged message is read afterwards",
    arguments: [1, 2])
  mutating func altered(number: Int) throws {
    var (sides, _) = try progress(number)
    let message = try sides[number % 2].write(randomFrom: &random)
    for bit in stride(from: 0, to: message.count * 8, by: 5) {
      var altered = message
      altered[bit / 8] ^= 1 << UInt8(bit % 8)
      // X25519 ignores the top bit of a key's last byte, but the bit is hashed.
      #expect(throws: NoiseError.authenticationFailed) { try sides[1 - number % 2].read(altered) }
    }
    _ = try sides[1 - number % 2].read(message)
  }

  @Test("A change of the first Noise handshake message is detected when the second is read")
  mutating func alteredFirst() throws {
    var (initiator, responder) = (Handshake(.xxInitiator, key: alice), Handshake(.xxResponder, key: bob))
    var message = try initiator.write(randomFrom: &random)
    message[7] ^= 1
    _ = try responder.read(message)
    let second = try responder.write(randomFrom: &random)
    #expect(throws: NoiseError.authenticationFailed) { try initiator.read(second) }
  }

  @Test("A Noise handshake between sides with different prologues fails")
  mutating func prologues() throws {
    var initiator = Handshake(.xxInitiator, key: alice, prologue: [1])
    var responder = Handshake(.xxResponder, key: bob, prologue: [2])
    _ = try responder.read(try initiator.write(randomFrom: &random))
    let second = try responder.write(randomFrom: &random)
    #expect(throws: NoiseError.authenticationFailed) { try initiator.read(second) }
  }

  @Test(
    "A Noise handshake message shorter than its keys, or longer than 65,535 bytes, is refused",
    arguments: [0, 1, 31, 65_536])
  mutating func lengths(count: Int) throws {
    for number in 0..<3 {
      var (sides, _) = try progress(number)
      #expect(throws: NoiseError.badLength) {
        try sides[1 - number % 2].read([UInt8](repeating: 1, count: count))
      }
    }
    var (sides, _) = try progress(2)
    #expect(throws: NoiseError.badLength) { try sides[1].read([UInt8](repeating: 1, count: 47)) }
  }

  @Test("A Noise handshake message has at most 65,535 bytes, and a payload that exceeds this is refused")
  mutating func longest() throws {
    var initiator = Handshake(.xxInitiator, key: alice)
    var longer = initiator
    let message = try initiator.write([UInt8](repeating: 0, count: 65_535 - 32), randomFrom: &random)
    #expect(message.count == 65_535)
    #expect(throws: NoiseError.badLength) {
      try longer.write([UInt8](repeating: 0, count: 65_536 - 32), randomFrom: &random)
    }
  }

  @Test("A Noise handshake refuses an ephemeral key of low order before it seals anything", arguments: [0, 1])
  mutating func weakEphemeral(first: UInt8) throws {
    let weak = [first] + [UInt8](repeating: 0, count: 31)
    var responder = Handshake(.xxResponder, key: bob)
    _ = try responder.read(weak)
    #expect(throws: NoiseError.weakKey) { try responder.write(randomFrom: &random) }
    var initiator = Handshake(.xxInitiator, key: alice)
    _ = try initiator.write(randomFrom: &random)
    #expect(throws: NoiseError.weakKey) { try initiator.read(weak + [UInt8](repeating: 7, count: 64)) }
  }

  @Test("A one-way Noise message to or from a static key of low order is refused")
  mutating func weakOneWay() throws {
    let weak = [UInt8](repeating: 0, count: 32)
    let peer = try X25519.PublicKey(weak)
    #expect(throws: NoiseError.weakKey) {
      try OneWayMessage.seal([1], to: peer, from: alice, prologue: [], randomFrom: &random)
    }
    #expect(throws: NoiseError.weakKey) {
      try OneWayMessage.open(weak + [UInt8](repeating: 7, count: 80), with: bob, prologue: [])
    }
  }

  @Test("A one-way Noise message that is changed or truncated is refused")
  mutating func oneWayGarbage() throws {
    let message = try OneWayMessage.seal([1, 2], to: bob.publicKey, from: alice, prologue: [9], randomFrom: &random)
    for index in message.indices {
      var altered = message
      altered[index] ^= 1
      #expect(throws: NoiseError.authenticationFailed) { try OneWayMessage.open(altered, with: bob, prologue: [9]) }
      #expect(throws: NoiseError.self) {
        try OneWayMessage.open(Array(message.prefix(index)), with: bob, prologue: [9])
      }
    }
  }

  @Test("Each Noise error has a description that is a sentence")
  func errors() {
    #expect("\(NoiseError.weakKey)" == "the peer's public key is a low-order point")
    #expect("\(NoiseError.replayed)" == "the message was already received")
  }
}
