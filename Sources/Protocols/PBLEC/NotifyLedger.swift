import Bytes
import Common

/// What was notified on the last day: how often others were, and which of their beacons were told here. It outlives a run.
///
///     flags   1  bit 0: the day's own beacon was sent; bit 1: one was told while the clock was not set; bit 2: the day counts that one
///     limit   1  how many are wanted in a day
///     told    1  how many were told
///     day     4  big endian, days since 1970-01-01 of the local calendar
///     ran     4  big endian, seconds for which the service has run since a day last filled the budgets
///     count   1  of the pairs behind
///     pairs   4  each: major and minor, big endian
///
/// A later day fills both budgets again. A clock that goes back does not, until the service has run for 24 hours since: then the
/// later day was a mistake. What was told while the clock was not set counts for the day that comes next. Facts: pblec.md section 4.
public struct NotifyLedger: Hashable, Sendable, WireValue {
  /// Notifications that are wanted in a day; 0: none.
  public var limit: Int { didSet { limit = min(max(limit, 0), Limits.mostNotifications) } }
  private var day = 0
  private var told = 0
  private var isSent = false
  private var isToldWithoutClock = false
  /// Whether `told` has the one that was told without a clock.
  private var countsIt = false
  /// Major and minor of the beacons that were told on this day.
  private var pairs: [UInt32] = []
  /// For how long the service had run at `ranAt` since the budgets were filled last.
  private var ran = Duration.zero
  private var ranAt: Instant?

  private static let wholeDay = Duration.seconds(24 * 3600)

  /// A ledger in which nothing is spent.
  public init(limit: Int = Limits.notifications) {
    self.limit = min(max(limit, 0), Limits.mostNotifications)
  }

  /// A ledger for a day on which everything may be spent: the true one cannot be read.
  public static func spent(on time: CalendarTime, limit: Int) -> NotifyLedger {
    var ledger = NotifyLedger(limit: limit)
    ledger.day = time.isSet ? time.day.number : 0
    (ledger.told, ledger.isSent) = (Limits.mostNotifications, true)
    (ledger.isToldWithoutClock, ledger.countsIt) = (true, true)
    return ledger
  }

  public init(reading reader: inout ByteReader) throws(WireError) {
    let flags = try reader.u8()
    guard flags & ~7 == 0 else { throw .badValue("flags") }
    (isSent, isToldWithoutClock, countsIt) = (flags & 1 != 0, flags & 2 != 0, flags & 4 != 0)
    limit = Int(try reader.u8())
    guard limit <= Limits.mostNotifications else { throw .badValue("limit") }
    told = Int(try reader.u8())
    guard told <= Limits.mostNotifications else { throw .badValue("told") }
    day = Int(try reader.u32be())
    ran = .seconds(Int64(try reader.u32be()))
    let count = Int(try reader.u8())
    guard count <= Limits.mostNotifications + 1 else {
      throw .tooLong(field: "pairs", limit: Limits.mostNotifications + 1)
    }
    for _ in 0..<count { pairs.append(try reader.u32be()) }
  }

  public func write(to writer: inout ByteWriter) {
    writer.u8((isSent ? 1 : 0) | (isToldWithoutClock ? 2 : 0) | (countsIt ? 4 : 0))
    writer.u8(UInt8(clamping: limit))
    writer.u8(UInt8(clamping: told))
    writer.u32be(UInt32(clamping: day))
    writer.u32be(UInt32(clamping: ran.components.seconds))
    writer.u8(UInt8(clamping: pairs.count))
    for pair in pairs { writer.u32be(pair) }
  }

  /// How many notifications may still be told today.
  public func left(at time: CalendarTime, _ now: Instant) -> Int {
    var ledger = self
    ledger.fill(at: time, now)
    let left = max(0, limit - ledger.told)
    return time.isSet ? left : ledger.isToldWithoutClock ? 0 : min(1, left)
  }

  /// Takes in a beacon. Nil: it is to be told.
  mutating func hear(_ beacon: NotifyBeacon, at time: CalendarTime, _ now: Instant) -> Drop? {
    fill(at: time, now)
    if pairs.contains(beacon.pair) { return .repeatedBeacon }
    guard told < limit, time.isSet || !isToldWithoutClock else { return .tooManyBeacons }
    if !time.isSet { (isToldWithoutClock, countsIt) = (true, false) }
    told += 1
    pairs.append(beacon.pair)
    return nil
  }

  /// Spends the day's own beacon.
  mutating func send(at time: CalendarTime, _ now: Instant) throws(BroadcastError) {
    guard time.isSet else { throw .clockNotSet }
    fill(at: time, now)
    guard !isSent else { throw .notifySpent(until: nextDay(at: time)) }
    isSent = true
  }

  /// The day after this one: where the clock was put back, the day after the last one.
  func nextDay(at time: CalendarTime) -> CalendarDay { CalendarDay(max(day, time.day.number) + 1) }

  /// The beacon that was spent has not been on the air.
  mutating func giveBack() { isSent = false }

  /// Whether a day has filled the budgets, so that the time since counts.
  var isInUse: Bool { day != 0 }

  /// Notes for how long the service has run, for the runs to come.
  mutating func settle(at now: Instant) {
    if let ranAt { ran += ranAt.duration(to: now) }
    ranAt = now
  }

  private mutating func fill(at time: CalendarTime, _ now: Instant) {
    settle(at: now)
    let today = time.day.number
    guard time.isSet, today > day || today < day && ran >= Self.wholeDay else { return }
    // What may all be spent, nobody knows on which day, is spent on this one.
    guard isInUse || !isSent else {
      day = today
      return
    }
    (day, isSent, ran) = (today, false, .zero)
    // The one that was told without a clock was the last.
    let counts = isToldWithoutClock && !countsIt
    (told, pairs) = counts ? (1, pairs.suffix(1)) : (0, [])
    (isToldWithoutClock, countsIt) = (counts, counts)
  }
}
