import Bitchat
import Bytes
import Crypto
import Testing

@testable import MeshStore

@Suite("Rows and limits of the mesh store")
struct RecordIndexTests {
  var ledger = RecordIndex(NodeStore.Settings(archive: .seconds(6 * 3600)))

  @Test("Each record has one row, which a change replaces; records no longer needed are removed")
  mutating func rows() throws {
    let first = try ledger.apply(.outgoing(Sample.outgoing(1)), at: Sample.time)
    let again = try ledger.apply(.outgoing(Sample.outgoing(1, tries: 2)), at: Sample.time)
    let row = try #require(first.rows.values.first { $0.time == Sample.time && $0.content?[1] == 6 })
    #expect(Array(again.rows.keys) == [row.id])
    #expect(ledger.count(.outgoing) == 1)
    let settled = try ledger.apply(.settled(1), at: Sample.time)
    #expect(settled.rows.map(\.value) == [MeshRow(id: row.id, time: 0, content: nil)])
    #expect(ledger.count(.outgoing) == 0)
    let unknown = try ledger.apply(.settled(1), at: Sample.time)
    #expect(unknown.isEmpty)

    _ = try ledger.apply(.pin(Sample.peer(1), Sample.key(1)), at: Sample.time)
    _ = try ledger.apply(.peer(Sample.marks(1)), at: Sample.time)
    let forgotten = try ledger.apply(.forget(Sample.peer(1)), at: Sample.time)
    #expect(forgotten.rows.values.filter { $0.content == nil }.count == 2 && forgotten.emptiesLog)
    #expect(ledger.count(.pins) == 0 && ledger.count(.peers) == 0)
  }

  @Test("Row IDs of removed records are used again: 500 settled messages need at most 3 rows")
  mutating func reuse() throws {
    var ids: Set<Int64> = []
    for number in 1...500 as ClosedRange<UInt32> {
      ids.formUnion(try ledger.apply(.outgoing(Sample.outgoing(number)), at: Sample.time).rows.keys)
      ids.formUnion(try ledger.apply(.settled(number), at: Sample.time).rows.keys)
    }
    #expect(ids.count <= 3)
  }

  @Test("The highest mesh message number is stored and never decreases")
  mutating func numbers() throws {
    _ = try ledger.apply(.message(Sample.privateMessage(5)), at: Sample.time)
    _ = try ledger.apply(.outgoing(Sample.outgoing(9)), at: Sample.time)
    let lower = try ledger.apply(.message(Sample.privateMessage(7)), at: Sample.time)
    #expect(ledger.highestNumber == 9)
    #expect(lower.rows.count == 1, "the number is not written again")
    _ = try ledger.apply(.settled(9), at: Sample.time)
    #expect(ledger.highestNumber == 9)
  }

  @Test("Each numbered record raises the highest message number, also when it is restored")
  mutating func lostNumber() throws {
    let records: [MeshRecord] = [
      .message(try Sample.privateMessage(41)), .outgoing(try Sample.outgoing(42)), .file(KeptFilesTests.file(43)),
    ]
    for (place, record) in records.enumerated() {
      let isTaken = ledger.restore(record, id: Int64(place) + 1, time: Sample.time, bytes: 100)
      #expect(isTaken && ledger.highestNumber == 41 + UInt32(place))
    }
    let file = try ledger.apply(.file(KeptFilesTests.file(50)), at: Sample.time)
    #expect(file.rows.count == 2 && ledger.highestNumber == 50)
  }

  @Test("If one sender has over a quarter of the files, its oldest file is evicted first")
  mutating func quarterByNumber() throws {
    func file(_ number: UInt32, of sender: UInt64) -> MeshChange {
      var file = KeptFilesTests.file(number, size: 1)
      file.sender = Sample.peer(sender)
      return .file(file)
    }
    for number in 1...1000 as ClosedRange<UInt32> {
      _ = try ledger.apply(file(number, of: UInt64(number) + 100), at: Sample.time)
    }
    for number in 1001...2000 as ClosedRange<UInt32> { _ = try ledger.apply(file(number, of: 5), at: Sample.time) }
    let next = try ledger.apply(file(3000, of: 6), at: Sample.time)
    #expect(next.removedFiles == [1001], "not the oldest, but the oldest of who has half of all")
  }

  @Test("A rewritten record needs only the capacity of the record that it replaces")
  mutating func room() throws {
    let text = String(repeating: "x", count: 5 << 20)
    for number in 1...3 as ClosedRange<UInt32> {
      _ = try ledger.apply(.message(Sample.privateMessage(number, text: text)), at: 1)
    }
    for _ in 0..<20 {
      let again = try ledger.apply(.message(Sample.privateMessage(2, text: text, state: .seen)), at: 1)
      #expect(again.removedMessages.isEmpty)
    }
  }

  @Test("A withdrawn or removed mesh file is erased, and the database log is emptied")
  mutating func erased() throws {
    let unknown = ledger.discard(KeptFilesTests.file(1))
    #expect(unknown.erased == [KeptFilesTests.file(1).place], "its content may be there without a row")
    _ = try ledger.apply(.file(KeptFilesTests.file(2)), at: Sample.time)
    let gone = try ledger.apply(.fileGone(2), at: Sample.time)
    #expect(gone.erased == [KeptFilesTests.file(2).place] && gone.emptiesLog)
  }

  @Test("At most 2,000 deleted files are remembered, for 17 min")
  mutating func deleted() throws {
    for number in 1...2001 as ClosedRange<UInt32> {
      let deleted = DeletedFile(KeptFilesTests.file(number), at: Sample.time + UInt64(number))
      _ = try ledger.apply(.deleted(deleted), at: 1)
    }
    #expect(ledger.count(.deletedFiles) == 2000 && !ledger.has(.deleted(1), on: .deletedFiles))
    _ = ledger.age(at: Sample.time + 17 * 60_000 + 2)
    #expect(ledger.count(.deletedFiles) == 2000)
    _ = ledger.age(at: Sample.time + 17 * 60_000 + 3)
    #expect(ledger.count(.deletedFiles) == 1999 && ledger.has(.deleted(3), on: .deletedFiles))
  }

  @Test("At most 4,096 pinned keys and 1,024 marks are stored; the oldest go first, those of marked peers last")
  mutating func chosen() throws {
    let key = try Sample.key(1)
    _ = try ledger.apply(.peer(PeerMarks(peer: Sample.peer(0), isBlocked: true, seenAt: 1)), at: 1)
    for number in 0..<4200 as Range<UInt64> { _ = try ledger.apply(.pin(Sample.peer(number), key), at: 1 + number) }
    for number in 1..<1100 as Range<UInt64> {
      let marks = PeerMarks(peer: Sample.peer(number), isFavouriteOfPeer: true, seenAt: number)
      _ = try ledger.apply(.peer(marks), at: 1)
    }
    #expect(ledger.count(.pins) == 4096 && ledger.count(.peers) == 1024)
    #expect(ledger.has(.pin(Sample.peer(0)), on: .pins) && ledger.has(.peer(Sample.peer(0)), on: .peers))
    #expect(!ledger.has(.pin(Sample.peer(104)), on: .pins) && ledger.has(.pin(Sample.peer(105)), on: .pins))
    #expect(!ledger.has(.peer(Sample.peer(76)), on: .peers) && ledger.has(.peer(Sample.peer(77)), on: .peers))
  }

  @Test("A pinned key that is written again keeps its row and becomes the newest")
  mutating func renewed() throws {
    let key = try Sample.key(1)
    let first = try ledger.apply(.pin(Sample.peer(0), key), at: 1)
    for number in 1..<4096 as Range<UInt64> { _ = try ledger.apply(.pin(Sample.peer(number), key), at: 1 + number) }
    let again = try ledger.apply(.pin(Sample.peer(0), key), at: 5000)
    #expect(Array(again.rows.keys) == Array(first.rows.keys) && again.rows.values.first?.time == 5000)
    #expect(ledger.count(.pins) == 4096)
    _ = try ledger.apply(.pin(Sample.peer(5000), key), at: 5001)
    #expect(ledger.has(.pin(Sample.peer(0)), on: .pins) && !ledger.has(.pin(Sample.peer(1)), on: .pins))
  }

  @Test("The row of a peer that has no marks left is removed, and no new one is written")
  mutating func unmarked() throws {
    let written = try ledger.apply(.peer(Sample.marks(2, isFavourite: true)), at: 1)
    let goes = try ledger.apply(.peer(Sample.marks(2)), at: 1)
    #expect(Array(goes.rows.keys) == Array(written.rows.keys) && goes.rows.values.map(\.content) == [nil])
    #expect(ledger.count(.peers) == 0)
    let nothing = try ledger.apply(.peer(Sample.marks(2)), at: 1)
    #expect(nothing.isEmpty && ledger.count(.peers) == 0)
  }

  @Test("A mesh peer without marks that is restored is removed at the start")
  mutating func unmarkedBefore() throws {
    let isTaken = ledger.restore(.peer(try Sample.marks(2)), id: 1, time: Sample.time, bytes: 100)
    let isMarkedTaken = ledger.restore(
      .peer(PeerMarks(peer: Sample.peer(3), isFavouriteOfPeer: true)), id: 2, time: Sample.time, bytes: 100)
    #expect(!isTaken && isMarkedTaken && ledger.count(.peers) == 1)
  }

  @Test("The counts of stored messages and packets are limited, and public ones evict no private message")
  mutating func bounds() throws {
    var removed: [UInt32] = []
    for number in 1...3600 as ClosedRange<UInt32> {
      // Decreasing times, as if the clock were set back.
      let time = Sample.time - UInt64(number)
      removed += try ledger.apply(.message(Sample.privateMessage(number, text: "", at: time)), at: time).removedMessages
    }
    #expect(removed == Array(1...100))
    for number in 3601...5300 as ClosedRange<UInt32> {
      removed += try ledger.apply(.message(Sample.publicMessage(number, text: "")), at: 1).removedMessages
    }
    #expect(Array(removed.dropFirst(100)) == Array(3601...3800))
    #expect(ledger.count(.privateMessages) == 3500 && ledger.count(.publicMessages) == 1500)
    for number in 0..<1050 as Range<UInt64> {
      _ = try ledger.apply(.gossip(Sample.gossip("\(number)", at: .max - number)), at: 1)
    }
    for number in 1...1100 as ClosedRange<UInt32> {
      _ = try ledger.apply(.outgoing(Sample.outgoing(number)), at: 1)
    }
    #expect(ledger.count(.gossip) == 1000 && ledger.count(.outgoing) == 1000)
    #expect(!ledger.has(.outgoing(100), on: .outgoing) && ledger.has(.outgoing(101), on: .outgoing))
  }

  @Test("The sender with the most public packets loses its oldest first; if all have as many, the oldest goes")
  mutating func packets() throws {
    let others = try (1...300 as ClosedRange<UInt64>).map {
      try Sample.gossip("\($0)", from: Sample.peer(10 + $0), at: Sample.time + $0)
    }
    for item in others { _ = try ledger.apply(.gossip(item), at: 1) }
    let flood = try (1...3000 as ClosedRange<UInt64>).map {
      try Sample.gossip("flood \($0)", at: Sample.time + 1000 + $0)
    }
    for item in flood { _ = try ledger.apply(.gossip(item), at: 1) }
    #expect(others.allSatisfy { ledger.has(.gossip($0.id), on: .gossip) })
    let kept = flood.filter { ledger.has(.gossip($0.id), on: .gossip) }
    #expect(kept == Array(flood.suffix(700)))
    let late = try (1...700 as ClosedRange<UInt64>).map {
      try Sample.gossip("late", from: Sample.peer(1000 + $0), at: Sample.time + 5000 + $0)
    }
    for item in late { _ = try ledger.apply(.gossip(item), at: 1) }
    #expect(ledger.count(.gossip) == 1000 && late.allSatisfy { ledger.has(.gossip($0.id), on: .gossip) })
    #expect(flood.filter { ledger.has(.gossip($0.id), on: .gossip) } == Array(flood.suffix(1)))
    #expect(others.filter { ledger.has(.gossip($0.id), on: .gossip) } == Array(others.suffix(299)))
  }

  @Test("Courier envelopes are limited in number and bytes, expire after a day, and favourites' are evicted last")
  mutating func carried() throws {
    let friend = try Sample.carried(0, isOfFavourite: true, at: 1)
    _ = try ledger.apply(.carried(friend), at: 1)
    for number in 1...1010 as ClosedRange<UInt64> {
      _ = try ledger.apply(.carried(Sample.carried(number, at: Sample.time + number)), at: 1)
    }
    #expect(ledger.count(.carried) == 1000 && ledger.has(.carried(friend.id), on: .carried))
    let gone = try ledger.apply(.carriedNoMore(friend.id), at: 1)
    #expect(gone.rows.values.map(\.content) == [nil] && ledger.count(.carried) == 999)
    let unknown = try ledger.apply(.carriedNoMore(friend.id), at: 1)
    #expect(unknown.isEmpty)
    for number in 2000...2800 as ClosedRange<UInt64> {
      _ = try ledger.apply(.carried(Sample.carried(number, at: Sample.time + number, bytes: 16 << 10)), at: 1)
    }
    #expect(ledger.count(.carried) < 600 && ledger.count(.carried) > 500)
    _ = ledger.age(at: Sample.time + 2800 + 25 * 3_600_000)
    #expect(ledger.count(.carried) == 1)
    _ = ledger.age(at: Sample.time + 2801 + 25 * 3_600_000)
    #expect(ledger.count(.carried) == 0)
  }

  @Test("The total size of private messages is limited")
  mutating func bytes() throws {
    let text = String(repeating: "x", count: 1 << 20)
    var removed: [UInt32] = []
    for number in 1...20 as ClosedRange<UInt32> {
      removed += try ledger.apply(.message(Sample.privateMessage(number, text: text)), at: 1).removedMessages
    }
    #expect(removed == [1, 2, 3, 4, 5])
  }

  @Test(
    "Public records expire with the archive, waiting messages after a day, and others after 30 days")
  mutating func age() throws {
    let hour: UInt64 = 3600 * 1000
    for change in try Sample.changes() { _ = try ledger.apply(change, at: Sample.time) }
    func counts() -> [Int] {
      [.gossip, .publicMessages, .outgoing, .privateMessages, .pins, .peers].map { ledger.count($0) }
    }
    _ = ledger.age(at: 0)
    _ = ledger.age(at: Sample.time + 6 * hour)
    #expect(counts() == [2, 1, 1, 1, 2, 2])
    let archive = ledger.age(at: Sample.time + 6 * hour + 1)
    #expect(archive.removedMessages == [9] && archive.rows.count == 3)
    _ = ledger.age(at: Sample.time + 24 * hour)
    #expect(counts() == [0, 0, 1, 1, 2, 2])
    _ = ledger.age(at: Sample.time + 24 * hour + 1)
    _ = ledger.age(at: Sample.time + 720 * hour)
    #expect(counts() == [0, 0, 0, 1, 2, 2])
    let old = ledger.age(at: Sample.time + 720 * hour + 1)
    #expect(old.removedMessages == [8])
    #expect(counts() == [0, 0, 0, 0, 2, 2])
  }

  @Test("If the archive is disabled, public messages and packets are not written, and stored ones are removed")
  mutating func noArchive() throws {
    for change in try Sample.changes() { _ = try ledger.apply(change, at: Sample.time) }
    let emptied = ledger.keepArchive(for: .zero)
    #expect(emptied.rows.count == 3 && emptied.removedMessages == [9])
    let gossip = try ledger.apply(.gossip(Sample.gossip("new")), at: Sample.time)
    #expect(gossip.isEmpty)
    let line = try ledger.apply(.message(Sample.publicMessage(20)), at: Sample.time)
    #expect(line.rows.values.compactMap { $0.content?[1] } == [3], "its number alone, which is never given again")
    #expect(ledger.highestNumber == 20)
    let told = try ledger.apply(.message(Sample.privateMessage(21)), at: Sample.time)
    #expect(told.rows.count == 2)
  }
}
