import Testing

@testable import Noise

@Suite("Noise sessions whose table of handshakes is full of forged ones")
struct FloodedTableTests {
  @Test(
    "An early message stays stored while forged handshakes fill the table, and a new handshake begins when they end")
  func early() {
    var pair = Pair { $0.handshakes = 3 }
    pair.begin(0)
    pair.deliver()
    pair.deliver()
    // Side 0 has the session; its third message is lost.
    pair.air = []
    pair.say([5], from: 0)
    let sealed = pair.air[0].bytes
    pair.settle()
    for _ in 0..<4 { pair.forge(to: 1) }
    #expect(pair.record(1)?.early == [sealed], "it is held once")
    let begun = pair.counters(1).begun
    pair.run(for: .seconds(25))
    #expect(pair.counters(1).begun == begun + 1)
    let canTalk = pair.canTalk()
    #expect(canTalk)
  }
}
