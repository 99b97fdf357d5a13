import Common
import Glibc
import Loop
import Testing

/// Setting the machine's clock needs root and disturbs other programs, so the users of the clock test its effects
/// with a stand-in.
@Suite("The wall clock")
struct WallClockTests {
  @Test("The wall clock gives the date, and reports no change if the system time was not set")
  func date() async {
    await onLoop {
      let clock = SystemWallClock()
      let notes = Notes()
      let watch = clock.onSet { notes.lines.append("set") }
      let before = Int64(time(nil))
      let shown = clock.seconds
      // `time()` has a coarse clock, and may return the previous second.
      #expect((before...Int64(time(nil)) + 1).contains(shown))
      var last: Registration?
      await called { done in last = EventLoop.shared.schedule(after: .milliseconds(20), done) }
      #expect(notes.lines.isEmpty)
      watch.cancel()
      withExtendedLifetime(last) {}
    }
  }
}
