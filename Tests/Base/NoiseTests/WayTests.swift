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
