import Common
import Testing

@testable import BlueZ

@Suite("No more signals wait for bluetoothd than it is known to have room for")
struct SignalWindowTests {
  private static func full() -> SignalWindow {
    var window = SignalWindow()
    while window.hasRoom { window.send() }
    return window
  }

  @Test("Sixteen signals are sent, and the next ones when bluetoothd has answered for them")
  func limit() {
    var window = Self.full()
    #expect(window.unhandled == 16)
    #expect(window.ask() == true)
    #expect(window.ask() == false)
    #expect(window.answered() == [])
    #expect(window.unhandled == 0 && window.hasRoom)
    #expect(window.ask() == false)
  }

  @Test("What is sent after the question is not answered for by it")
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

  @Test("Links that found no room are told once, in their order; those that are gone are not")
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

  @Test("A question without an answer makes no room, and is asked again")
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
