import Common
import Store
import Testing

@testable import Verifier

/// The credential store as a value type: the time for which it stores credentials, and the influence of the wall
/// clock on it.
@Suite("The credential store and clocks")
struct CredentialStoreClockTests {
  typealias Script = CredentialStoreScript

  private static let year: Int64 = 365 * 24 * 3600
  private static let epoch = CredentialStorePlan.epoch

  /// The wall clock at the start, the date of a file, and the resulting age in seconds.
  struct Row: Sendable, CustomStringConvertible {
    let clock: Int64
    let date: Int64
    let age: Int64
    /// Seconds for which the date is doubted; -1 while the clock is not set.
    let doubt: Int64?

    var description: String { "clock \(clock), date \(date)" }
  }

  private static let rows = [
    Row(clock: Script.date, date: Script.date - 1000, age: 1000, doubt: nil),
    Row(clock: Script.date, date: Script.date, age: 0, doubt: nil),
    // A date in the future.
    Row(clock: Script.date, date: Script.date + 1, age: 0, doubt: 300),
    Row(clock: Script.date, date: Script.date + year, age: 0, doubt: 300),
    Row(clock: Script.date, date: .max, age: 0, doubt: 300),
    // A date from a clock that was not set.
    Row(clock: Script.date, date: epoch - 1, age: 0, doubt: nil),
    Row(clock: Script.date, date: 0, age: 0, doubt: nil),
    Row(clock: Script.date, date: .min, age: 0, doubt: nil),
    // The epoch itself is valid, as clock and as date.
    Row(clock: epoch, date: epoch, age: 0, doubt: nil),
    Row(clock: epoch + 5, date: epoch, age: 5, doubt: nil),
    // The clock is not set.
    Row(clock: epoch - 1, date: Script.date, age: 0, doubt: -1),
    Row(clock: 5, date: Script.date, age: 0, doubt: -1),
    Row(clock: 5, date: 4, age: 0, doubt: nil),
    Row(clock: .min, date: .max, age: 0, doubt: -1),
  ]

  @Test("The date of a spool file is converted to an age as the table specifies", arguments: rows)
  func dates(row: Row) {
    let vault = Script().vault
    let now = Instant(nanoseconds: 1_000_000_000_000_000)
    let (received, doubtedUntil) = vault.received(row.date, .init(now: now, date: row.clock))
    #expect(received == now.advanced(by: .seconds(-row.age)))
    let doubt = row.doubt.map { $0 < 0 ? Instant(nanoseconds: .max) : now.advanced(by: .seconds($0)) }
    #expect(doubtedUntil == doubt)
  }

  @Test(
    "A credential is erased exactly at its expiry, and the service is notified", arguments: [true, false])
  func expiry(isAccepted: Bool) {
    var script = Script.opened()
    let id = Script.id(1)
    _ = script.handle(.put(id, Script.record(), asker: 1))
    _ = script.handle(.done(nil))
    if isAccepted {
      _ = script.handle(.accept(id, asker: 2))
      _ = script.handle(.done(nil))
    }
    script.pass(7199)
    let due = script.advance(by: 1)
    #expect(due == [.expire(id, isAccepted: isAccepted), .erase(id)])
    script.expect(.done(nil), .forget(id))
    #expect(script.vault.deadline == nil)
  }

  @Test("A restored credential has the rest of its storage time, and a new setting applies at once")
  func rest() {
    var script = Script()
    _ = script.handle(.start)
    _ = script.handle(.opened(.success(Script.found([Script.entry(1, received: Script.date - 7000)]))))
    script.pass(199)
    script.expect(.settings(CredentialStoreSettings(keepFor: .seconds(7300))))
    script.pass(100)
    let due = script.advance(by: 1)
    #expect(due == [.expire(Script.id(1), isAccepted: false), .erase(Script.id(1))])
  }

  @Test(
    "Setting the clock forward or back changes no expiry, and file dates are corrected at once", arguments: [1, -1])
  func set(direction: Int64) {
    for jump in [31, 3600, Self.year] as [Int64] {
      var script = Script.opened()
      let ids = [Script.id(1), Script.id(2)]
      for id in ids {
        _ = script.handle(.put(id, Script.record(), asker: 1))
        _ = script.handle(.done(nil))
      }
      script.pass(1000)
      script.dateAtZero += direction * jump
      script.expect(.clockSet, .redate(ids[0], date: Script.date + direction * jump))
      script.expect(.done(nil), .redate(ids[1], date: Script.date + direction * jump))
      script.expect(.done(nil), .log(.redated(2)))
      script.pass(6199)
      let end = script.advance(by: 1)
      #expect(end.contains(.expire(ids[0], isAccepted: false)) && end.contains(.expire(ids[1], isAccepted: false)))
    }
  }

  @Test("A clock change of at most 30 s changes no spool file", arguments: [30, -30, -1])
  func tolerance(jump: Int64) {
    var script = Script.opened()
    _ = script.handle(.put(Script.id(1), Script.record(), asker: 1))
    _ = script.handle(.done(nil))
    script.dateAtZero = jump == -1 ? 1000 : script.dateAtZero + jump
    script.expect(.clockSet)
    script.pass(3600)
  }

  @Test("A clock change that the system does not report is detected within 60 s")
  func noticed() {
    var script = Script.opened()
    _ = script.handle(.put(Script.id(1), Script.record(), asker: 1))
    _ = script.handle(.done(nil))
    script.dateAtZero += 3600
    let due = script.advance(by: 60)
    #expect(due == [.redate(Script.id(1), date: Script.date + 3600)])
  }

  @Test("If correcting file dates fails, this is reported and repeated every 60 s and at each clock change")
  func refused() {
    var script = Script.opened()
    _ = script.handle(.put(Script.id(1), Script.record(), asker: 1))
    _ = script.handle(.done(nil))
    script.dateAtZero += 3600
    _ = script.handle(.clockSet)
    script.expect(.done(Script.readOnly), .log(.degraded(.dating, Script.readOnly)), .changed)
    script.pass(59)
    let again = script.advance(by: 1)
    #expect(again == [.redate(Script.id(1), date: Script.date + 3600)])
    script.expect(.done(Script.readOnly))
    script.dateAtZero += 3600
    script.expect(.clockSet, .redate(Script.id(1), date: Script.date + 7200))
    script.expect(.done(nil), .log(.recovered), .changed, .log(.redated(1)))
    #expect(script.vault.entries[Script.id(1)]?.date == Script.date + 7200)
    // When the clock is set back to the date of the file, the date is valid again.
    script.dateAtZero += 3600
    _ = script.handle(.clockSet)
    _ = script.handle(.done(Script.readOnly))
    script.dateAtZero -= 3600
    script.expect(.clockSet, .log(.recovered), .changed)
  }

  @Test("While the clock is not set, nothing expires by its date, but running time counts")
  func neverSet() {
    var script = Script()
    script.dateAtZero = 1000
    let actions = script.handle(.start)
    #expect(actions == [.open(.init(room: 1 << 20, keepFor: Script.keepFor, date: nil))])
    let entries = [Script.entry(1, received: Script.date - 7000), Script.entry(2, received: 500)]
    _ = script.handle(.opened(.success(Script.found(entries, damaged: 1))))
    #expect(script.vault.entries.values.allSatisfy { $0.received == .zero })
    for _ in 0..<3 {
      let due = script.advance(by: 60)
      #expect(due == [.inspect(script.look())])
      if case .inspect(let look)? = due.first { #expect(look.date == nil) }
      _ = script.handle(.inspected(.success(Script.found(damaged: 1))))
    }
    var late: [CredentialStorePlan.Action] = []
    while script.vault.kept.waiting > 0 {
      late += script.advance(by: 60)
      if case .inspect? = script.vault.work?.kind {
        _ = script.handle(.inspected(.success(Script.found(damaged: 1))))
      }
    }
    #expect(script.now == .zero.advanced(by: Script.keepFor))
    let expired = late.filter { if case .expire = $0 { true } else { false } }
    #expect(expired.count == 2 && !late.contains { if case .redate = $0 { true } else { false } })
  }

  @Test("When the clock is set for the first time, the dates of the spool files apply")
  func learned() {
    for seconds in [10, 299, 3000] {
      var script = Script()
      script.dateAtZero = 1000
      _ = script.handle(.start)
      _ = script.handle(.opened(.success(Script.found([Script.entry(1, received: Script.date - 1000)]))))
      script.pass(seconds)
      script.dateAtZero = Script.date
      // The file's date is right, so it is not rewritten.
      script.expect(.clockSet)
      #expect(script.vault.entries[Script.id(1)]?.received == .zero.advanced(by: .seconds(-1000)))
      script.pass(6199 - seconds)
      let due = script.advance(by: 1)
      #expect(due.first == .expire(Script.id(1), isAccepted: false))
    }
  }

  @Test("A file date in the future is used if the clock is set within 5 min, and is corrected otherwise")
  func doubted() {
    var script = Script()
    _ = script.handle(.start)
    _ = script.handle(.opened(.success(Script.found([Script.entry(1, received: Script.date + 3600)]))))
    var other = script
    script.pass(299)
    script.dateAtZero += 4600
    script.expect(.clockSet)
    #expect(script.vault.entries[Script.id(1)]?.received == .zero.advanced(by: .seconds(-1000)))
    // In the second script the clock is not set: the record has its full time from the start on.
    other.pass(299)
    let due = other.advance(by: 1)
    #expect(due == [.redate(Script.id(1), date: Script.date)])
    other.expect(.done(nil), .log(.redated(1)))
    other.dateAtZero += 4600
    other.expect(.clockSet, .redate(Script.id(1), date: Script.date + 4600))
  }

  @Test("Whatever the clock shows, an inspection of the spool erases no stored credential")
  func heldAreSafe() {
    var script = Script()
    _ = script.handle(.start)
    _ = script.handle(
      .opened(.success(Script.found([Script.entry(1), Script.entry(2, isAccepted: true)], damaged: 1))))
    _ = script.handle(.put(Script.id(3), Script.record(), asker: 1))
    _ = script.handle(.done(nil))
    _ = script.handle(.remove(Script.id(2), asker: 2))
    _ = script.handle(.done(Script.failed))
    script.dateAtZero += Self.year
    _ = script.handle(.clockSet)
    // The disk refuses the new dates, and then the inspection follows.
    for _ in 0..<2 { _ = script.handle(.done(Script.failed)) }
    var looks: [CredentialStorePlan.Look] = []
    for _ in 0..<5 {
      for action in script.advance(by: 60) { if case .inspect(let look) = action { looks.append(look) } }
      while script.vault.work != nil {
        if case .inspect? = script.vault.work?.kind {
          _ = script.handle(.inspected(.success(Script.found(damaged: 1))))
        } else {
          for action in script.handle(.done(Script.failed)) {
            if case .inspect(let look) = action { looks.append(look) }
          }
        }
      }
    }
    #expect(!looks.isEmpty)
    #expect(looks.allSatisfy { $0.except == Set((1...3).map(Script.id)) && $0.date ?? 0 > Script.date + Self.year - 1 })
  }
}
