import Bytes
import Common
import Testing

@testable import PBLEC

@Suite("Notification beacons: at most one a day is sent, and two a day are reported")
struct NotifyTests {
  private let beacons = (1...9).map { NotifyBeacon(major: UInt16($0), minor: 7) }
  private let unset = CalendarTime(milliseconds: 5_000_000, day: CalendarDay(0))

  private func told(_ stand: inout FeedStand, _ numbers: Int...) -> [Bool] {
    numbers.map { stand.hear(beacons[$0]) }
  }

  /// Creates the engine of the next run from the last stored record.
  private func restarted(_ stand: FeedStand) throws -> FeedStand {
    let kept = stand.actions.compactMap { if case .keep(let ledger) = $0 { ledger } else { nil } }.last
    // The monotonic times of two runs are unrelated.
    var next = FeedStand(ledger: try NotificationRecord(reading: try #require(kept).bytes), seed: 5, at: .zero)
    next.time = stand.time
    return next
  }

  private func refusal(_ stand: inout FeedStand) -> BroadcastError? {
    do throws(BroadcastError) {
      try stand.notify()
      stand.handle(.beaconBegan)
      stand.handle(.beaconEnded)
      return nil
    } catch { return error }
  }

  @Test("Two beacons a day are reported, repetitions do not count, and a third is dropped")
  func cap() {
    var stand = FeedStand()
    let all = told(&stand, 0, 0, 1, 1, 0, 2)
    #expect(all == [true, false, true, false, false, false])
    #expect(stand.engine.counters[.repeatedBeacon] == 3 && stand.engine.counters[.tooManyBeacons] == 1)
    #expect(stand.engine.notificationsLeft(at: stand.now, time: stand.time) == 0)
  }

  @Test("A beacon is identified by its major and minor numbers together")
  func pairs() {
    var stand = FeedStand()
    stand.actions += stand.engine.setNotifyLimit(9)
    let pairs: [(UInt16, UInt16)] = [(1, 2), (2, 1), (1, 1), (2, 2)]
    for (major, minor) in pairs {
      let first = stand.hear(NotifyBeacon(major: major, minor: minor), from: 1)
      let second = stand.hear(NotifyBeacon(major: major, minor: minor, power: 0), from: 2)
      #expect(first && !second)
    }
  }

  @Test("Beacons are reported up to the day's limit, which may be 0")
  func limits() {
    for limit in [0, 1, 5] {
      var stand = FeedStand()
      stand.actions += stand.engine.setNotifyLimit(limit)
      var count = 0
      for beacon in beacons where stand.hear(beacon) { count += 1 }
      #expect(count == limit)
    }
    var stand = FeedStand()
    _ = told(&stand, 0, 1, 2)
    stand.actions += stand.engine.setNotifyLimit(3)
    // The beacon was dropped without a report, so it can still be reported now that the limit is higher.
    let later = told(&stand, 0, 2, 3)
    #expect(later == [false, true, false])
    stand.actions += stand.engine.setNotifyLimit(1000)
    #expect(stand.engine.notifyLimit == Limits.mostNotifications)
    stand.actions += stand.engine.setNotifyLimit(-1)
    #expect(stand.engine.notifyLimit == 0)
  }

  @Test("The next calendar day refills the budgets for sending and for reporting beacons")
  func nextDay() {
    var stand = FeedStand()
    _ = told(&stand, 0, 1)
    let first = refusal(&stand)
    let second = refusal(&stand)
    #expect(first == nil && second == .notifySpent(until: CalendarDay(20_522)))
    #expect(second?.sentence.contains("2026-03-10") == true)
    stand.time.day = CalendarDay(20_522)
    let third = refusal(&stand)
    let after = told(&stand, 0, 2, 3)
    #expect(third == nil && after == [true, true, false])
  }

  @Test("A restart refills neither beacon budget, and preserves the limit")
  func restart() throws {
    var stand = FeedStand()
    stand.actions += stand.engine.setNotifyLimit(3)
    _ = told(&stand, 0, 1)
    _ = refusal(&stand)
    var next = try restarted(stand)
    let sent = refusal(&next)
    let heard = told(&next, 0, 1, 2, 3)
    #expect(sent == .notifySpent(until: CalendarDay(20_522)))
    #expect(heard == [false, false, true, false])
  }

  @Test("A clock that is set back refills neither beacon budget, before or after a restart")
  func clockBack() throws {
    var stand = FeedStand()
    _ = told(&stand, 0, 1)
    _ = refusal(&stand)
    for day in [20_520, 20_000, 20_521] {
      stand.time.day = CalendarDay(day)
      let sent = refusal(&stand)
      let heard = told(&stand, 2)
      #expect(sent == .notifySpent(until: CalendarDay(20_522)) && heard == [false])
    }
    var next = try restarted(stand)
    next.time.day = CalendarDay(20_400)
    let sent = refusal(&next)
    let heard = told(&next, 2)
    #expect(sent != nil && heard == [false])
  }

  @Test("A clock that is set back on the next day refills neither beacon budget for 24 h")
  func clockBackNextDay() {
    var stand = FeedStand()
    _ = told(&stand, 0, 1)
    stand.pass(24 * 3600)
    stand.time.day = CalendarDay(20_522)
    let today = told(&stand, 2, 3)
    stand.pass(3600)
    stand.time.day = CalendarDay(20_521)
    let afterwards = told(&stand, 4)
    #expect(today == [true, true] && afterwards == [false])
  }

  @Test("A date in the far future no longer blocks the beacon budgets after 24 h of running time")
  func clockWasAhead() {
    var stand = FeedStand()
    stand.time.day = CalendarDay(29_000)
    _ = told(&stand, 0, 1)
    stand.time.day = CalendarDay(20_521)
    stand.pass(24 * 3600 - 1)
    let before = told(&stand, 2)
    stand.pass(1)
    let after = told(&stand, 2, 3, 4)
    #expect(before == [false] && after == [true, true, false])
  }

  @Test("The 24 h after a date in the far future are counted over the running times of several runs")
  func clockWasAheadOverRuns() throws {
    var stand = FeedStand()
    stand.time.day = CalendarDay(29_000)
    _ = told(&stand, 0, 1)
    stand.time.day = CalendarDay(20_521)
    for run in 1...3 {
      stand.pass(8 * 3600 - 1)
      let within = told(&stand, 2)
      #expect(within == [false], "run \(run)")
      stand.pass(1)
      stand.handle(.stop)
      stand = try restarted(stand)
    }
    let after = told(&stand, 2, 3, 4)
    #expect(after == [true, true, false])
  }

  @Test("With a clock before 2026 no beacon is sent, and one is reported, even across a restart")
  func unsetClock() throws {
    var stand = FeedStand()
    stand.time = unset
    let sent = refusal(&stand)
    let heard = told(&stand, 0, 1, 0)
    #expect(sent == .clockNotSet && heard == [true, false, false])
    #expect(stand.engine.notificationsLeft(at: stand.now, time: stand.time) == 0)
    var next = try restarted(stand)
    next.time.day = CalendarDay(1)
    let later = told(&next, 1, 2)
    #expect(later == [false, false])
    // After the clock is set, the budgets depend on the day again.
    next.time = FeedStand().time
    let today = told(&next, 2, 3, 4)
    let now = refusal(&next)
    #expect(today == [true, false, false] && now == nil)
  }

  @Test("A beacon reported before the clock was set counts for the day to which the clock is set")
  func unsetClockThenSet() throws {
    var stand = FeedStand()
    stand.time = unset
    let before = told(&stand, 0)
    stand.time = FeedStand().time
    let today = told(&stand, 0, 1, 2)
    #expect(before == [true] && today == [false, true, false])
    // Each start is without a clock until the network is available, which uses up no capacity.
    for _ in 0..<3 {
      stand.handle(.stop)
      stand = try restarted(stand)
      stand.time = unset
      let unsetAgain = told(&stand, 3)
      stand.time = FeedStand().time
      let setAgain = told(&stand, 4)
      #expect(unsetAgain == [false] && setAgain == [false])
    }
    stand.time.day = CalendarDay(20_522)
    let tomorrow = told(&stand, 5, 6, 7)
    #expect(tomorrow == [true, true, false])
  }

  @Test("Without a clock the limit of beacons a day still applies")
  func unsetClockWithinLimit() throws {
    var stand = FeedStand()
    _ = told(&stand, 0, 1)
    var next = try restarted(stand)
    next.time = unset
    let beyond = told(&next, 2)
    #expect(beyond == [false] && next.engine.notificationsLeft(at: next.now, time: next.time) == 0)
    stand = FeedStand()
    _ = told(&stand, 0)
    next = try restarted(stand)
    next.time = unset
    let within = told(&next, 1, 2)
    #expect(within == [true, false])
    // The date of that beacon is unknown.
    next.time = FeedStand().time
    next.time.day = CalendarDay(20_522)
    let later = told(&next, 1, 3, 4)
    #expect(later == [false, true, false])
  }

  @Test("With a limit of 0 no beacon is reported before 2026")
  func unsetClockNone() {
    var stand = FeedStand()
    stand.time = unset
    stand.actions += stand.engine.setNotifyLimit(0)
    #expect(stand.engine.notificationsLeft(at: stand.now, time: stand.time) == 0)
    let heard = told(&stand, 0)
    #expect(heard == [false])
  }

  @Test("The budget for a beacon is spent before it is advertised, and returned if there is no slot")
  func noPlace() throws {
    var stand = FeedStand()
    try stand.notify()
    guard case .keep(let spent) = stand.actions.first, case .transmitBeacon = stand.actions.last else {
      Issue.record("not in this order: \(stand.actions)")
      return
    }
    var crashed = FeedStand(ledger: try NotificationRecord(reading: spent.bytes))
    let afterCrash = crashed.refusedNotify()
    #expect(afterCrash == .notifySpent(until: CalendarDay(20_522)))
    let meanwhile = stand.refusedNotify()
    #expect(meanwhile == .notifying(until: CalendarDay(20_522)))
    stand.pass(35)
    #expect(stand.engine.deadline == stand.now)
    let given = stand.handle(.timer)
    #expect(given.first == .stopBeacon(.noPlace))
    guard case .keep(let givenBack) = given.last else {
      Issue.record("nothing is kept: \(given)")
      return
    }
    var restarted = FeedStand(ledger: try NotificationRecord(reading: givenBack.bytes))
    let afterRestart = restarted.refusedNotify()
    #expect(afterRestart == nil)
    try stand.notify()
    stand.handle(.beaconRefused)
    try stand.notify()
    stand.handle(.beaconBegan)
    let late = stand.handle(.beaconRefused)
    #expect(late == [])
    let end = stand.handle(.stop)
    guard end.count == 3, case .keep(let atEnd) = end[2] else {
      Issue.record("nothing is kept at the end: \(end)")
      return
    }
    #expect(end.prefix(2) == [.leaveAir, .stopBeacon(.cancelled)] && atEnd.left(at: stand.time, stand.now) == 2)
    let spentNow = stand.refusedNotify()
    #expect(spentNow == .notifySpent(until: CalendarDay(20_522)))
  }

  @Test("Each beacon has new random major and minor numbers")
  func numbers() throws {
    var pairs: Set<UInt32> = []
    for seed in 0..<50 {
      var stand = FeedStand(seed: UInt64(seed))
      try stand.notify()
      if case .transmitBeacon(let beacon) = stand.actions.last { pairs.insert(beacon.pair) }
    }
    #expect(pairs.count == 50)
  }

  @Test("If the stored beacon budgets are unreadable, the budgets of the day count as used up")
  func unreadable() throws {
    var stand = FeedStand(ledger: .spent(on: FeedStand().time, limit: 5))
    let refused = stand.refusedNotify()
    #expect(refused == .notifySpent(until: CalendarDay(20_522)))
    let today = told(&stand, 0)
    stand.time.day = CalendarDay(20_522)
    let tomorrow = told(&stand, 0)
    #expect(today == [false] && tomorrow == [true])
    let malformed: [[UInt8]] = [
      [], [8, 2, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0], [0, 101, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0],
      [0, 2, 101, 0, 0, 0, 1, 0, 0, 0, 0, 0],
    ]
    for bytes in malformed {
      #expect(throws: WireError.self) { try NotificationRecord(reading: bytes) }
    }
    #expect(throws: WireError.self) { try NotificationRecord(reading: [0, 2, 1, 0, 0, 0, 1, 0, 0, 0, 0, 102]) }
    // A ledger without flag, day and reported beacons is valid.
    #expect(
      try NotificationRecord(reading: [0, 2, 0, 0, 0, 0, 1, 0, 0, 0, 9, 0]).bytes == [
        0, 2, 0, 0, 0, 0, 1, 0, 0, 0, 9, 0,
      ])
  }

  @Test("Unreadable beacon budgets count as used up on the day to which an unset clock is set")
  func unreadableWithoutClock() {
    var stand = FeedStand(ledger: .spent(on: unset, limit: 5))
    let today = told(&stand, 0)
    let refused = stand.refusedNotify()
    stand.time.day = CalendarDay(20_522)
    let tomorrow = told(&stand, 0, 1, 2, 3, 4, 5)
    #expect(today == [false] && refused == .notifySpent(until: CalendarDay(20_522)))
    #expect(tomorrow == [true, true, true, true, true, false])
  }

  @Test(
    "A calendar day number is shown as its date",
    arguments: [
      (0, "1970-01-01"), (59, "1970-03-01"), (789, "1972-02-29"), (11_016, "2000-02-29"), (20_521, "2026-03-09"),
      (20_453, "2025-12-31"), (20_454, "2026-01-01"), (-5, "1970-01-01"), (47_540, "2100-02-28"),
      (47_541, "2100-03-01"),
    ])
  func dates(day: Int, text: String) {
    #expect("\(CalendarDay(day))" == text)
  }
}
