import Common
import Store
import Testing

@testable import Verifier

/// The store as a value type: opening the spool, its contents, and a disk that hangs.
@Suite("Opening and inspecting the verifier's spool")
struct CredentialStoreSpoolTests {
  typealias Script = CredentialStoreScript

  // MARK: Opening

  @Test("The verifier's spool is opened once, at the start or with the first credential")
  func opening() {
    var script = Script()
    #expect(script.vault.deadline == nil)
    script.expect(.put(Script.id(1), Script.record(), asker: 1), .open(script.lookWith(1)))
    script.expect(.start)
    script.expect(
      .opened(.success(Script.found())), .put(Script.id(1), Script.record(), date: Script.date, isAccepted: false))
    script.expect(.done(nil), .answer(1, nil))
    script.expect(.start)
  }

  @Test("If opening the spool fails, it is repeated with the next request and after 60 s")
  func openedLater() {
    var script = Script()
    _ = script.handle(.start)
    script.expect(.opened(.failure(Script.failed)), .log(.degraded(.opening, Script.failed)), .changed)
    script.pass(10)
    let record = Script.record()
    _ = script.handle(.put(Script.id(1), record, asker: 1))
    // The fault is not logged twice, and the asker does not wait for it.
    script.expect(.opened(.failure(Script.failed)), .answer(1, nil))
    script.pass(59)
    let look = script.look(room: script.vault.settings.maximumBytes)
    let due = script.advance(by: 1)
    #expect(due == [.open(.init(except: look.except, room: look.room, keepFor: look.keepFor, date: script.date))])
    script.expect(
      .opened(.success(Script.found())), .log(.recovered), .changed,
      .put(Script.id(1), record, date: Script.date + 10, isAccepted: false))
  }

  @Test("Credentials of an earlier run are restored and reported, and so are those that expired")
  func restored() {
    var script = Script()
    _ = script.handle(.start)
    let found = Script.found([Script.entry(1), Script.entry(2, isAccepted: true)], withoutRoom: 3, tooOld: 4)
    script.expect(
      .opened(.success(found)), .log(.tooOld(4)), .restore(Script.id(1), Script.record(), isAccepted: false),
      .restore(Script.id(2), Script.record(), isAccepted: true), .log(.restored(2)), .changed, .log(.withoutRoom(3)))
    #expect(script.vault.kept == (2, 0))
    // A verdict on the first is stored; on the second it is stored already.
    script.expect(.accept(Script.id(1), asker: 1), .accept(Script.id(1)))
    script.expect(.done(nil), .answer(1, nil))
    script.expect(.accept(Script.id(2), asker: 2), .answer(2, nil))
    // An erased record may free capacity for another one at once.
    _ = script.handle(.remove(Script.id(2), asker: 3))
    let look = script.lookWithout(2)
    script.expect(.done(nil), .forget(Script.id(2)), .answer(3, nil), .inspect(look))
    script.expect(
      .inspected(.success(Script.found([Script.entry(5)], withoutRoom: 2))),
      .restore(Script.id(5), Script.record(), isAccepted: false), .log(.restored(1)), .changed)
  }

  @Test("Unreadable spool files are inspected every 60 s and reported once until they are gone")
  func unreadable() {
    var script = Script()
    _ = script.handle(.start)
    let problem = SpoolProblem(name: "a", error: StoreError(.keyMissing, "Another key."))
    let sentence = "1 cannot be read; the first: Another key."
    let trouble = StoreError(.keyMissing, sentence)
    script.expect(
      .opened(.success(Script.found(problems: [problem]))), .log(.degraded(.unreadable, trouble)), .changed)
    script.pass(59)
    for _ in 0..<3 {
      let actions = script.advance(by: 1)
      #expect(actions == [.inspect(script.look())])
      script.expect(.inspected(.success(Script.found(problems: [problem]))))
      script.pass(59)
    }
    // Two of them change the sentence of the state, without another log line.
    _ = script.advance(by: 1)
    script.expect(.inspected(.success(Script.found(problems: [problem, problem]))), .changed)
    _ = script.advance(by: 60)
    script.expect(.inspected(.failure(Script.failed)), .log(.degraded(.unreadable, Script.failed)), .changed)
    _ = script.advance(by: 60)
    script.expect(.inspected(.success(Script.found())), .log(.recovered), .changed)
    #expect(script.vault.deadline == nil && script.vault.trouble == nil)
  }

  @Test("Damaged spool files are reported as a problem while they exist")
  func damaged() {
    var script = Script()
    _ = script.handle(.start)
    let problem = SpoolProblem(name: "a", error: StoreError(.damaged, "It is damaged."))
    _ = script.handle(.opened(.success(Script.found(problems: [problem], damaged: 1))))
    #expect(script.vault.trouble?.sentence == "1 cannot be read; the first: It is damaged.")
    _ = script.advance(by: 60)
    // From now on it is skipped.
    script.expect(.inspected(.success(Script.found(damaged: 1))), .changed)
    #expect(script.vault.trouble?.reason == .damaged)
    _ = script.advance(by: 60)
    script.expect(.inspected(.success(Script.found())), .log(.recovered), .changed)
  }

  @Test("The worst problem is shown, each reason is logged once, and the recovery is logged at the end")
  func worst() {
    var script = Script()
    _ = script.handle(.start)
    let problem = SpoolProblem(name: "a", error: Script.failed)
    _ = script.handle(.opened(.success(Script.found([Script.entry(1)], problems: [problem]))))
    #expect(script.vault.troubleInShort == "Stored credentials cannot be read.")
    _ = script.handle(.remove(Script.id(1), asker: 1))
    script.expect(.done(Script.failed), .changed, .answer(1, nil))
    #expect(script.vault.troubleInShort == "A credential that is no longer needed could not be erased yet.")
    _ = script.handle(.put(Script.id(2), Script.record(), asker: 2))
    script.expect(.done(Script.readOnly), .log(.degraded(.writing, Script.readOnly)), .changed, .answer(2, nil))
    #expect(script.vault.trouble == Script.readOnly)
  }

  @Test(
    "Credentials received while the spool is read have precedence over those in its files"
  )
  func roomMeanwhile() {
    let size = Script.record().fileSize
    var script = Script(room: 2 * size)
    _ = script.handle(.start)
    _ = script.handle(.put(Script.id(9), Script.record(), asker: 1))
    let found = Script.found((1...3).map { Script.entry($0) }, withoutRoom: 1)
    let actions = script.handle(.opened(.success(found)))
    #expect(
      actions.prefix(4) == [
        .restore(Script.id(1), Script.record(), isAccepted: false), .log(.restored(1)), .changed, .log(.withoutRoom(3)),
      ])
    #expect(script.vault.bytes == 2 * size)
    _ = script.handle(.done(nil))
    _ = script.handle(.remove(Script.id(1), asker: 2))
    let looks = script.handle(.done(nil))
    #expect(looks.last == .inspect(script.look()) && script.look().room == size)
  }

  // MARK: Time limits

  @Test("A disk that hangs delays one request by 5 s and the next not at all, and is logged once")
  func hangs() {
    var script = Script.opened()
    _ = script.handle(.put(Script.id(1), Script.record(), asker: 1))
    #expect(script.vault.deadline == script.now.advanced(by: .seconds(5)))
    script.pass(4)
    let actions = script.advance(by: 1)
    #expect(actions.filter(Script.isStall).count == 1 && actions.suffix(2) == [.changed, .answer(1, nil)])
    #expect(script.vault.trouble?.reason == .diskStalled)
    script.expect(.put(Script.id(2), Script.record(), asker: 2), .answer(2, nil))
    script.expect(.remove(Script.id(1), asker: 3), .answer(3, nil))
    #expect(script.vault.kept == (1, 1))
    script.pass(600)
    script.expect(.done(nil), .log(.recovered), .changed, .erase(Script.id(1)))
    script.expect(
      .done(nil), .forget(Script.id(1)),
      .put(Script.id(2), Script.record(), date: Script.date + 5, isAccepted: false))
    script.expect(.done(nil))
    #expect(script.vault.kept == (1, 0))
  }

  @Test("A disk that hangs while no request waits is detected, so that later requests do not wait")
  func hangsUnasked() {
    var script = Script.opened()
    _ = script.handle(.put(Script.id(1), Script.record(), asker: 1))
    _ = script.handle(.done(Script.failed))
    let due = script.advance(by: 60)
    #expect(due.count == 1 && script.vault.work != nil && script.vault.answersDue == nil)
    #expect(script.vault.deadline == script.now.advanced(by: .seconds(5)))
    script.pass(4)
    let actions = script.advance(by: 1)
    #expect(actions.filter(Script.isStall).count == 1)
    script.expect(.put(Script.id(2), Script.record(), asker: 2), .answer(2, nil))
  }

  @Test("A request waits for the disk for 5 s in total, also behind other requests")
  func waitsBehindOthers() {
    var script = Script.opened()
    for number in 1...3 { _ = script.handle(.put(Script.id(number), Script.record(), asker: number)) }
    script.pass(4)
    let second = script.handle(.done(nil))
    #expect(second.contains(.answer(1, nil)))
    // The second write has taken only a second; both have waited for five.
    let actions = script.advance(by: 1)
    #expect(actions.filter(Script.isStall).count == 1)
    let answers = actions.filter { if case .answer = $0 { true } else { false } }
    #expect(answers == [.answer(2, nil), .answer(3, nil)])
    script.pass(3)
    let third = script.handle(.done(nil))
    #expect(third.contains(.log(.recovered)) && script.vault.trouble == nil)
    _ = script.handle(.done(nil))
    #expect(script.vault.entries.values.allSatisfy { $0.isOnDisk })
  }

  @Test("A disk that hangs does not delay the expiry of a credential")
  func expiresMeanwhile() {
    var script = Script.opened()
    let (one, two) = (Script.id(1), Script.id(2))
    _ = script.handle(.put(one, Script.record(), asker: 1))
    _ = script.handle(.done(nil))
    script.pass(100)
    _ = script.handle(.put(two, Script.record(), asker: 2))
    _ = script.advance(by: 7099)
    #expect(script.vault.kept == (2, 0))
    let first = script.advance(by: 1)
    #expect(first == [.expire(one, isAccepted: false)])
    _ = script.handle(.settings(CredentialStoreSettings(keepFor: .seconds(7100))))
    let second = script.advance(by: 0)
    #expect(second == [.expire(two, isAccepted: false)])
    #expect(script.vault.kept == (0, 2))
    let end = script.handle(.done(nil))
    #expect(end.last == .erase(one))
    _ = script.handle(.done(nil))
    _ = script.handle(.done(nil))
    #expect(script.vault.kept == (0, 0))
  }
}

extension CredentialStoreScript {
  /// The expected inspection while this record is among the entries.
  fileprivate func lookWith(_ number: Int) -> CredentialStorePlan.Look {
    var look = look()
    look.except.insert(Self.id(number))
    return look
  }

  /// The expected inspection when this record is no longer among the entries.
  fileprivate func lookWithout(_ number: Int) -> CredentialStorePlan.Look {
    var look = look()
    look.except.remove(Self.id(number))
    return look
  }
}
