import Air
import DBus
import Loop
import PBLEC
import TestSupport
import Testing

@testable import Broadcast

/// The properties, signals and methods that other programs see.
@Suite("The D-Bus interface of the local broadcast channel")
struct BroadcastAdaptorTests {
  init() { EventLoop.shared.runInBackground() }

  @LoopActor
  private static func interface() throws -> Interface {
    let time = VirtualTime()
    let radio = AirSpace(scheduler: time, seed: 1).addNode().tenant(time)
    return try #require(BroadcastService.objects(radio: radio, scheduler: time).first?.interface)
  }

  @Test("Peers of the broadcast channel are readable, and its methods callable, only for the group")
  @LoopActor
  func audience() throws {
    let interface = try Self.interface()
    let open = interface.properties.filter { $0.audience == .everybody }.map(\.name)
    #expect(open == ["State", "Reason", "Listening", "Counters"])
    #expect(interface.properties.map(\.name).contains("PeersNearby"))
    #expect(interface.properties.filter { $0.access == .readWrite }.map(\.name) == ["NotifyLimit"])
  }

  @Test("Methods of the broadcast channel have the documented types, and no signal has a text, word or address")
  @LoopActor
  func members() throws {
    let interface = try Self.interface()
    let methods = interface.methods.map { method in
      method.name + " " + method.in.map(\.signature).joined() + " " + method.out.map(\.signature).joined()
    }
    #expect(methods == ["Send s t", "Cancel t ", "Notify  ", "ListMessages tu a(ttssn)"])
    let signals = interface.signals.map { $0.name + " " + $0.arguments.map(\.name).joined(separator: " ") }
    #expect(
      signals == [
        "MessageReceived message", "MessageSent message", "MessageFailed message error sentence", "NotifyReceived ",
        "NotifySent ", "NotifyFailed error sentence",
      ])
  }

  @Test("Every error of the broadcast channel has a D-Bus error name")
  @LoopActor
  func errors() {
    let errors: [(BroadcastError, String)] = [
      (.empty, "InvalidArgs"), (.tooLong(bytes: 25), "InvalidArgs"), (.controlCharacters(bytes: 1), "InvalidArgs"),
      (.queueFull(seconds: 3), "LimitExceeded"), (.notifySpent(until: CalendarDay(1)), "LimitExceeded"),
      (.notifying(until: CalendarDay(1)), "LimitExceeded"), (.radioFailed("No."), "Timeout"),
      (.unknownMessage, "NotFound"), (.noPlace, "Timeout"),
      (.clockNotSet, "NotReady"), (.noRadio("Gone."), "NotReady"), (.cutShort, "Failed"), (.cancelled, "Failed"),
    ]
    for (error, name) in errors {
      #expect(DBusError(BroadcastService.Refusal.feed(error)).name == "org.earshot.Error.\(name)")
      #expect(error.sentence.hasSuffix("."))
    }
  }
}
