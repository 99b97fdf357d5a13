import Common
import Crypto
import Testing

@testable import Noise

/// An attacker sends messages in the name of one side to the other, from a source of its own or from the peer's source.
/// Side 1 has the larger identity, so it answers a first message of side 0 even if it has begun a handshake.
@Suite("Forged Noise messages in the name of a peer")
struct SourceTests {
  private static let other = MessageSource(9)

  @Test("A handshake completes without delay although another source forges first messages before and during it")
  func otherSource() {
    var pair = Pair()
    pair.forger = Self.other
    for _ in 0..<500 { pair.forge(to: 1) }
    pair.begin(0)
    pair.deliver()
    for _ in 0..<500 { pair.forge(to: 1) }
    pair.settle()
    let canTalk = pair.canTalk()
    #expect(canTalk)
    #expect(pair.counters(0).begun == 1)
    #expect(pair.counters(1)[.halfOpenLimit] > 0)
  }

  @Test("Forged first messages from the peer's own source do not end its handshake within three seconds")
  func sameSource() {
    var pair = Pair { $0.handshakesOfSource = 4 }
    pair.begin(0)
    pair.deliver()
    for _ in 0..<10 { pair.forge(to: 1) }
    #expect(pair.counters(1)[.halfOpenLimit] == 7)
    pair.settle()
    let canTalk = pair.canTalk()
    #expect(canTalk && pair.counters(0).begun == 1)
  }

  @Test("A first message evicts half-open handshakes of its own source only if they are three seconds old")
  func olderForged() {
    var pair = Pair { $0.handshakesOfSource = 4 }
    for _ in 0..<4 { pair.forge(to: 1) }
    pair.pass(.milliseconds(2_999))
    pair.forge(to: 1)
    #expect(pair.counters(1)[.halfOpenLimit] == 1)
    pair.pass(.milliseconds(1))
    pair.begin(0)
    pair.settle()
    let canTalk = pair.canTalk()
    #expect(canTalk && pair.counters(0).begun == 1)
  }

  @Test("Handshakes under many peer IDs from one source are evicted for those of another source, and for ours")
  func manyNames() {
    var engine = Pair { $0.halfOpen = 8 }.engines[1]
    var random = SeededRandom(seed: 5)
    func first(_ peer: UInt64, _ source: UInt64, at milliseconds: Int) -> [Engine.Action] {
      engine.handle(
        .handshake(peer, X25519.PrivateKey(randomFrom: &random).publicKey.bytes, from: MessageSource(source)),
        at: .zero.advanced(by: .milliseconds(milliseconds)))
    }
    for peer: UInt64 in 1...8 { #expect(first(peer, 1, at: 0).count == 1) }
    // Its own handshakes are evicted only after a second.
    #expect(first(9, 1, at: 999) == [])
    #expect(first(9, 1, at: 1000).count == 1)
    for peer: UInt64 in 11...13 { #expect(first(peer, 2, at: 1000).count == 1) }
    #expect(engine.handle(.begin(21), at: .zero.advanced(by: .seconds(1))).count == 1)
    #expect(engine.halfOpen == 8)
    #expect([11, 12, 13, 21].allSatisfy { engine.records[$0] != nil })
    #expect(engine.counters[.pushedOut] == 5)
  }

  @Test(
    "Invalid Noise handshake messages from another source do not prevent the peer's handshake", arguments: [96, 64])
  func badMessages(count: Int) {
    var pair = Pair()
    pair.begin(0)
    // Side 0 waits for the second message, of 96 bytes, or side 1 for the third.
    let side = count == 96 ? 0 : 1
    if side == 1 { pair.deliver() }
    let bad = [UInt8](repeating: 9, count: count)
    for _ in 0..<33 { pair.handle(side, .handshake(pair.names[1 - side], bad, from: Self.other)) }
    #expect(pair.counters(side)[.badHandshake] == 32)
    #expect(pair.counters(side)[.tooManyBad] == 1)
    pair.settle()
    let canTalk = pair.canTalk()
    #expect(canTalk)
  }

  @Test(
    "Sealed messages from another source do not use up the capacity for the peer's early messages")
  func early() {
    var pair = Pair()
    pair.begin(0)
    pair.deliver()
    pair.deliver()
    // Side 0 has the session; its third message is late.
    let third = pair.air.removeFirst()
    for number in 0..<100 as Range<UInt8> {
      pair.handle(1, .message(pair.names[0], [UInt8](repeating: number, count: 1000), from: Self.other))
    }
    pair.say([5], from: 0)
    pair.settle()
    #expect(pair.counters(1)[.earlyLimit] == 96)
    pair.air = [third]
    pair.settle()
    #expect(pair.heard[1] == [[5]])
  }

  @Test(
    "A peer that begins a new handshake is answered at once, from the same source or a different one",
    arguments: [1, 9] as [UInt64])
  func again(source: UInt64) {
    var pair = Pair()
    pair.begin(0)
    pair.deliver()
    pair.air = []
    pair.restart(0)
    pair.source = MessageSource(source)
    pair.begin(0)
    pair.settle()
    let canTalk = pair.canTalk()
    #expect(canTalk)
    #expect(pair.counters(1).answered == 2)
  }
}
