import Common
import Testing

@testable import Noise

@Suite("Repeated first handshake messages")
struct AgainTests {
  @Test("A node resends its first Noise message up to 3 times with the same key, and not after the peer's answer")
  func copies() {
    var pair = Pair()
    pair.lost = [1]
    pair.begin(0)
    #expect(pair.sent == 1)
    pair.handle(0, .again(pair.names[1]))
    #expect(pair.sent == 2 && pair.counters(0).begun == 1)
    pair.run(for: .seconds(1))
    #expect(pair.counters(0).established == 1 && pair.counters(1).established == 1)
    let sent = pair.sent
    pair.handle(0, .again(pair.names[1]))
    #expect(pair.sent == sent)
    var alone = Pair()
    alone.begin(0)
    for _ in 0..<10 { alone.handle(0, .again(alone.names[1])) }
    #expect(alone.sent == 4 && alone.counters(0).begun == 1)
    // Each attempt has its own count of copies.
    alone.pass(.seconds(10))
    alone.handle(0, .timer)
    alone.handle(0, .again(alone.names[1]))
    #expect(alone.counters(0).begun == 2 && alone.sent == 6)
  }

  @Test("A duplicate of the first Noise message is dropped, and the handshake completes")
  func repeated() {
    var pair = Pair()
    pair.begin(0)
    pair.handle(0, .again(pair.names[1]))
    pair.run(for: .seconds(1))
    #expect(pair.counters(1)[.repeated] == 1 && pair.counters(1).answered == 1)
    let canTalk = pair.canTalk()
    #expect(canTalk)
  }

  @Test("`ask` begins one Noise handshake, which is not repeated when it times out")
  func questions() {
    var pair = Pair()
    pair.forge(to: 0)
    pair.handle(0, .ask(pair.names[1]))
    #expect(pair.counters(0).begun == 1)
    for _ in 0..<6 {
      pair.pass(.seconds(10))
      pair.handle(0, .timer)
    }
    #expect(pair.counters(0).begun == 1)
    pair.handle(0, .ask(pair.names[0]))
    #expect(pair.counters(0).begun == 1)
  }

  @Test("A session that is requested just after a first message of the peer is begun by this side after 1 s")
  func courtesy() {
    for age in [0, 5] {
      var pair = Pair()
      pair.forge(to: 0)
      pair.pass(.seconds(age))
      pair.begin(0)
      #expect(pair.counters(0).begun == (age > 0 ? 1 : 0))
      pair.run(for: .seconds(1))
      let canTalk = pair.canTalk()
      #expect(canTalk && pair.counters(0).begun == 1)
    }
  }
}
