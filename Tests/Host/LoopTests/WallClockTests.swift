import Common
import Glibc
import Loop
import Testing

/// Setting the machine's clock needs root and disturbs everybody, so what happens then is tested with a stand-in, by those
/// who follow the clock.
@Suite("The clock on the wall")
struct WallClockTests {
  @Test("The wall clock tells the date, and does not say that it was set while nobody sets it")
  func date() async {
    await onLoop {
      let clock = SystemWallClock()
      let notes = Notes()
      let watch = clock.onSet { notes.lines.append("set") }
      let before = Int64(time(nil))
      let shown = clock.seconds
      #expect((before...Int64(time(nil))).contains(shown))
      var last: Registration?
      await called { done in last = EventLoop.shared.schedule(after: .milliseconds(20), done) }
      #expect(notes.lines.isEmpty)
      watch.cancel()
      withExtendedLifetime(last) {}
    }
  }
}
