import Common
import Testing

@testable import Bitchat
@testable import BitchatWire

/// Messages from before the clock was set, as on a machine without a battery-backed clock.
@Suite("Messages written before the clock was trusted")
struct UndatedTests {
  private static let day: Int64 = 24 * 3600 * 1000

  /// Two nodes that know each other. Then the first one's clock is no longer trusted, and behind by this number of
  /// days.
  private static func hall(behind days: Int64) -> MeshHall {
    var hall = FileTests.line(2)
    hall.nodes[0].clockError = -days * day
    hall.handle(.clock(isTrusted: false), at: 0)
    hall.handle(.clockSet, at: 0)
    return hall
  }

  @Test(
    "A message written before the clock was trusted is sent afterwards, with the corrected time", arguments: [2, 40])
  func delivered(days: Int64) throws {
    var hall = Self.hall(behind: days)
    let told = hall.time
    try hall.tell("early", to: 1, as: 3, at: 0)
    hall.pass(.seconds(30))
    #expect(hall.nodes[0].progress[3] == nil && hall.nodes[0].dates.isEmpty)
    hall.nodes[0].clockError = 0
    hall.handle(.clockSet, at: 0)
    hall.handle(.clock(isTrusted: true), at: 0)
    #expect(hall.nodes[0].dates[3] == told)
    let kept = hall.nodes[0].kept.compactMap { if case .outgoing(let message) = $0 { message.createdAt } else { nil } }
    #expect(kept.last == told)
    hall.pass(.seconds(10))
    #expect(hall.nodes[0].progress[3] == [.sent, .delivered] && hall.nodes[1].told.map(\.text) == ["early"])
    // A second report that the clock is trusted changes nothing.
    hall.nodes[0].dates = [:]
    hall.handle(.clock(isTrusted: true), at: 0)
    #expect(hall.nodes[0].dates.isEmpty)
  }

  @Test(
    "A message written before the clock was trusted survives a restart, and is sent afterwards", arguments: [2, 40])
  func restarted(days: Int64) throws {
    var hall = Self.hall(behind: days)
    try hall.tell("early", to: 1, as: 3, at: 0)
    hall.pass(.seconds(30))
    hall.nodes[0].clockError = 0
    let restarted = hall.time
    hall.restart(0)
    #expect(hall.nodes[0].dates[3] == restarted)
    // The message is dated from then on, and keeps its date after the next restart.
    let kept = hall.nodes[0].kept.compactMap { if case .outgoing(let message) = $0 { message } else { nil } }.last
    #expect(kept?.isDated == true && kept?.createdAt == restarted)
    hall.connect(0, 1)
    hall.pass(.seconds(20))
    #expect(hall.nodes[0].progress[3] == [.sent, .delivered] && hall.nodes[1].told.map(\.text) == ["early"])
  }

  @Test("A message delivered with the time that neighbours confirmed is dated, and no longer stored as undated")
  func delivered() throws {
    var hall = MeshHall()
    hall.add(["ann", "bob", "cem"])
    for place in [1, 2] { hall.connect(0, place) }
    hall.pass(.seconds(20))
    hall.handle(.clock(isTrusted: false), at: 0)
    hall.pass(.seconds(20))
    try hall.tell("early", to: 1, as: 3, at: 0)
    hall.pass(.seconds(10))
    #expect(hall.nodes[0].progress[3] == [.sent, .delivered], "two neighbours agree")
    let before = hall.nodes[0].kept.count
    hall.handle(.clock(isTrusted: true), at: 0)
    #expect(hall.nodes[0].dates.keys.contains(3))
    let again = hall.nodes[0].kept.dropFirst(before).contains { if case .outgoing = $0 { true } else { false } }
    #expect(!again)
  }

  @Test("An undated message fails after 24 h of the monotonic clock, and a dated one by the wall clock")
  func givenUp() throws {
    var hall = Self.hall(behind: 2)
    hall.disconnect(hall.links(0, 1)[0])
    try hall.tell("early", to: 1, as: 3, at: 0)
    hall.pass(.seconds(23 * 3600))
    hall.nodes[0].clockError = 0
    hall.handle(.clock(isTrusted: true), at: 0)
    try hall.tell("late", to: 1, as: 4, at: 0)
    hall.pass(.seconds(1800))
    #expect(hall.nodes[0].progress[3] == nil)
    hall.pass(.seconds(3600))
    #expect(hall.nodes[0].progress[3] == [.failed] && hall.nodes[0].progress[4] == nil)
    hall.pass(.seconds(23 * 3600 + 1800))
    #expect(hall.nodes[0].progress[4] == [.failed])
  }
}
