import Air
import Common
import Hall
import LocalSockets
import Loop
import TestSupport
import Testing

@testable import Checking

@Suite("The connection to the credential checker")
struct SocketCheckerTests {
  init() { EventLoop.shared.runInBackground() }

  /// Has one credential checked by a stand-in; nil if no verdict came within a minute.
  @LoopActor
  private static func check(
    _ steps: [StandInChecker.Step], credential: [UInt8] = [0x78], isThere: Bool = true
  ) -> (verdict: CheckVerdict?, seconds: Double, connections: Int) {
    let time = VirtualTime()
    let standIn = StandInChecker(time) { _ in steps }
    standIn.isThere = isThere
    let checker = SocketChecker(path: "/run/checker", connector: standIn, scheduler: time)
    var verdicts: [CheckVerdict] = []
    var end = time.now
    let check = checker.check(credential) {
      verdicts.append($0)
      end = time.now
    }
    #expect(verdicts.isEmpty, "the verdict came within the call")
    time.advance(by: .seconds(60))
    check.cancel()
    #expect(verdicts.count <= 1 && standIn.open == 0)
    return (verdicts.first, Double(end.nanoseconds) / 1e9, standIn.requests.count)
  }

  private static let valid = Array((StandInChecker.verdict("valid") + "\n").utf8)

  @Test("A checker's reply is complete at the end of its stream, in whatever pieces it arrives")
  func pieces() async {
    await LoopActor.run {
      let whole = Self.check([.send(Self.valid), .end])
      #expect(whole.verdict?.word == .valid)
      let bytes = Self.check(Self.valid.map { .send([$0]) } + [.end])
      #expect(bytes.verdict == whole.verdict)
      // A verdict counts only at the end of the stream, because a second verdict could follow.
      let open = Self.check([.send(Self.valid)])
      #expect(open.verdict?.failure == .timedOut(after: .seconds(12)))
    }
  }

  @Test("A checker that hangs before or during its reply is given up after 12 s", arguments: [0, 40])
  func hangs(sent: Int) async {
    await LoopActor.run {
      let steps: [StandInChecker.Step] = sent > 0 ? [.send(Array(Self.valid.prefix(sent)))] : []
      let result = Self.check(steps)
      #expect(result.verdict?.word == .undecided && result.verdict?.reasons.map(\.code) == ["checkerTimedOut"])
      #expect((12.0...12.1).contains(result.seconds))
    }
  }

  @Test("A configured time limit of 30 s for the checker applies, and the reason names the limit")
  func timeout() async {
    await LoopActor.run {
      let time = VirtualTime()
      let standIn = StandInChecker(time) { _ in [] }
      let checker = SocketChecker(
        path: "/run/checker", connector: standIn, scheduler: time, timeout: .seconds(30))
      var verdict: CheckVerdict?
      let check = checker.check([0x78]) { verdict = $0 }
      time.advance(by: .milliseconds(29_900))
      #expect(verdict == nil)
      time.advance(by: .milliseconds(200))
      #expect(verdict?.reasons.map(\.sentence) == ["The checker gave no verdict within 30 s."])
      check.cancel()
    }
  }

  @Test("A checker that sends without end is given up at the size limit of the reply")
  func endless() async {
    await LoopActor.run {
      let result = Self.check(Array(repeating: .send([UInt8](repeating: 0x20, count: 10_000)), count: 1000))
      #expect(result.verdict?.reasons.map(\.code) == ["checkerReply"] && result.seconds < 1)
    }
  }

  @Test("A checker that closes the connection during its reply counts as failed")
  func dies() async {
    await LoopActor.run {
      let result = Self.check([.send(Array(Self.valid.prefix(100))), .end])
      #expect(result.verdict?.failure == .failed && result.connections == 1)
    }
  }

  @Test("A check is repeated up to 3 times if the checker closes the connection at once or is busy")
  func busy() async {
    await LoopActor.run {
      for steps in [[StandInChecker.Step.end], [.fail(.busy)]] {
        let result = Self.check(steps)
        #expect(result.verdict?.failure == .failed && result.connections == 4)
      }
      let late = Self.check([.wait(.seconds(2)), .end])
      #expect(late.verdict?.failure == .failed && late.connections == 1)
    }
  }

  @Test("A checker that is missing or not accessible leaves a credential undecided, with advice")
  func missing() async {
    await LoopActor.run {
      let missing = Self.check([], isThere: false)
      #expect(missing.verdict?.word == .undecided && missing.verdict?.reasons.map(\.code) == ["checkerMissing"])
      #expect(missing.verdict?.reasons.first?.sentence.contains("systemctl start earshot-check.socket") == true)
      let denied = Self.check([.fail(.denied)])
      #expect(denied.verdict?.reasons.first?.sentence.contains("group earshot") == true)
    }
  }

  @Test("Of a credential above 4 MiB only 4 MiB and one byte are sent to the checker")
  func large() async {
    await LoopActor.run {
      let time = VirtualTime()
      let standIn = StandInChecker(time) { _ in [.end] }
      let checker = SocketChecker(path: "/run/checker", connector: standIn, scheduler: time)
      let check = checker.check([UInt8](repeating: 0x78, count: 5 << 20)) { _ in }
      #expect(standIn.requests.first?.count == 4 << 20 | 1)
      check.cancel()
    }
  }

  @Test("A cancelled check closes its connection and gives no verdict")
  func cancelled() async {
    await LoopActor.run {
      let time = VirtualTime()
      let standIn = StandInChecker(time) { _ in [.send(Self.valid), .end] }
      let checker = SocketChecker(path: "/run/checker", connector: standIn, scheduler: time)
      var count = 0
      let check = checker.check([0x78]) { _ in count += 1 }
      time.advance(by: .milliseconds(100))
      check.cancel()
      #expect(standIn.open == 0)
      time.advance(by: .seconds(60))
      #expect(count == 0)
    }
  }

  @Test(
    "Two checks run at a time, in order; a removed check frees its slot, and erased credentials are skipped"
  )
  func queue() async {
    await LoopActor.run {
      let time = VirtualTime()
      let standIn = StandInChecker(time) { _ in [.send(Self.valid), .end] }
      let queue = CheckQueue(SocketChecker(path: "/run/checker", connector: standIn, scheduler: time))
      var done: [Int] = []
      for number in 1...6 {
        queue.add(number, credential: { number == 4 ? nil : [UInt8(number)] }, then: { _ in done.append(number) })
        queue.add(number, credential: { [UInt8(number)] }, then: { _ in done.append(-number) })
      }
      #expect(queue.count == (2, 4))
      queue.remove(1)
      queue.remove(6)
      #expect(queue.count == (2, 2))
      time.advance(by: .seconds(5))
      #expect(done == [2, 3, 5] && standIn.mostOpen == 2 && queue.count == (0, 0))
      #expect(standIn.requests == [[1], [2], [3], [5]])
    }
  }
}
