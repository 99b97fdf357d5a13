import Bytes
import Common
import Crypto
import Testing

@testable import Noise

@Suite("Establishing Noise sessions")
struct SessionsTests {
  @Test(
    "After the three handshake messages both sides have a session, and only its renewal deadline is set",
    arguments: [0, 1])
  func plain(side: Int) {
    var pair = Pair()
    pair.begin(side)
    #expect(pair.air.map(\.bytes.count) == [32])
    pair.deliver()
    #expect(pair.air.map(\.bytes.count) == [96])
    #expect(!pair.hasSession(side))
    pair.deliver()
    #expect(pair.air.map(\.bytes.count) == [64])
    #expect(pair.hasSession(side))
    #expect(!pair.hasSession(1 - side))
    pair.deliver()
    #expect(pair.air.isEmpty)
    #expect(pair.hashes[0] == pair.hashes[1])
    #expect(pair.engines[side].key(of: pair.names[1 - side]) == pair.keys[1 - side].publicKey)
    #expect(pair.engines[1 - side].peers == [pair.names[side]])
    let canTalk = pair.canTalk()
    #expect(canTalk)
    #expect(pair.engines[0].deadline == Instant.zero.advanced(by: .seconds(3600)))
    #expect(pair.counters(side).begun == 1)
    #expect(pair.counters(1 - side).answered == 1)
    #expect(pair.counters(side).established == 1)
  }

  @Test("Sealing a message without a session throws, and a second request for a handshake has no effect")
  func sealing() throws {
    var pair = Pair()
    #expect(throws: NoiseError.noSession) { try pair.engines[0].sealing([1], for: 5) }
    pair.begin(0)
    pair.begin(0)
    #expect(pair.air.count == 1)
    #expect(throws: NoiseError.noSession) { try pair.engines[0].sealing([1], for: pair.names[1]) }
    pair.settle()
    pair.begin(0)
    pair.begin(1)
    #expect(pair.air.isEmpty)
    let long = [UInt8](repeating: 0, count: 65_536)
    #expect(throws: NoiseError.badLength) { try pair.engines[0].sealing(long, for: pair.names[1]) }
    let sealed = try pair.engines[0].sealing(Array(long.dropLast()), for: pair.names[1])
    #expect(sealed.count == 65_555)
  }

  /// Calls `visit` for every order in which the messages under way can arrive, including those in which one overtakes
  /// another.
  private static func everyOrder(_ pair: Pair, _ visit: (Pair) -> Void) {
    if pair.air.isEmpty { return visit(pair) }
    for index in pair.air.indices {
      var next = pair
      next.deliver(index)
      everyOrder(next, visit)
    }
  }

  @Test("Two handshakes that both peers begin at once end in one session, in any order of arrival")
  func bothBegin() {
    var pair = Pair()
    pair.begin(0)
    pair.begin(1)
    var orders = 0
    Self.everyOrder(pair) { end in
      orders += 1
      var end = end
      let canTalk = end.canTalk()
      #expect(canTalk)
      #expect(end.hashes[0].last == end.hashes[1].last)
      // The handshake of the smaller identity prevails.
      #expect(end.counters(0).established == 1)
      #expect(end.counters(1).established == 1)
      #expect(end.counters(1).answered == 1)
    }
    #expect(orders > 2)
  }

  @Test("If both peers begin a handshake at once, the peer with the smaller identity stays the initiator")
  func tieBreak() {
    var pair = Pair()
    pair.begin(0)
    pair.begin(1)
    // The larger side's message arrives at the smaller side.
    pair.deliver(1)
    #expect(pair.counters(0)[.collision] == 1)
    #expect(pair.counters(0).answered == 0)
    #expect(pair.record(0)?.handshake?.isInitiator == true)
    pair.deliver(0)
    #expect(pair.counters(1).answered == 1)
    #expect(pair.record(1)?.handshake?.isInitiator == false)
    pair.settle()
    #expect(pair.failures == [[], []])
  }

  @Test(
    "Both sides get a Noise session although any one of the three handshake messages is lost", arguments: 1...3, 0...1)
  func lost(number: Int, side: Int) {
    var pair = Pair()
    pair.lost = [number]
    pair.begin(side)
    pair.settle()
    // With the third message lost, the initiator has a session and sends a message.
    if number == 3 { pair.say([1], from: side) }
    pair.run(for: .seconds(10))
    if number < 3 {
      #expect(pair.counters(side).begun == 2)
      #expect(pair.hasSession(0) && pair.hasSession(1))
    } else {
      #expect(!pair.hasSession(1 - side))
      pair.run(for: .seconds(10))
      #expect(pair.counters(1 - side).recoveries == 1)
    }
    let canTalk = pair.canTalk()
    #expect(canTalk)
    #expect(pair.failures == [[], []])
  }

  @Test("Each handshake attempt has a new ephemeral key, and the third timeout is reported as a failure")
  func attempts() {
    var pair = Pair()
    pair.begin(0)
    var messages: Set<[UInt8]> = []
    for attempt in 1...3 {
      #expect(pair.counters(0).begun == attempt)
      let end: Instant = Instant.zero.advanced(by: .seconds(10 * attempt))
      #expect(pair.engines[0].deadline == end)
      for flight in pair.air { messages.insert(flight.bytes) }
      pair.air = []
      pair.pass(.milliseconds(9999))
      pair.handle(0, .timer)
      #expect(pair.counters(0).begun == attempt)
      pair.pass(.milliseconds(1))
      pair.handle(0, .timer)
    }
    #expect(messages.count == 3)
    #expect(pair.failures[0] == [.timedOut])
    #expect(pair.engines[0].deadline == nil)
    #expect(pair.engines[0].records.count == 0)
    pair.begin(0)
    pair.settle()
    let canTalk = pair.canTalk()
    #expect(canTalk)
  }

  @Test("A responder that waits 20 s for the third handshake message drops the handshake and its record")
  func responderTimeout() {
    var pair = Pair()
    pair.begin(0)
    pair.deliver()
    pair.air = []
    #expect(pair.engines[1].deadline == Instant.zero.advanced(by: .seconds(20)))
    pair.pass(.seconds(20))
    pair.handle(1, .timer)
    #expect(pair.engines[1].halfOpen == 0)
    #expect(pair.engines[1].records.count == 0)
    #expect(pair.counters(1).timedOut == 1)
  }

  @Test("A session requested during a handshake of the peer is begun when the peer's handshake times out")
  func askedMeanwhile() {
    var pair = Pair()
    pair.begin(0)
    pair.deliver()
    pair.begin(1)
    #expect(pair.counters(1).begun == 0)
    pair.air = []
    pair.restart(0)
    pair.run(for: .seconds(20))
    #expect(pair.counters(1).begun == 1)
    let canTalk = pair.canTalk()
    #expect(canTalk)
  }

  @Test("A side that gave up its handshake for the peer's begins a new one if the peer does not continue")
  func gaveUpForNothing() {
    var pair = Pair()
    pair.begin(0)
    pair.begin(1)
    pair.deliver()
    #expect(pair.counters(1).answered == 1)
    pair.air = []
    pair.restart(0)
    pair.run(for: .seconds(20))
    #expect(pair.counters(1).begun == 2)
    let canTalk = pair.canTalk()
    #expect(canTalk)
  }

  @Test("A peer whose static key does not match its identity gets no session", arguments: [true, false])
  func wrongKey(isInitiator: Bool) {
    var pair = Pair()
    var random = SeededRandom(seed: 9)
    var impostor = Handshake(
      isInitiator ? .xxInitiator : .xxResponder, key: X25519.PrivateKey(randomFrom: &random))
    if isInitiator {
      pair.handle(0, .handshake(pair.names[1], (try? impostor.write(randomFrom: &random)) ?? []))
      _ = try? impostor.read(pair.air[0].bytes)
    } else {
      pair.begin(0)
      _ = try? impostor.read(pair.air[0].bytes)
    }
    pair.air = []
    pair.handle(0, .handshake(pair.names[1], (try? impostor.write(randomFrom: &random)) ?? []))
    #expect(pair.counters(0)[.wrongKey] == 1)
    #expect(!pair.hasSession(0))
    #expect(pair.air.isEmpty)
  }

  @Test("A forged second handshake message, even with a key of low order, does not end the handshake")
  func forgedSecond() {
    var pair = Pair()
    pair.begin(0)
    pair.handle(0, .handshake(pair.names[1], [UInt8](repeating: 9, count: 96)))
    pair.handle(0, .handshake(pair.names[1], [UInt8](repeating: 0, count: 96)))
    pair.handle(1, .handshake(pair.names[0], [UInt8](repeating: 0, count: 32)))
    #expect(pair.counters(0)[.badHandshake] == 1)
    #expect(pair.counters(0)[.weakKey] == 1)
    #expect(pair.counters(1)[.weakKey] == 1)
    pair.settle()
    let canTalk = pair.canTalk()
    #expect(canTalk)
  }

  @Test("Handshake messages that are out of turn, of wrong length, repeated or from ourselves are dropped and counted")
  func drops() {
    var pair = Pair()
    pair.begin(0)
    let first = pair.air[0].bytes
    pair.settle()
    for count in [96, 64] { pair.handle(0, .handshake(pair.names[1], [UInt8](repeating: 1, count: count))) }
    for count in [0, 31, 33, 97, 1000] {
      pair.handle(0, .handshake(pair.names[1], [UInt8](repeating: 1, count: count)))
    }
    pair.handle(1, .handshake(pair.names[0], first))
    pair.handle(0, .handshake(pair.names[0], first))
    pair.handle(0, .message(pair.names[0], first))
    pair.handle(0, .begin(pair.names[0]))
    pair.handle(0, .message(pair.names[1], [UInt8](repeating: 1, count: 19)))
    pair.handle(0, .message(pair.names[1], [UInt8](repeating: 1, count: 65_535 + 21)))
    #expect(pair.counters(0)[.outOfTurn] == 2)
    #expect(pair.counters(0)[.badLength] == 6)
    #expect(pair.counters(1)[.repeated] == 1)
    #expect(pair.counters(0)[.ourselves] == 3)
    #expect(pair.counters(0)[.tooLong] == 1)
    #expect(pair.failures[0] == [.refused(.ourselves)])
    #expect(pair.air.isEmpty)
    let tallies = pair.counters(0).tallies
    #expect(tallies.contains(Tally("DroppedBadLength", 6)))
    #expect(Set(tallies.map(\.name)).count == 8 + Drop.allCases.count)
  }

  @Test("A replayed Noise message is counted as `replayed` and begins no handshake")
  func replays() {
    var pair = Pair.proven()
    pair.say([1], from: 0)
    let message = pair.air[0].bytes
    pair.settle()
    for _ in 0..<5 { pair.handle(1, .message(pair.names[0], message)) }
    #expect(pair.counters(1)[.replayed] == 5)
    #expect(pair.counters(1).recoveries == 0)
    #expect(pair.heard[1] == [[1]])
  }

  @Test("A Noise message whose nonce is too old or jumps by 2^31 is counted by that reason and begins no handshake")
  func windows() throws {
    var pair = Pair.proven()
    let keys = try #require(pair.record(1)?.live?.transport.keys)
    let far: UInt32 = 1 << 31
    let rows: [(nonce: UInt32, drop: Drop?)] = [
      (5000, nil), (3976, .tooOld), (3977, nil), (5000 + far, .nonceJump), (4999 + far, nil),
    ]
    for row in rows {
      var sender = try TransportSession(keys: keys, isInitiator: true, sealed: row.nonce)
      let (message, before) = (try sender.seal([1]), pair.heard[1].count)
      for _ in 0..<3 { pair.handle(1, .message(pair.names[0], message)) }
      #expect(pair.heard[1].count == before + (row.drop == nil ? 1 : 0))
    }
    #expect(pair.counters(1)[.tooOld] == 3)
    #expect(pair.counters(1)[.nonceJump] == 3)
    #expect(pair.counters(1)[.replayed] == 6)
    #expect(pair.counters(1)[.undecryptable] == 0)
    #expect(pair.counters(1).recoveries == 0)
  }

  @Test("The printed form of a Noise engine action contains no plaintext")
  func printing() {
    let action = Engine.Action.opened(5, Array("a secret word".utf8))
    var dumped = ""
    dump(action, to: &dumped)
    #expect("\(action)" == "opened 13 bytes from 5")
    #expect(!dumped.contains("115"))
  }
}

extension Engine {
  /// Calls `seal` at the beginning of time, on a copy.
  func sealing(_ text: [UInt8], for peer: UInt64) throws -> [UInt8] {
    var copy = self
    return try copy.seal(text, for: peer, at: .zero)
  }
}
