import Common
import Store
import Testing

@testable import Verifier

/// The store as a value type: its note with the running time of the service, and the reserved numbers.
@Suite("Credential ages by running time of the service")
struct CredentialStoreRunningTests {
  typealias Script = CredentialStoreScript

  /// A store whose spool is open, after this number of seconds of earlier runs.
  private static func opened(running: UInt64 = 0, _ entries: [SpoolContents<CredentialRecord>.Entry] = []) -> Script {
    var script = Script()
    _ = script.handle(.start)
    _ = script.handle(.opened(.success(Script.found(entries, running: running))))
    script.writesNotes = false
    return script
  }

  private static func note(_ running: UInt64, numbers: UInt64 = 1001) -> CredentialStoreNote {
    var note = CredentialStoreNote()
    note.numbers = numbers
    note.running = running
    return note
  }

  @Test("A credential record has the running time at its reception, even if it is written later")
  func record() {
    var script = Self.opened(running: 5000)
    script.pass(20)
    let actions = script.handle(.put(Script.id(1), Script.record(), asker: 1))
    guard case .put(_, let record, _, _)? = actions.first else { return #expect(Bool(false), "\(actions)") }
    #expect(record.running == 5020)
    _ = script.handle(.done(Script.failed))
    let again = script.advance(by: 60)
    guard case .put(_, let later, _, _)? = again.first else { return #expect(Bool(false), "\(again)") }
    #expect(later.running == 5020)
  }

  @Test("The running time is stored every 10 min while a credential is on the disk")
  func interval() {
    var script = Self.opened(running: 5000)
    script.pass(4000)
    _ = script.handle(.put(Script.id(1), Script.record(), asker: 1))
    // The note was due long ago.
    script.expect(.done(nil), .answer(1, nil), .note(Self.note(9000)))
    script.expect(.done(nil))
    script.pass(599)
    let due = script.advance(by: 1)
    #expect(due == [.note(Self.note(9600))])
    script.expect(.done(nil))
    _ = script.handle(.remove(Script.id(1), asker: 2))
    _ = script.handle(.done(nil))
    script.pass(5000)
  }

  @Test(
    "With a short storage time the running time is stored more often, at most every 10 s",
    arguments: [(60, 10), (800, 100)])
  func shortInterval(keepFor: Int, interval: Int) {
    var script = Self.opened()
    _ = script.handle(.settings(CredentialStoreSettings(keepFor: .seconds(keepFor), maximumBytes: 1 << 20)))
    _ = script.handle(.put(Script.id(1), Script.record(), asker: 1))
    _ = script.handle(.done(nil))
    script.now = script.now.advanced(by: .seconds(interval))
    let early = script.vault.dueNote(.init(now: script.now, date: 0))
    // The note of the opening counts as written with the time to keep of that moment.
    #expect(early == nil)
    script.now = script.now.advanced(by: .seconds(600))
    _ = script.handle(.clockSet)
    while case .redate? = script.vault.work?.kind { _ = script.handle(.done(nil)) }
    if case .note? = script.vault.work?.kind { _ = script.handle(.done(nil)) }
    #expect(script.vault.noteAt <= script.now.advanced(by: .seconds(interval)))
  }

  @Test("`awaitIdle` stores the running time once before it is answered")
  func atTheEnd() {
    var script = Self.opened(running: 100)
    _ = script.handle(.put(Script.id(1), Script.record(), asker: 1))
    _ = script.handle(.done(nil))
    script.pass(30)
    script.expect(.awaitIdle(asker: 2, limit: .seconds(2)), .note(Self.note(130)))
    script.expect(.done(nil), .answer(2, nil))
    script.expect(.awaitIdle(asker: 3, limit: .seconds(2)), .answer(3, nil))
    // After the disk has refused the note, it is not retried without pause.
    script.pass(30)
    script.expect(.awaitIdle(asker: 4, limit: .seconds(2)), .note(Self.note(160)))
    script.expect(.done(Script.readOnly), .log(.degraded(.noting, Script.readOnly)), .changed, .answer(4, nil))
    script.pass(59)
    let due = script.advance(by: 1)
    #expect(due == [.note(Self.note(220))])
    script.expect(.done(nil), .log(.recovered), .changed)
  }

  @Test("A restored credential's age is taken from its date or the running time, whichever is greater")
  func found() {
    let rows: [(received: Int64, running: UInt64, age: Int64)] = [
      // The service was down for a while.
      (Script.date - 3000, 9000, 3000),
      // The clock was set back: the date is in the future.
      (Script.date + 3000, 9000, 1000),
      // The clock was not set when the credential arrived.
      (5, 9000, 1000), (5, 10_000, 0),
      // The power was lost before the note was written.
      (5, 10_500, 0),
    ]
    for row in rows {
      let entry = Script.entry(1, received: row.received, running: row.running)
      let script = Self.opened(running: 10_000, [entry])
      #expect(script.vault.entries[Script.id(1)]?.received == .zero.advanced(by: .seconds(-row.age)), "\(row)")
    }
  }

  @Test("Correcting a credential's date does not make it younger than its running time shows")
  func doubted() {
    var script = Self.opened(running: 10_000, [Script.entry(1, received: Script.date + 3600, running: 5000)])
    script.pass(10)
    script.dateAtZero += 3700
    _ = script.handle(.clockSet)
    #expect(script.vault.entries[Script.id(1)]?.received == .zero.advanced(by: .seconds(-5000)))
  }

  @Test("A restored credential that has expired is erased, reported with the others, and not shown")
  func tooOld() {
    var script = Script()
    _ = script.handle(.start)
    let found = Script.found(
      [Script.entry(1, received: 5, running: 2800), Script.entry(2, received: 5, running: 2801)], tooOld: 1,
      running: 10_000)
    script.expect(
      .opened(.success(found)), .log(.tooOld(2)),
      .restore(Script.id(2), Script.entry(2, running: 2801).value, isAccepted: false), .log(.restored(1)), .changed,
      .erase(Script.id(1)))
    #expect(script.vault.kept == (1, 1))
  }

  @Test("Transfer numbers are reserved on the disk before use, and a refused reservation is reported and repeated")
  func numbers() {
    var script = Self.opened()
    script.expect(.numbersWanted, .note(Self.note(0, numbers: 2001)))
    script.expect(.done(Script.readOnly), .log(.degraded(.noting, Script.readOnly)), .changed)
    script.expect(.numbersWanted)
    script.pass(59)
    let due = script.advance(by: 1)
    #expect(due == [.note(Self.note(60, numbers: 2001))])
    script.expect(.done(nil), .log(.recovered), .changed, .numbers(1001..<2001))
    script.pass(3600)
    script.expect(.numbersWanted, .note(Self.note(3660, numbers: 3001)))
    script.expect(.done(nil), .numbers(2001..<3001))
    #expect(script.vault.deadline == nil)
  }

  @Test("If no numbers could be reserved when the spool was opened, they are requested at once")
  func refusedAtOpening() {
    var script = Script()
    script.writesNotes = false
    script.expect(.numbersWanted)
    _ = script.handle(.start)
    var found = Script.found()
    (found.note, found.numbers) = (CredentialStoreNote(), nil)
    script.expect(.opened(.success(found)), .note(Self.note(0)))
    script.expect(.done(nil), .numbers(1..<1001))
  }
}
