import Common
import Testing

@testable import Noise

@Suite("Renewal of Noise sessions")
struct RekeyTests {
  @Test("After 1 h the peer with the smaller identity renews the Noise session, and no message is lost")
  func age() {
    var pair = Pair.proven()
    pair.run(for: .milliseconds(3_599_999))
    #expect(pair.counters(0).rekeys == 0)
    pair.run(for: .milliseconds(1))
    #expect(pair.counters(0).rekeys == 1)
    #expect(pair.counters(1).rekeys == 0)
    #expect(pair.counters(1).replaced == 1)
    #expect(pair.hashes[0].count == 2)
    let canTalk = pair.canTalk()
    #expect(canTalk)
    #expect(pair.record(0)?.former == nil)
    pair.run(for: .seconds(3599))
    #expect(pair.counters(0).rekeys == 1)
    pair.run(for: .seconds(2))
    #expect(pair.counters(0).rekeys == 2)
  }

  @Test("After 10,000 messages a Noise session is renewed as soon as it has been idle for 5 s")
  func messages() {
    var pair = Pair.established()
    for number in 0..<9_999 {
      pair.say([1], from: number % 2)
      pair.settle()
    }
    pair.run(for: .seconds(10))
    #expect(pair.counters(0).rekeys == 0)
    pair.say([1], from: 1)
    pair.settle()
    pair.run(for: .milliseconds(4999))
    #expect(pair.counters(0).rekeys == 0)
    pair.run(for: .milliseconds(1))
    #expect(pair.counters(0).rekeys == 1)
    let canTalk = pair.canTalk()
    #expect(canTalk)
  }

  @Test("The renewal deadline of a session changes with each message and with changed limits")
  func deadline() {
    var pair = Pair.proven { $0.rekeyMessages = 4 }
    let hour = Instant.zero.advanced(by: .seconds(3600))
    #expect(pair.engines[0].deadline == hour)
    pair.now = pair.now.advanced(by: .seconds(60))
    pair.say([1], from: 0)
    #expect(pair.engines[0].deadline == hour)
    // The session's fourth message, and this side's first, uses up the limit.
    pair.say([1], from: 0)
    #expect(pair.engines[0].deadline == pair.now.advanced(by: .seconds(5)))
    var engine = pair.engines[0]
    engine.limits.rekeyIdle = .seconds(9)
    #expect(engine.deadline == pair.now.advanced(by: .seconds(9)))
  }

  @Test("A Noise session that is used at least every 5 s is not renewed", arguments: [0, 1])
  func busy(side: Int) {
    var pair = Pair.proven()
    for _ in 0..<1000 {
      pair.run(for: .milliseconds(4999))
      pair.say([1], from: side)
      pair.settle()
    }
    #expect(pair.counters(0).rekeys == 0)
    pair.run(for: .seconds(5))
    #expect(pair.counters(0).rekeys == 1)
  }

  @Test("A due renewal begins when the stalled handshake that delayed it times out")
  func late() throws {
    var pair = Pair.proven()
    pair.run(for: .seconds(3590))
    pair.handle(0, .handshake(pair.names[1], [9] + [UInt8](repeating: 0, count: 31)))
    pair.now = pair.now.advanced(by: .seconds(20))
    pair.handle(0, .timer)
    #expect(pair.counters(0).timedOut == 1)
    #expect(pair.counters(0).rekeys == 1)
    let due = try #require(pair.engines[0].deadline)
    #expect(due > pair.now)
    pair.settle()
    let canTalk = pair.canTalk()
    #expect(canTalk)
  }

  @Test("A failed renewal is repeated after at least 1 min, and only if the session was used meanwhile")
  func failed() {
    var pair = Pair.proven()
    pair.lost = Set(4...100)
    pair.run(for: .seconds(3600))
    #expect(pair.counters(0).rekeys == 1)
    pair.run(for: .seconds(600))
    // The other side, which waits two minutes longer, has also tried.
    #expect(pair.counters(0).rekeys == 1)
    #expect(pair.counters(1).rekeys == 1)
    #expect(pair.failures == [[], []])
    // The old keys stay in use.
    var canTalk = pair.canTalk()
    #expect(canTalk)
    pair.run(for: .milliseconds(4999))
    #expect(pair.counters(0).rekeys == 1)
    pair.run(for: .milliseconds(1))
    #expect(pair.counters(0).rekeys == 2)
    pair.pass(.seconds(1))
    canTalk = pair.canTalk()
    #expect(canTalk)
    pair.run(for: .milliseconds(58_999))
    #expect(pair.counters(0).rekeys == 2)
    pair.run(for: .milliseconds(1))
    #expect(pair.counters(0).rekeys == 3)
  }

  @Test("The peer with the larger identity renews a session 2 min later than the smaller, or never if so configured")
  func grace() {
    for isPatient in [false, true] {
      var pair = Pair.proven { $0.rekeyGrace = isPatient ? nil : .seconds(120) }
      pair.restartDeaf(0)
      pair.run(for: .milliseconds(3_719_999))
      #expect(pair.counters(1).rekeys == 0)
      pair.run(for: .milliseconds(1))
      #expect(pair.counters(1).rekeys == (isPatient ? 0 : 1))
    }
  }

  @Test("If the third message of a renewal is lost, the old keys stay usable until a new session is established")
  func thirdLost() {
    var pair = Pair.proven()
    pair.lost = [6]
    pair.run(for: .seconds(3600))
    #expect(pair.counters(0).established == 2)
    #expect(pair.counters(1).established == 1)
    // The larger side still has the old keys, which the smaller side opens.
    pair.say([3], from: 1)
    pair.settle()
    #expect(pair.heard[0] == [[3]])
    // The smaller side has the new keys: its message waits, and then begins a handshake.
    pair.say([4], from: 0)
    pair.run(for: .seconds(20))
    #expect(pair.counters(1).recoveries == 1)
    let canTalk = pair.canTalk()
    #expect(canTalk)
  }

  @Test("A session that has used up its nonces ends, and the next session begins with nonce 0")
  func exhausted() throws {
    var pair = Pair.proven()
    try pair.exhaust(0)
    #expect(throws: NoiseError.exhausted) { try pair.engines[0].sealing([1], for: pair.names[1]) }
    let wasSaid = pair.say([1], from: 0)
    #expect(!wasSaid)
    #expect(!pair.hasSession(0))
    pair.begin(0)
    pair.settle()
    let canTalk = pair.canTalk()
    #expect(canTalk)
  }
}
