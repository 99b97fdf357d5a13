import Bytes
import Common

/// What was notified on the last day: how often others were, and which of their beacons were told here. It outlives a run.
///
///     flags   1  bit 0: the day's own beacon was sent; bit 1: one was told while the clock was not set
///     limit   1  how many are wanted in a day
///     told    1  how many were told
///     day     4  big endian, days since 1970-01-01 of the local calendar
///     count   1  of the pairs behind
///     pairs   4  each: major and minor, big endian
///
/// A later day fills both budgets again. A clock that goes back does not, until a whole day has passed. Facts: pblec.md section 4.
public struct NotifyLedger: Hashable, Sendable, WireValue {
  /// Notifications that are wanted in a day; 0: none.
  public var limit: Int { didSet { limit = min(max(limit, 0), Limits.mostNotifications) } }
  private var day = 0
  private var told = 0
  private var isSent = false
  private var isToldWithoutClock = false
  /// Major and minor of the beacons that were told on this day.
  private var pairs: [UInt32] = []
  /// When the budgets were filled last, or the run began.
  private var filledAt: Instant?

  /// A ledger in which nothing is spent.
  public init(limit: Int = Limits.notifications) {
    self.limit = min(max(limit, 0), Limits.mostNotifications)
  }

  /// A ledger for a day on which everything may be spent: the true one cannot be read.
  public static func spent(on time: CalendarTime, limit: Int) -> NotifyLedger {
    var ledger = NotifyLedger(limit: limit)
    (ledger.day, ledger.told, ledger.isSent, ledger.isToldWithoutClock) =
      (time.isSet ? time.day.number : 0, Limits.mostNotifications, true, true)
    return ledger
  }

  public init(reading reader: inout ByteReader) throws(WireError) {
    let flags = try reader.u8()
    guard flags & ~3 == 0 else { throw .badValue("flags") }
    (isSent, isToldWithoutClock) = (flags & 1 != 0, flags & 2 != 0)
    limit = Int(try reader.u8())
    guard limit <= Limits.mostNotifications else { throw .badValue("limit") }
    told = Int(try reader.u8())
    guard told <= Limits.mostNotifications else { throw .badValue("told") }
    day = Int(try reader.u32be())
    let count = Int(try reader.u8())
    guard count <= Limits.mostNotifications + 1 else {
      throw .tooLong(field: "pairs", limit: Limits.mostNotifications + 1)
    }
    for _ in 0..<count { pairs.append(try reader.u32be()) }
  }

  public func write(to writer: inout ByteWriter) {
    writer.u8((isSent ? 1 : 0) | (isToldWithoutClock ? 2 : 0))
    writer.u8(UInt8(clamping: limit))
    writer.u8(UInt8(clamping: told))
    writer.u32be(UInt32(clamping: day))
    writer.u8(UInt8(clamping: pairs.count))
    for pair in pairs { writer.u32be(pair) }
  }

  /// How many notifications may still be told today.
  public func left(at time: CalendarTime, _ now: Instant) -> Int {
    var ledger = self
    ledger.fill(at: time, now)
    guard time.isSet else { return ledger.isToldWithoutClock ? 0 : min(1, limit) }
    return max(0, limit - ledger.told)
  }

  /// Takes in a beacon. Nil: it is to be told.
  mutating func hear(_ beacon: NotifyBeacon, at time: CalendarTime, _ now: Instant) -> Drop? {
    fill(at: time, now)
    if pairs.contains(beacon.pair) { return .repeatedBeacon }
    guard limit > 0 else { return .tooManyBeacons }
    guard time.isSet ? told < limit : !isToldWithoutClock else { return .tooManyBeacons }
    isToldWithoutClock = isToldWithoutClock || !time.isSet
    told = min(told + 1, Limits.mostNotifications)
    pairs.append(beacon.pair)
    return nil
  }

  /// Spends the day's own beacon.
  mutating func send(at time: CalendarTime, _ now: Instant) throws(BroadcastError) {
    guard time.isSet else { throw .clockNotSet }
    fill(at: time, now)
    guard !isSent else { throw .notifySpent(until: CalendarDay(max(day, time.day.number) + 1)) }
    isSent = true
  }

  /// The beacon that was spent has not been on the air.
  mutating func giveBack() { isSent = false }

  private mutating func fill(at time: CalendarTime, _ now: Instant) {
    if filledAt == nil { filledAt = now }
    let today = time.day.number
    guard time.isSet, let filledAt, today != day else { return }
    guard today > day || filledAt.duration(to: now) >= .seconds(24 * 3600) else { return }
    (day, told, isSent, isToldWithoutClock, pairs) = (today, 0, false, false, [])
    self.filledAt = now
  }
}
