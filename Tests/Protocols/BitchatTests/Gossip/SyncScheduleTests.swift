import Common
import Crypto
import Testing

@testable import Bitchat
@testable import BitchatWire

@Suite("When a node sends and answers sync requests")
struct SyncScheduleTests {
  private func moment(_ milliseconds: Int) -> Instant { .zero.advanced(by: .milliseconds(milliseconds)) }

  @Test(
    "A neighbour gets a sync request 1 s after its announce, then every 12 to 18 s, every other for fragments")
  func period() throws {
    var random = SeededRandom(seed: 3)
    var schedule = SyncSchedule()
    schedule.begin(LinkID(1), at: moment(0))
    // Further announces on the link do not change the schedule.
    schedule.begin(LinkID(1), at: moment(500))
    #expect(schedule.deadline == moment(1000))
    let early = schedule.takeDue(&random, at: moment(999))
    #expect(early.isEmpty)
    var last = moment(1000)
    for round in 0..<50 {
      let due = schedule.takeDue(&random, at: last)
      #expect(due.map(\.link) == [LinkID(1)])
      #expect(due.first?.types.contains(.fragment) == round.isMultiple(of: 2))
      let next = try #require(schedule.deadline)
      let pause = last.duration(to: next)
      #expect(pause >= .seconds(12) && pause <= .seconds(18))
      last = next
    }
  }

  @Test("A neighbour gets at most 8 sync answers in 30 s, and a link without an announced peer gets none")
  func answers() {
    var schedule = SyncSchedule()
    schedule.begin(LinkID(1), at: moment(0))
    let answered = (0..<20).count { _ in schedule.takeAnswer(on: LinkID(1), at: moment(0)) }
    #expect(answered == 8)
    let later = (0..<20).count { _ in schedule.takeAnswer(on: LinkID(1), at: moment(30_000)) }
    #expect(later == 8)
    let stranger = schedule.takeAnswer(on: LinkID(2), at: moment(0))
    #expect(!stranger)
  }

  @Test("Sync answers are accepted for 30 s after a request, and only on the link of the request")
  func awaited() {
    var random = SeededRandom(seed: 3)
    var schedule = SyncSchedule()
    schedule.begin(LinkID(1), at: moment(0))
    #expect(!schedule.awaitsAnswer(on: LinkID(1), at: moment(500)))
    _ = schedule.takeDue(&random, at: moment(1000))
    #expect(schedule.awaitsAnswer(on: LinkID(1), at: moment(31_000)))
    #expect(!schedule.awaitsAnswer(on: LinkID(1), at: moment(31_001)))
    #expect(!schedule.awaitsAnswer(on: LinkID(2), at: moment(1000)))
    schedule.end(LinkID(1))
    #expect(!schedule.awaitsAnswer(on: LinkID(1), at: moment(1000)))
    #expect(schedule.deadline == nil)
  }
}
