import Common
import Testing

@testable import BlueZ

@Suite("Flow control of signals to bluetoothd")
struct SignalWindowTests {
  private static func full() -> SignalWindow {
    var window = SignalWindow()
    while window.hasRoom { window.send() }
    return window
  }

  @Test("At most 16 D-Bus signals are sent before bluetoothd has answered a ping")
  func limit() {
    var window = Self.full()
    #expect(window.unhandled == 16)
    #expect(window.ask() == true)
    #expect(window.ask() == false)
    #expect(window.answered() == [])
    #expect(window.unhandled == 0 && window.hasRoom)
    #expect(window.ask() == false)
  }

  @Test("An answer of bluetoothd does not confirm signals that were sent after its ping")
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

  @Test("Links whose value was refused are notified of capacity once and in order, except those that ended")
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

  @Test("A ping without an answer frees no capacity for signals, and is repeated")
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
