import Common
import Testing

@testable import BlueZ

@Suite("The window of signals to bluetoothd")
struct SignalWindowTests {
  private static func full() -> SignalWindow {
    var window = SignalWindow()
    while window.hasRoom { window.send() }
    return window
  }

  @Test("At most 16 signals are sent until bluetoothd has answered")
  func limit() {
    var window = Self.full()
    #expect(window.unhandled == 16)
    #expect(window.ask() == true)
    #expect(window.ask() == false)
    #expect(window.answered() == [])
    #expect(window.unhandled == 0 && window.hasRoom)
    #expect(window.ask() == false)
  }

  @Test("Signals sent after a ping are not covered by its answer")
  func late() {
    var window = SignalWindow()
    window.send()
    #expect(window.ask() == true)
    window.send()
    window.send()
    _ = window.answered()
    #expect(window.unhandled == 2)
    #expect(window.ask() == true)
    _ = window.answered()
    #expect(window.unhandled == 0)
  }

  @Test("Links that were refused a signal are notified once in order, except those that have ended")
  func waiting() {
    var window = Self.full()
    window.refuse([LinkID(2), LinkID(1)])
    window.refuse([LinkID(2), LinkID(3)])
    window.forget(LinkID(1))
    #expect(window.ask() == true)
    #expect(window.answered() == [LinkID(2), LinkID(3)])
    window.send()
    #expect(window.ask() == true)
    #expect(window.answered() == [])
  }

  @Test("An unanswered ping frees no signal, and is repeated")
  func silent() {
    var window = Self.full()
    #expect(window.ask() == true)
    window.unanswered()
    #expect(!window.hasRoom)
    #expect(window.ask() == true)
    _ = window.answered()
    #expect(window.hasRoom)
  }
}
