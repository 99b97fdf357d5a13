import Bytes
import Common

/// Record of the notifications of the last day: whether the own beacon was sent, and which beacons were reported. It is
/// persisted.
///
///     flags   1  bit 0: the day's own beacon was sent; bit 1: one was reported while the clock was not set; bit 2:
///                the day counts that beacon
///     limit   1  maximum reported in a day
///     told    1  number reported
///     day     4  big endian, days since 1970-01-01 of the local calendar
///     ran     4  big endian, run time in seconds since a day last reset the budgets
///     count   1  number of pairs that follow
///     pairs   4  each: major and minor, big endian
///
/// A later day resets both budgets. A clock that is set back resets them only after 24 hours of run time: the later day
/// was then a mistake. A beacon that was reported while the clock was not set counts for the next day. Facts: pblec.md
/// section 4.
public struct NotificationRecord: Hashable, Sendable, WireValue {
  /// Maximum notifications reported in a day; 0 turns them off.
  public var limit: Int { didSet { limit = min(max(limit, 0), Limits.mostNotifications) } }
  private var day = 0
  private var told = 0
  private var isSent = false
  private var isToldWithoutClock = false
  /// Whether `told` includes the beacon that was reported while the clock was not set.
  private var countsIt = false
  /// Major and minor of the beacons reported on this day.
  private var pairs: [UInt32] = []
  /// Run time between the last reset of the budgets and `ranAt`.
  private var ran = Duration.zero
  private var ranAt: Instant?

  private static let wholeDay = Duration.seconds(24 * 3600)

  /// Creates a record with unspent budgets.
  public init(limit: Int = Limits.notifications) {
    self.limit = min(max(limit, 0), Limits.mostNotifications)
  }

  /// A record with spent budgets, used if the stored record cannot be read.
  public static func spent(on time: CalendarTime, limit: Int) -> NotificationRecord {
    var ledger = NotificationRecord(limit: limit)
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

  /// Number of notifications that may still be reported today; at most one while the clock is not set.
  public func left(at time: CalendarTime, _ now: Instant) -> Int {
    var ledger = self
    ledger.fill(at: time, now)
    let left = max(0, limit - ledger.told)
    return time.isSet ? left : ledger.isToldWithoutClock ? 0 : min(1, left)
  }

  /// Counts a received beacon. Returns the reason why it is not reported; nil if it is to be reported.
  mutating func hear(_ beacon: NotifyBeacon, at time: CalendarTime, _ now: Instant) -> Drop? {
    fill(at: time, now)
    if pairs.contains(beacon.pair) { return .repeatedBeacon }
    guard told < limit, time.isSet || !isToldWithoutClock else { return .tooManyBeacons }
    if !time.isSet { (isToldWithoutClock, countsIt) = (true, false) }
    told += 1
    pairs.append(beacon.pair)
    return nil
  }

  /// Records that this machine's beacon of the day is sent. Throws `notifySpent` or `clockNotSet` if it may not be.
  mutating func send(at time: CalendarTime, _ now: Instant) throws(BroadcastError) {
    guard time.isSet else { throw .clockNotSet }
    fill(at: time, now)
    guard !isSent else { throw .notifySpent(until: nextDay(at: time)) }
    isSent = true
  }

  /// The day after `time`, or after the recorded day if the clock was set back.
  func nextDay(at time: CalendarTime) -> CalendarDay { CalendarDay(max(day, time.day.number) + 1) }

  /// Restores the budget of a beacon that was not broadcast.
  mutating func giveBack() { isSent = false }

  /// Whether the record belongs to a known day, so that run time counts towards the next reset of the budgets.
  var isInUse: Bool { day != 0 }

  /// Adds the run time since the last call of this function to the recorded run time.
  mutating func settle(at now: Instant) {
    if let ranAt { ran += ranAt.duration(to: now) }
    ranAt = now
  }

  private mutating func fill(at time: CalendarTime, _ now: Instant) {
    settle(at: now)
    let today = time.day.number
    guard time.isSet, today > day || today < day && ran >= Self.wholeDay else { return }
    // A record that was created as spent while the day was unknown counts as spent on the first known day.
    guard isInUse || !isSent else {
      day = today
      return
    }
    (day, isSent, ran) = (today, false, .zero)
    // The last pair is the beacon that was reported while the clock was not set.
    let counts = isToldWithoutClock && !countsIt
    (told, pairs) = counts ? (1, pairs.suffix(1)) : (0, [])
    (isToldWithoutClock, countsIt) = (counts, counts)
  }
}
