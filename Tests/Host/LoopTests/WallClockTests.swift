import Common
import Glibc
import Loop
import Testing

/// Setting the machine's clock needs root and disturbs other programs, so the users of the clock test its effects
/// with a stand-in.
@Suite("The wall clock")
struct WallClockTests {
  /// Seconds since 1970-01-01 UTC. `time` may be some milliseconds behind this clock.
  private static var seconds: Int64 {
    var time = timespec()
    clock_gettime(CLOCK_REALTIME, &time)
    return Int64(time.tv_sec)
  }

  @Test("The wall clock gives the date and reports no change while it is not set")
  func date() async {
    await onLoop {
      let clock = SystemWallClock()
      let notes = Notes()
      let watch = clock.onSet { notes.lines.append("set") }
      let before = Self.seconds
      let shown = clock.seconds
      #expect((before...Self.seconds).contains(shown))
      var last: Registration?
      await called { done in last = EventLoop.shared.schedule(after: .milliseconds(20), done) }
      #expect(notes.lines.isEmpty)
      watch.cancel()
      withExtendedLifetime(last) {}
    }
  }
}
