import Bytes
import Crypto
import TestSupport
import Testing

@testable import Store

@Suite("Rewriting spool records")
struct SpoolRewriteTests {
  @Test(
    "After a power loss while a record is rewritten there is one record, with the old or the new content",
    arguments: SimulatedDisk.Loss.all)
  func powerLoss(loss: SimulatedDisk.Loss) throws {
    let number = try Fixture.losingPower { fixture, number in
      let spool = try fixture.spool()
      let id = try spool.put(Fixture.record("old", received: 7, mark: 1))
      fixture.disk.losePower(at: fixture.disk.calls + number)
      let isThrough =
        caughtError { () throws(StoreError) in
          try spool.rewrite(id) { $0 + Array(", and new".utf8) }
        } == nil
      fixture.disk.restart(loss)
      let after = try fixture.spool(seed: 2).list()
      let expected = Fixture.record("old, and new", received: 7, mark: 1)
      #expect(after.values == [expected] || !isThrough && after.values == [Fixture.record("old", received: 7, mark: 1)])
      #expect(after.problems.isEmpty && after.ids == [id])
      return isThrough
    }
    #expect(number > 5)
  }

  @Test("A rewrite that exceeds the capacity is refused, and rewriting an absent record creates none")
  func full() throws {
    var fixture = try Fixture()
    fixture.limits.maximumBytes = 2 * RecordSpool.size(ofContent: 10)
    let spool = try fixture.spool()
    let id = try spool.put(Fixture.record("0123456789"))
    try spool.rewrite(id) { $0 + $0 }
    _ = try spool.put(Fixture.record(""))
    #expect(caughtError { () throws(StoreError) in try spool.rewrite(id) { $0 + $0 } }?.reason == .spoolFull)
    #expect(try spool.list().byID[id] == Fixture.record("01234567890123456789"))
    try spool.remove(id)
    try spool.rewrite(id) { $0 }
    #expect(try spool.list().byID[id] == nil)
  }
}
