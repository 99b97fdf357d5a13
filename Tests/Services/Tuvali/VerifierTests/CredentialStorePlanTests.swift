import Common
import Store
import Testing

@testable import Verifier

/// The store as a value type: its events and its actions.
@Suite("The credential store of the verifier")
struct CredentialStorePlanTests {
  typealias Script = CredentialStoreScript

  @Test("Storing, accepting and erasing a credential are answered when the disk has completed them")
  func life() {
    var script = Script()
    let (id, record) = (Script.id(1), Script.record())
    script.expect(.start, .open(script.look()))
    script.expect(.opened(.success(Script.found())))
    #expect(script.vault.deadline == nil)
    script.expect(
      .put(id, record, asker: 1), .put(id, record, date: Script.date, isAccepted: false))
    script.expect(.done(nil), .answer(1, nil))
    #expect(script.vault.kept == (1, 0) && script.vault.bytes == record.fileSize)
    script.expect(.accept(id, asker: 2), .accept(id))
    script.expect(.done(nil), .answer(2, nil))
    script.expect(.remove(id, asker: 3), .erase(id))
    #expect(script.vault.kept == (0, 1) && script.vault.bytes == 0)
    script.expect(.done(nil), .forget(id), .answer(3, nil))
    #expect(script.vault.kept == (0, 0) && script.vault.deadline == nil && script.vault.trouble == nil)
  }

  @Test("A pending acceptance is answered only after the erasure if the credential is fetched meanwhile")
  func fetchedMeanwhile() {
    var script = Script.opened()
    let id = Script.id(1)
    _ = script.handle(.put(id, Script.record(), asker: 1))
    script.expect(.done(nil), .answer(1, nil))
    script.expect(.accept(id, asker: 2), .accept(id))
    script.expect(.remove(id, asker: 3))
    script.expect(.done(nil), .erase(id))
    script.expect(.done(nil), .forget(id), .answer(2, nil), .answer(3, nil))
  }

  @Test("Without a disk the credential store answers every request at once, and its only timer is for expiry")
  func memoryAlone() {
    var script = Script(hasDisk: false)
    let id = Script.id(1)
    script.expect(.start)
    script.expect(.put(id, Script.record(), asker: 1), .answer(1, nil))
    #expect(script.vault.deadline == .zero.advanced(by: Script.keepFor))
    script.expect(.accept(id, asker: 2), .answer(2, nil))
    script.expect(.awaitIdle(asker: 3, limit: .seconds(2)), .answer(3, nil))
    script.expect(.clockSet)
    script.expect(.remove(id, asker: 4), .forget(id), .answer(4, nil))
    #expect(script.vault.deadline == nil && script.vault.trouble == nil)
  }

  @Test("A request to the credential store about an unknown credential is answered at once")
  func strangers() {
    var script = Script.opened()
    script.expect(.accept(Script.id(1), asker: 1), .answer(1, nil))
    script.expect(.remove(Script.id(1), asker: 2), .answer(2, nil))
  }

  @Test("The credential store ignores disk results that match no pending operation")
  func unasked() {
    var script = Script.opened()
    script.expect(.done(nil))
    script.expect(.done(Script.failed))
    script.expect(.inspected(.success(Script.found([Script.entry(1)]))))
    script.expect(.opened(.success(Script.found([Script.entry(1)]))))
    script.expect(
      .put(Script.id(2), Script.record(), asker: 1),
      .put(Script.id(2), Script.record(), date: Script.date, isAccepted: false))
    script.expect(.opened(.success(Script.found([Script.entry(1)]))))
    script.expect(.inspected(.failure(Script.failed)))
    #expect(script.vault.kept == (1, 0) && script.vault.trouble == nil)
    script.expect(.done(nil), .answer(1, nil))
  }

  @Test("A credential that exactly fits is stored, one byte more is refused, and a removed one uses no capacity")
  func room() {
    let size = Script.record(100).fileSize
    for hasDisk in [true, false] {
      var script = hasDisk ? Script.opened(room: 2 * size) : Script(room: 2 * size, hasDisk: false)
      _ = script.handle(.put(Script.id(1), Script.record(100), asker: 1))
      script.expect(
        .put(Script.id(2), Script.record(101), asker: 2), .forget(Script.id(2)), .answer(2, .noRoom(2 * size)))
      _ = script.handle(.put(Script.id(3), Script.record(100), asker: 3))
      #expect(script.vault.kept == (2, 0))
      script.expect(
        .put(Script.id(4), Script.record(0), asker: 4), .forget(Script.id(4)), .answer(4, .noRoom(2 * size)))
      _ = script.handle(.remove(Script.id(1), asker: 5))
      _ = script.handle(.put(Script.id(5), Script.record(100), asker: 6))
      #expect(script.vault.kept.waiting == 2)
    }
  }

  @Test("A full spool is an error for a waiting wallet, and otherwise a reported problem")
  func spoolFull() {
    var script = Script.opened()
    let (id, record) = (Script.id(1), Script.record())
    _ = script.handle(.put(id, record, asker: 1))
    script.expect(.done(Script.full), .answer(1, Script.full), .forget(id))
    #expect(script.vault.kept == (0, 0) && script.vault.trouble == nil && script.vault.deadline == nil)
    // The second caller was already answered when the disk reports that it is full.
    _ = script.handle(.put(id, record, asker: 2))
    let actions = script.advance(by: 5)
    #expect(actions.last == .answer(2, nil) && actions.contains(where: Script.isStall))
    script.expect(
      .done(Script.full), .log(.recovered), .changed, .log(.degraded(.writing, Script.full)), .changed)
    #expect(script.vault.kept == (1, 0))
  }

  @Test("A credential that was written to disk, or is no longer needed, is not in the credential store's memory")
  func onePlaintext() {
    var script = Script.opened()
    let (one, two) = (Script.id(1), Script.id(2))
    _ = script.handle(.put(one, Script.record(), asker: 1))
    _ = script.handle(.put(two, Script.record(), asker: 2))
    #expect(script.vault.entries[one]?.record != nil)
    _ = script.handle(.done(nil))
    #expect(script.vault.entries[one]?.record == nil && script.vault.entries[two]?.record != nil)
    // The disk is still writing the record.
    _ = script.handle(.remove(two, asker: 3))
    #expect(script.vault.entries[two]?.record == nil)
    script.expect(.done(nil), .erase(two))
    _ = script.handle(.done(nil))
    // The restored records leave nothing either.
    var other = Script()
    _ = other.handle(.start)
    _ = other.handle(.opened(.success(Script.found([Script.entry(1)]))))
    #expect(other.vault.entries.count == 1 && other.vault.entries.values.allSatisfy { $0.record == nil })
  }

  @Test("A credential that is removed while it is being written is erased, even after a reported failure")
  func removedMeanwhile() {
    for error in [nil, Script.failed] {
      var script = Script.opened()
      let id = Script.id(1)
      _ = script.handle(.put(id, Script.record(), asker: 1))
      // The caller that waits for the put is answered; the caller of the removal waits on.
      script.expect(.remove(id, asker: 2), .answer(1, nil))
      let actions = script.handle(.done(error))
      if error == nil {
        #expect(actions == [.erase(id)])
      } else {
        // The logged failure is the reason why asker 2 is answered before the erasure.
        #expect(actions == [.log(.degraded(.writing, Script.failed)), .changed, .answer(2, nil)])
        let later = script.advance(by: 60)
        #expect(later == [.erase(id)])
      }
      #expect(script.handle(.done(nil)).contains(.forget(id)))
      #expect(script.vault.kept == (0, 0))
    }
  }

  @Test("A credential that is accepted while it is being written is accepted on the disk, too")
  func acceptedMeanwhile() {
    var script = Script.opened()
    let id = Script.id(1)
    _ = script.handle(.put(id, Script.record(), asker: 1))
    script.expect(.accept(id, asker: 2), .answer(1, nil))
    script.expect(.done(nil), .accept(id))
    script.expect(.done(nil), .answer(2, nil))
    // A record that the disk has not begun to write is written as accepted at once.
    var other = Script()
    _ = other.handle(.put(id, Script.record(), asker: 1))
    _ = other.handle(.accept(id, asker: 2))
    other.expect(
      .opened(.success(Script.found())), .put(id, Script.record(), date: Script.date, isAccepted: true))
    other.expect(.done(nil), .answer(2, nil))
  }

  @Test("A repeated request to the credential store does not make the first be answered early")
  func askedTwice() {
    var script = Script.opened()
    let id = Script.id(1)
    _ = script.handle(.put(id, Script.record(), asker: 1))
    _ = script.handle(.done(nil))
    script.expect(.remove(id, asker: 2), .erase(id))
    script.expect(.remove(id, asker: 3))
    script.expect(.done(nil), .forget(id), .answer(2, nil), .answer(3, nil))
  }

  @Test("Disk operations of the credential store that a request waits for are executed first, and others in order")
  func order() {
    var script = Script.opened()
    let ids = (1...4).map(Script.id)
    for (number, id) in ids.enumerated() {
      _ = script.handle(.put(id, Script.record(), asker: number))
      _ = script.handle(.done(Script.failed))
    }
    // All four are due again; an asker waits for the last one.
    script.now = script.now.advanced(by: .seconds(60))
    script.expect(.remove(ids[3], asker: 9), .erase(ids[3]))
    var places: [SpoolID] = []
    for _ in ids {
      for action in script.handle(.done(nil)) {
        if case .put(let id, _, _, _) = action { places.append(id) }
      }
    }
    #expect(places == Array(ids.prefix(3)))
  }

  @Test("A refused disk operation of the credential store is repeated after 60 s, and after a success others follow")
  func again() {
    var script = Script.opened()
    let (one, two, record) = (Script.id(1), Script.id(2), Script.record())
    _ = script.handle(.put(one, record, asker: 1))
    script.expect(.done(Script.failed), .log(.degraded(.writing, Script.failed)), .changed, .answer(1, nil))
    #expect(
      script.vault.trouble == Script.failed && script.vault.troubleInShort == "Credentials are stored in memory only.")
    script.pass(30)
    _ = script.handle(.put(two, record, asker: 2))
    // The reason is logged once.
    script.expect(.done(Script.failed), .answer(2, nil))
    script.pass(29)
    let due = script.advance(by: 1)
    #expect(due == [.put(one, record, date: Script.date, isAccepted: false)])
    // The second record is not due for another 30 s.
    script.expect(.done(nil), .put(two, record, date: Script.date + 30, isAccepted: false))
    script.expect(.done(nil), .log(.recovered), .changed)
    #expect(script.vault.trouble == nil && script.vault.troubleInShort.isEmpty)
  }

  @Test("A failed erasure of a credential is reported until it succeeds, and delays no request")
  func unerased() {
    var script = Script.opened()
    let id = Script.id(1)
    _ = script.handle(.put(id, Script.record(), asker: 1))
    _ = script.handle(.done(nil))
    _ = script.handle(.remove(id, asker: 2))
    script.expect(.done(Script.readOnly), .log(.degraded(.erasing, Script.readOnly)), .changed, .answer(2, nil))
    #expect(script.vault.kept == (0, 1) && script.vault.deadline == script.now.advanced(by: .seconds(60)))
    let due = script.advance(by: 60)
    #expect(due == [.erase(id)])
    script.expect(.done(nil), .forget(id), .log(.recovered), .changed)
  }

  @Test("`awaitIdle` of the credential store is answered at once if idle, at the end of the work, or at its limit")
  func idle() {
    var script = Script.opened()
    script.expect(.awaitIdle(asker: 1, limit: .seconds(2)), .answer(1, nil))
    _ = script.handle(.put(Script.id(1), Script.record(), asker: 2))
    script.expect(.awaitIdle(asker: 3, limit: .seconds(2)))
    script.expect(.done(nil), .answer(2, nil), .answer(3, nil))
    _ = script.handle(.remove(Script.id(1), asker: 4))
    script.expect(.awaitIdle(asker: 5, limit: .seconds(2)))
    script.pass(1)
    let atLimit = script.advance(by: 1)
    #expect(atLimit == [.answer(5, nil)])
    // An asker does not wait for a record that the disk refused.
    _ = script.handle(.done(Script.failed))
    script.expect(.awaitIdle(asker: 6, limit: .seconds(2)), .answer(6, nil))
  }
}
