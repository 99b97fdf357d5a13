import Loop
import TestSupport
import Testing

@testable import DBus

struct PendingCallsTests {
  init() { EventLoop.shared.runInBackground() }

  /// Destinations of calls, senders of replies, and whether the reply is accepted.
  static let answers: [(destination: String, sender: String, isTaken: Bool)] = [
    (":1.5", ":1.5", true),
    (":1.5", ":1.6", false),
    (":1.5", "org.freedesktop.DBus", true),
    ("org.example.A", ":1.6", true),
    ("org.freedesktop.DBus", ":1.6", false),
    ("org.freedesktop.DBus", "org.freedesktop.DBus", true),
  ]

  @Test("An answer to a D-Bus call is accepted only from the called program and from the bus", arguments: answers)
  @LoopActor
  func forgedAnswers(_ destination: String, _ sender: String, _ isTaken: Bool) {
    let pending = PendingCalls(EventLoop.shared)
    var results = 0
    pending.add(.call(destination, "/", "a.b", "M"), serial: 7, timeout: .seconds(60)) { _ in results += 1 }
    var answer = Message.reply(to: 8, at: nil, [])
    answer.sender = sender
    pending.complete(answer)
    #expect(results == 0, "another serial")
    answer.replySerial = 7
    pending.complete(answer)
    #expect(results == (isTaken ? 1 : 0))
    pending.failAll(.disconnected("over"))
    #expect(results == 1 && pending.count == 0)
  }
}
