import Common
import Testing

@testable import Noise

/// The sender of a first message is not authenticated. Side 1 has the larger identity.
@Suite("Forged first Noise messages")
struct ForgedFirstTests {
  @Test("Forged first Noise messages from other sources end no genuine handshake on either side", arguments: [0, 1])
  func forgedFromAfar(side: Int) {
    var pair = Pair()
    pair.begin(side)
    // Side 1 waits for the third message, or for the second message in answer to its own first.
    if side == 0 { pair.deliver() }
    for _ in 0..<7 { pair.forge(to: 1) }
    pair.settle()
    #expect(pair.counters(1)[.outOfTurn] == 0 && pair.counters(1).established == 1)
    #expect(pair.counters(0).begun + pair.counters(1).begun == 1)
    let canTalk = pair.canTalk()
    #expect(canTalk)
    #expect(pair.record(1)?.handshakes.isEmpty == true)
  }

  @Test("With too many handshakes of one peer, the oldest that the peer began is evicted")
  func manyForged() {
    var pair = Pair { ($0.handshakes, $0.firmTime) = (3, .zero) }
    pair.begin(1)
    for _ in 0..<4 { pair.forge(to: 1) }
    let halves = pair.record(1)?.handshakes ?? []
    #expect(halves.map(\.isInitiator) == [true, false, false])
    #expect(pair.counters(1).answered == 4 && pair.engines[1].halfOpen == 1)
    pair.settle()
    let canTalk = pair.canTalk()
    #expect(canTalk)
  }

  @Test("An early message is opened when its handshake completes, despite a forged first message")
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
    pair.forge(to: 1)
    #expect(pair.record(1)?.early == [sealed], "it is held once")
    pair.air = [third]
    pair.settle()
    #expect(pair.heard[1] == [[5]])
    #expect(pair.counters(1)[.undecryptable] == 0)
  }

  @Test("A Noise handshake still times out at its original deadline if another one begins meanwhile")
  func olderEnds() {
    var pair = Pair()
    pair.begin(1)
    let ours = pair.air
    pair.pass(.seconds(9))
    pair.forge(to: 1)
    pair.air = ours
    pair.deliver()
    pair.pass(.seconds(1))
    pair.settle()
    #expect(pair.counters(1)[.outOfTurn] == 1 && pair.counters(1).established == 0)
  }

  @Test(
    "A continuous flood of forged first messages to both sides does not prevent a Noise session",
    arguments: [0, 1])
  func lastingFlood(side: Int) {
    var pair = Pair()
    for turn in 0..<8 {
      for victim in 0...1 { pair.forge(to: victim) }
      if turn == 0 { pair.begin(side) }
      pair.run(for: .seconds(15))
      for engine in pair.engines { #expect(engine.deadline.map { $0 > pair.now } ?? true, "nothing is overdue") }
    }
    let canTalk = pair.canTalk()
    #expect(canTalk)
    #expect(pair.failures == [[], []])
  }

  @Test("A Noise session whose keys one side lost is renewed during a flood of forged first messages")
  func mendedBesideFlood() {
    var pair = Pair.proven()
    pair.restart(0)
    for _ in 0..<16 {
      pair.forge(to: 0)
      pair.say([1], from: 1)
      pair.run(for: .seconds(10))
    }
    let canTalk = pair.canTalk()
    #expect(canTalk)
  }

  @Test("Each of several half-open handshakes with one peer times out at its own deadline")
  func ownTimes() {
    var pair = Pair()
    for pause in [10, 5, 5, 10, 5] {
      pair.forge(to: 1)
      pair.pass(.seconds(pause))
      pair.handle(1, .timer)
    }
    // The handshakes began after 0, 10, 15, 20 and 30 s; now it is 35 s.
    #expect(pair.record(1)?.handshakes.count == 2 && pair.counters(1).timedOut == 3)
    #expect(pair.engines[1].deadline == Instant.zero.advanced(by: .seconds(40)))
  }

  @Test("A requested handshake begins after the forged handshakes that filled its peer's capacity have ended")
  func wantedBesideMany() {
    var pair = Pair { ($0.handshakes, $0.firmTime) = (2, .zero) }
    pair.forge(to: 1)
    pair.begin(1)
    for _ in 0..<2 { pair.forge(to: 1) }
    #expect(pair.counters(1).begun == 0)
    pair.run(for: .seconds(20))
    let canTalk = pair.canTalk()
    #expect(canTalk && pair.counters(1).begun == 1)
  }
}
