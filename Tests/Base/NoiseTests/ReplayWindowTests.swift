import Crypto
import Testing

@testable import Noise

@Suite("ReplayWindow")
struct ReplayWindowTests {
  @Test(
    "The replay window accepts and refuses the nonces of the recorded vectors as they state",
    arguments: AppVectors.shared.replayWindow.sequences)
  func vectors(_ sequence: AppVectors.Window.Sequence) {
    #expect(AppVectors.shared.replayWindow.size == ReplayWindow.size)
    var window = ReplayWindow()
    for (nonce, correct) in zip(sequence.nonces, sequence.correct) {
      let verdict = window.verdict(on: nonce)
      // The vectors do not define a jump of 2^31 or more: one of the two applications refuses it, and Earshot does
      // so, too.
      let isJump = nonce == 4_294_967_294
      #expect((verdict == .fresh) == (correct && !isJump))
      if isJump { #expect(verdict == .jump) }
      if verdict == .fresh { window.insert(nonce) }
    }
  }

  @Test(
    "A nonce 1,023 below the newest is accepted as fresh; one 1,024 below is too old", arguments: [1024, 5000, 5055])
  func edge(newest: UInt32) {
    var window = ReplayWindow()
    window.insert(newest)
    #expect(window.verdict(on: newest) == .replayed)
    #expect(window.verdict(on: newest - 1) == .fresh)
    #expect(window.verdict(on: newest - 1023) == .fresh)
    #expect(window.verdict(on: newest - 1024) == .tooOld)
    window.insert(newest - 1023)
    #expect(window.verdict(on: newest - 1023) == .replayed)
    window.insert(newest + 1)
    #expect(window.verdict(on: newest - 1023) == .tooOld)
    #expect(window.verdict(on: newest - 1022) == .fresh)
  }

  @Test("A nonce may exceed the newest by up to 2^31 - 1, and the nonce 2^32 - 1 is always refused")
  func jumps() {
    var window = ReplayWindow()
    #expect(window.verdict(on: 1 << 31) == .jump)
    #expect(window.verdict(on: 1 << 31 - 1) == .fresh)
    window.insert(10)
    #expect(window.verdict(on: 10 + 1 << 31) == .jump)
    #expect(window.verdict(on: 9 + 1 << 31) == .fresh)
    window.insert(9 + 1 << 31)
    #expect(window.verdict(on: .max - 1) == .fresh)
    #expect(window.verdict(on: .max) == .jump)
    window.insert(.max - 1)
    #expect(window.verdict(on: .max - 1) == .replayed)
    #expect(window.verdict(on: .max) == .jump)
  }

  @Test(
    "For 20,000 random nonces the replay window decides like a complete list of received nonces",
    arguments: [1, 2, 3, 4])
  func model(seed: UInt64) {
    var random = SeededRandom(seed: seed)
    var window = ReplayWindow()
    var seen: Set<UInt32> = []
    var highest: UInt32 = 0
    let spread = [40, 300, 1100, 3000][Int(seed) - 1]
    for step in 0..<20_000 {
      let offset = Int(random.next() % UInt64(spread)) - spread * 2 / 3
      let nonce = UInt32(max(0, Int(highest) + (step % 97 == 0 ? offset * 3 : offset)))
      let isOld = nonce < highest && highest - nonce >= 1024
      let expected: ReplayWindow.Verdict = isOld ? .tooOld : seen.contains(nonce) ? .replayed : .fresh
      let verdict = window.verdict(on: nonce)
      guard verdict == expected else {
        Issue.record("step \(step): \(nonce) after \(highest) is \(verdict), not \(expected)")
        return
      }
      if verdict == .fresh {
        window.insert(nonce)
        seen.insert(nonce)
        highest = max(highest, nonce)
      }
    }
  }
}
