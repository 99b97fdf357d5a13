import Common
import Crypto
import Testing

@testable import Noise

/// Side 1 has the larger identity, so it gives up its own handshake for one that side 0 begins.
@Suite("What comes aside disturbs no handshake with a neighbour")
struct WayTests {
  /// A first message that neither side wrote.
  private let forged: [UInt8] = {
    var random = SeededRandom(seed: 3)
    return X25519.PrivateKey(randomFrom: &random).publicKey.bytes
  }()

  @Test("A first message that comes aside does not replace the handshake that came over the peer's own link")
  func theirs() {
    var pair = Pair()
    pair.way = .near
    pair.begin(0)
    pair.deliver()
    pair.handle(1, .handshake(pair.names[0], forged, by: .aside))
    #expect(pair.counters(1)[.aside] == 1)
    #expect(pair.counters(1).answered == 1)
    pair.settle()
    let canTalk = pair.canTalk()
    #expect(canTalk)
    #expect(pair.counters(0).begun == 1)
  }

  @Test("A first message that comes aside does not replace the handshake that this side has begun with a neighbour")
  func ours() {
    var pair = Pair()
    pair.way = .near
    pair.begin(1)
    pair.handle(1, .handshake(pair.names[0], forged, by: .aside))
    #expect(pair.counters(1)[.aside] == 1)
    #expect(pair.counters(1).answered == 0)
    pair.settle()
    let canTalk = pair.canTalk()
    #expect(canTalk)
    #expect(pair.counters(1).begun == 1)
  }

  @Test("Two neighbours that both begin, and hear each other aside alone, have a session with their second attempt")
  func heardAside() {
    var pair = Pair()
    pair.way = .aside
    pair.begin(0)
    pair.begin(1)
    pair.settle()
    #expect(pair.counters(0)[.collision] == 1)
    #expect(pair.counters(1)[.aside] == 1)
    pair.run(for: .seconds(10))
    let canTalk = pair.canTalk()
    #expect(canTalk)
    // The smaller identity stays the initiator.
    #expect(pair.counters(0).answered == 0)
    #expect(pair.counters(1).answered == 1)
    #expect(pair.failures == [[], []])
  }

  @Test(
    "A peer that begins again near, or far because its link is gone, is answered at once",
    arguments: [HandshakeWay.near, .far])
  func again(way: HandshakeWay) {
    var pair = Pair()
    pair.way = .near
    pair.begin(0)
    pair.deliver()
    pair.air = []
    pair.restart(0)
    pair.way = way
    pair.begin(0)
    pair.settle()
    let canTalk = pair.canTalk()
    #expect(canTalk)
    #expect(pair.counters(1).answered == 2)
  }

  @Test(
    "A handshake that came aside or far keeps out no first message, whichever way that comes",
    arguments: [HandshakeWay.aside, .far], [HandshakeWay.near, .aside, .far])
  func givesWay(first: HandshakeWay, second: HandshakeWay) {
    var pair = Pair()
    pair.handle(1, .handshake(pair.names[0], forged, by: first))
    pair.air = []
    pair.way = second
    pair.begin(0)
    pair.settle()
    let canTalk = pair.canTalk()
    #expect(canTalk)
    #expect(pair.counters(1)[.aside] == 0)
  }

  @Test("Forged first messages from afar end neither this side's handshake nor the peer's", arguments: [0, 1])
  func forgedFromAfar(side: Int) {
    var pair = Pair()
    pair.begin(side)
    // Side 1 waits for the third message, or for the second one to its own first.
    if side == 0 { pair.deliver() }
    for number in UInt64(1)...7 {
      var random = SeededRandom(seed: number)
      let forged = X25519.PrivateKey(randomFrom: &random).publicKey.bytes
      pair.handle(1, .handshake(pair.names[0], forged))
    }
    // What answers the forged ones goes to whoever forged them.
    pair.air.removeLast(7)
    pair.settle()
    #expect(pair.counters(1)[.outOfTurn] == 0 && pair.counters(1).established == 1)
    #expect(pair.counters(0).begun + pair.counters(1).begun == 1)
    let canTalk = pair.canTalk()
    #expect(canTalk)
    #expect(pair.record(1)?.handshakes.isEmpty == true)
  }

  @Test(
    "Forged first messages without end, to both sides and from before on, keep nobody from a session",
    arguments: [0, 1])
  func lastingFlood(side: Int) {
    var pair = Pair()
    var random = SeededRandom(seed: 77)
    for turn in 0..<8 {
      for victim in 0...1 {
        let first = X25519.PrivateKey(randomFrom: &random).publicKey.bytes
        pair.handle(victim, .handshake(pair.names[1 - victim], first))
      }
      // What answers them goes to whoever forged them.
      pair.air = []
      if turn == 0 { pair.begin(side) }
      pair.run(for: .seconds(15))
      for engine in pair.engines { #expect(engine.deadline.map { $0 > pair.now } ?? true, "nothing is overdue") }
    }
    let canTalk = pair.canTalk()
    #expect(canTalk)
    #expect(pair.failures == [[], []])
  }

  @Test("Each of several handshakes ends when its own time is over")
  func ownTimes() {
    var pair = Pair()
    var random = SeededRandom(seed: 80)
    for pause in [10, 5, 5, 10, 5] {
      pair.handle(1, .handshake(pair.names[0], X25519.PrivateKey(randomFrom: &random).publicKey.bytes))
      pair.air = []
      pair.now = pair.now.advanced(by: .seconds(pause))
      pair.handle(1, .timer)
    }
    // Begun after 0, 10, 15, 20 and 30 s; it is 35 s.
    #expect(pair.record(1)?.handshakes.count == 2 && pair.counters(1).timedOut == 3)
    #expect(pair.engines[1].deadline == Instant.zero.advanced(by: .seconds(40)))
  }

  @Test("What is asked for beside a forged handshake is tried, though others push that one out")
  func wantedBesideMany() {
    var pair = Pair { $0.handshakes = 2 }
    var random = SeededRandom(seed: 79)
    func forge() { pair.handle(1, .handshake(pair.names[0], X25519.PrivateKey(randomFrom: &random).publicKey.bytes)) }
    forge()
    pair.begin(1)
    for _ in 0..<2 { forge() }
    pair.air = []
    #expect(pair.counters(1).begun == 0)
    pair.run(for: .seconds(20))
    let canTalk = pair.canTalk()
    #expect(canTalk && pair.counters(1).begun == 1)
  }

  @Test("A session that has lost its keys on one side is mended beside forged first messages without end")
  func mendedBesideFlood() {
    var pair = Pair.proven()
    pair.restart(0)
    var random = SeededRandom(seed: 78)
    for _ in 0..<16 {
      let first = X25519.PrivateKey(randomFrom: &random).publicKey.bytes
      pair.handle(0, .handshake(pair.names[1], first))
      pair.air = []
      pair.say([1], from: 1)
      pair.run(for: .seconds(10))
    }
    let canTalk = pair.canTalk()
    #expect(canTalk)
  }

  @Test("Of more handshakes with one peer than there may be, the oldest that this side has not begun ends")
  func manyForged() {
    var pair = Pair { $0.handshakes = 3 }
    pair.begin(1)
    pair.handle(1, .handshake(pair.names[0], forged))
    for number in UInt64(1)...3 {
      var random = SeededRandom(seed: number)
      pair.handle(1, .handshake(pair.names[0], X25519.PrivateKey(randomFrom: &random).publicKey.bytes))
    }
    let halves = pair.record(1)?.handshakes ?? []
    #expect(halves.map(\.isInitiator) == [true, false, false])
    #expect(pair.counters(1).answered == 4 && pair.engines[1].halfOpen == 1)
    pair.air.removeLast(4)
    pair.settle()
    let canTalk = pair.canTalk()
    #expect(canTalk)
  }

  @Test("What came early for a handshake is opened when that is complete, though a forged first message came meanwhile")
  func earlyBesideForged() {
    var pair = Pair()
    pair.begin(0)
    pair.deliver()
    pair.deliver()
    // Side 0 has the session; its third message is late.
    let third = pair.air.removeFirst()
    pair.say([5], from: 0)
    let sealed = pair.air[0].bytes
    pair.settle()
    pair.handle(1, .handshake(pair.names[0], forged))
    #expect(pair.record(1)?.early == [sealed], "it is held once")
    pair.air = [third]
    pair.settle()
    #expect(pair.heard[1] == [[5]])
    #expect(pair.counters(1)[.undecryptable] == 0)
  }

  @Test("A handshake that another one came after ends when its own time is over")
  func olderEnds() {
    var pair = Pair()
    pair.begin(1)
    let ours = pair.air
    pair.pass(.seconds(9))
    pair.handle(1, .handshake(pair.names[0], forged))
    pair.air = ours
    pair.deliver()
    pair.pass(.seconds(1))
    pair.settle()
    #expect(pair.counters(1)[.outOfTurn] == 1 && pair.counters(1).established == 0)
  }

  @Test(
    "However many bad messages come another way, those that come over the peer's own link are looked at",
    arguments: [96, 64], [HandshakeWay.aside, .far])
  func badMessages(count: Int, way: HandshakeWay) {
    var pair = Pair()
    pair.way = .near
    pair.begin(0)
    // Side 0 waits for the second message, of 96 bytes, or side 1 for the third.
    let side = count == 96 ? 0 : 1
    if side == 1 { pair.deliver() }
    let bad = [UInt8](repeating: 9, count: count)
    for _ in 0..<17 { pair.handle(side, .handshake(pair.names[1 - side], bad, by: way)) }
    #expect(pair.counters(side)[.badHandshake] == 16)
    #expect(pair.counters(side)[.tooManyBad] == 1)
    pair.settle()
    let canTalk = pair.canTalk()
    #expect(canTalk)
  }
}
