import Common
import Loop
import Testing

@testable import Air

@Suite struct VirtualTimeTests {
  @LoopActor
  private final class Notes {
    var lines: [String] = []
  }

  @Test("Virtual-time events run in the order of their times, and events of equal time in the order of scheduling")
  func order() async {
    await onLoop {
      let time = VirtualTime()
      let notes = Notes()
      var kept: [Registration] = []
      for (name, at) in [("c", 2), ("a", 1), ("d", 2), ("b", 1), ("e", 2)] {
        kept.append(
          time.schedule(at: Instant(nanoseconds: Int64(at))) { notes.lines.append("\(name)\(time.now.nanoseconds)") })
      }
      #expect(notes.lines.isEmpty)
      #expect(time.runUntilIdle(limit: .seconds(1)))
      #expect(notes.lines == ["a1", "b1", "c2", "d2", "e2"])
      #expect(time.now == Instant(nanoseconds: 2))
      #expect(!time.runNext())
    }
  }

  @Test("`soon` runs its closure at the present virtual time after events that are due, never inside the call")
  func soon() async {
    await onLoop {
      let time = VirtualTime()
      let notes = Notes()
      let due = time.schedule(at: .zero) { notes.lines.append("due") }
      let later = time.schedule(after: .nanoseconds(1)) { notes.lines.append("later") }
      time.soon {
        notes.lines.append("soon")
        time.soon { notes.lines.append("soon again") }
      }
      #expect(notes.lines.isEmpty)
      time.advance(by: .zero)
      #expect(notes.lines == ["due", "soon", "soon again"])
      time.advance(by: .nanoseconds(1))
      #expect(notes.lines.last == "later")
      withExtendedLifetime((due, later)) {}
    }
  }

  @Test("`advance` moves virtual time by exactly the requested duration")
  func advancing() async {
    await onLoop {
      let time = VirtualTime()
      let notes = Notes()
      let timer = time.schedule(after: .seconds(5)) { notes.lines.append("rang") }
      time.advance(by: .milliseconds(4999))
      #expect(notes.lines.isEmpty && time.now == Instant.zero.advanced(by: .milliseconds(4999)))
      time.advance(by: .milliseconds(1))
      #expect(notes.lines == ["rang"])
      time.advance(by: .seconds(-3))
      #expect(time.now == Instant.zero.advanced(by: .seconds(5)))
      timer.cancel()
    }
  }

  @Test("A virtual-time timer that was cancelled or dropped does not fire and does not advance time")
  func cancelling() async {
    await onLoop {
      let time = VirtualTime()
      let notes = Notes()
      var timer: Registration? = time.schedule(after: .seconds(5)) { notes.lines.append("rang") }
      let second = time.schedule(after: .seconds(6)) { notes.lines.append("rang") }
      timer = nil
      second.cancel()
      #expect(timer == nil && time.pending == 0)
      #expect(time.runUntilIdle(limit: .seconds(60)))
      #expect(notes.lines.isEmpty && time.now == .zero)
    }
  }

  @Test("Cancelling a virtual-time timer that has fired does not cancel a later timer")
  func staleCancelling() async {
    await onLoop {
      let time = VirtualTime()
      let notes = Notes()
      let first = time.schedule(after: .seconds(1)) { notes.lines.append("first") }
      time.advance(by: .seconds(1))
      let second = time.schedule(after: .seconds(1)) { notes.lines.append("second") }
      first.cancel()
      time.advance(by: .seconds(1))
      #expect(notes.lines == ["first", "second"])
      second.cancel()
    }
  }

  @Test("One million virtual-time timers, most of them cancelled, leave no pending events")
  func manyCancelled() async {
    await onLoop {
      let time = VirtualTime()
      let notes = Notes()
      var kept: [Registration] = []
      for number in 0..<1_000_000 {
        let timer = time.schedule(after: .nanoseconds((number &* 7919) % 1000)) { notes.lines.append("") }
        if number % 1000 == 0 { kept.append(timer) }
      }
      #expect(time.pending == 1000)
      time.runUntilIdle(limit: .seconds(1))
      #expect(notes.lines.count == 1000 && time.pending == 0)
      kept.removeAll()
    }
  }

  @Test("`run(until:)` stops at the event that makes its condition true, or at its time limit")
  func runUntil() async {
    await onLoop {
      let time = VirtualTime()
      let notes = Notes()
      let timers = (1...3).map { second in time.schedule(after: .seconds(second)) { notes.lines.append("\(second)") } }
      #expect(time.run(until: { notes.lines.count == 2 }, limit: .seconds(10)))
      #expect(time.now == Instant.zero.advanced(by: .seconds(2)))
      #expect(!time.run(until: { false }, limit: .seconds(10)))
      #expect(time.now == Instant.zero.advanced(by: .seconds(12)) && notes.lines.count == 3)
      #expect(time.run(until: { true }, limit: .zero))
      for timer in timers { timer.cancel() }
    }
  }

  @Test("In virtual time offloaded work runs at once, and its result arrives as an event at the same time")
  func offloading() async {
    await onLoop {
      let time = VirtualTime()
      let notes = Notes()
      time.offload({ 42 }, then: { notes.lines.append("\($0)") })
      #expect(notes.lines.isEmpty)
      #expect(time.runNext())
      #expect(notes.lines == ["42"] && time.now == .zero)
    }
  }

  @Test("`runUntilIdle` stops at its time limit even if events remain")
  func limit() async {
    await onLoop {
      let time = VirtualTime()
      let notes = Notes()
      @LoopActor func again() { time.enter(at: time.now.advanced(by: .seconds(1))) { again() } }
      again()
      #expect(!time.runUntilIdle(limit: .seconds(100)))
      #expect(time.now == Instant.zero.advanced(by: .seconds(100)) && notes.lines.isEmpty)
    }
  }
}
