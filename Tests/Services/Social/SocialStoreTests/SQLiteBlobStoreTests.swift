import ASN
import ASNSupport
import Glibc
import Store
import TestSupport
import Testing

@testable import SocialStore

@Suite("The blob store in a database and files")
struct SQLiteBlobStoreTests {
  private let stand: StoreStand
  private let contract: Contract

  init() throws {
    let stand = try StoreStand()
    self.stand = stand
    contract = StoreContract { try stand.open() }
  }

  @Test("A blob is stored verbatim and once, and a purge removes everything that belongs to it")
  func blobs() throws { #expect(try contract.blobs() == []) }

  @Test("A directory contains each name once, sorted by bytes")
  func links() throws { #expect(try contract.links() == []) }

  @Test("Hidden links are in no directory, and flags set by a removal end when the removal is removed")
  func removals() throws { #expect(try contract.removals() == []) }

  @Test("A reopened blob store contains the committed changes and nothing else")
  func reopened() throws {
    let (one, other, large, lost) = (
      try Contract.blob("one"), try Contract.blob("other"), try StoreStand.large(1), try StoreStand.large(2)
    )
    var store = try stand.open()
    try store.apply([.insert(one), .link(Contract.link(one, "asn/user")), .insert(large)])
    try store.commit()
    try store.apply([.insert(other), .insert(lost), .flag(one.sum, removal: other.sum)])
    store.close()
    store = try stand.open()
    #expect(try store.blob(one.sum) == one && store.blob(large.sum) == large)
    #expect(try store.blob(other.sum) == nil && store.blob(lost.sum) == nil && !store.isFlagged(one.sum))
    #expect(try store.usage().blobs == 2 && store.usage().users == 1)
    #expect(store.missingFiles == 0)
  }

  @Test("A number of the change log is not used again after its row was removed and the store reopened")
  func numbers() throws {
    var store = try stand.open()
    let one = try Contract.blob("one")
    try store.apply([.insert(one)])
    try store.commit()
    let last = try store.changes(after: 0, limit: 9).last
    let number = try #require(last?.number)
    store.close()
    store = try stand.open()
    try store.apply([.purge(one.sum)])
    try store.commit()
    #expect(try store.changes(after: number, limit: 9).map(\.kind) == [.purged])
  }

  @Test("A blob of up to 64 KiB is in the database, and a larger one in a file named by its sum")
  func sizes() throws {
    let header = try Contract.blob("").bytes.count
    let small = try Contract.blob(String(repeating: "s", count: BlobFiles.threshold - header))
    let large = try Contract.blob(String(repeating: "l", count: BlobFiles.threshold - header + 1))
    let store = try stand.open()
    try store.apply([.insert(small), .insert(large)])
    try store.commit()
    let hex = large.sum.hex
    #expect(try stand.files == [hex])
    #expect(try stand.folder.read("blobs/\(hex.prefix(2))/\(hex.dropFirst(2))") == large.bytes)
    #expect(try store.blob(small.sum) == small && store.blob(large.sum) == large)
  }

  @Test("A committed purge removes the blob's file, and so does undoing an insertion")
  func fileLife() throws {
    let large = try StoreStand.large(1)
    let store = try stand.open()
    try store.apply([.insert(large)])
    try store.commit()
    // The blob is removed and stored again in one commit.
    try store.apply([.purge(large.sum)])
    #expect(try stand.files == [large.sum.hex])
    try store.apply([.insert(large)])
    try store.commit()
    #expect(try store.blob(large.sum) == large)
    try store.apply([.purge(large.sum)])
    try store.commit()
    #expect(try stand.files == [])
    // The blob is stored and removed in one commit.
    try store.apply([.insert(large), .purge(large.sum)])
    try store.commit()
    #expect(try stand.files == [] && store.blob(large.sum) == nil)
    try store.apply([.insert(large)])
    store.close()
    #expect(try stand.files == [])
  }

  @Test("Changes applied together are all stored or none is, and earlier changes stay")
  func together() throws {
    let store = try stand.open()
    let (one, large) = (try Contract.blob("one"), try StoreStand.large(1))
    try store.apply([.insert(one)])
    try stand.folder.remove("blobs")
    #expect(throws: ASN.StoreError.self) {
      try store.apply([.link(Contract.link(one, "a")), .insert(large), .link(Contract.link(one, "b"))])
    }
    #expect(try store.blob(one.sum) == one && store.blob(large.sum) == nil)
    #expect(try store.linkCount(Contract.key(1)) == 0)
    try store.commit()
    #expect(try store.changes(after: 0, limit: 9).map(\.sum) == [one.sum])
  }

  @Test("On a full disk a change is refused, and the commit fails unless the earlier changes are stored")
  func full() throws {
    let store = try stand.open()
    let kept = try Contract.blob("kept")
    try store.apply([.insert(kept)])
    try store.commit()
    let found = try Self.integer(store, "page_count")
    let pages = try #require(found)
    try store.database.limit(pages: pages + 4)
    let before = try Contract.blob("before")
    try store.apply([.insert(before)])
    let large = try (0..<40).map { try Contract.blob("\($0)" + String(repeating: "x", count: 60_000)) }
    #expect(throws: ASN.StoreError.full) { try store.apply(large.map { .insert($0) }) }
    let isCommitted = (try? store.commit()) != nil
    #expect(try (store.blob(before.sum) == before) == isCommitted)
    #expect(try store.blob(kept.sum) == kept && store.blob(large[0].sum) == nil)
    try store.database.limit(pages: 100_000)
    try store.apply(large.map { .insert($0) })
    try store.commit()
    #expect(try store.usage().blobs == (isCommitted ? 42 : 41))
  }

  private static func integer(_ store: SQLiteBlobStore, _ pragma: String) throws -> Int? {
    if case .integer(let number) = try store.database.pragma(pragma) { return Int(number) }
    return nil
  }

  @Test("A commit whose sync the disk refuses undoes all changes since the previous commit")
  func refusedSync() throws {
    let store = try stand.open()
    let (one, large) = (try Contract.blob("one"), try StoreStand.large(1))
    try store.apply([.insert(one), .insert(large)])
    var error: ASN.StoreError?
    let refuse: @Sendable (String) -> Int32? = { $0.hasSuffix("-wal") ? EIO : nil }
    _ = SyncCalls.during(includingData: true, refusing: refuse) {
      error = caught(ASN.StoreError.self) { try store.commit() }
    }
    #expect(error != nil)
    #expect(try store.blob(one.sum) == nil && store.usage().blobs == 0)
    try store.apply([.insert(one), .insert(large)])
    try store.commit()
    store.close()
    let again = try stand.open()
    #expect(try again.blob(one.sum) == one && again.blob(large.sum) == large)
  }

  @Test("A damaged blob file gives an error that names the blob, and a missing file is counted")
  func damage() throws {
    let large = try StoreStand.large(1)
    var store = try stand.open()
    try store.apply([.insert(large)])
    try store.commit()
    let path = "blobs/\(large.sum.hex.prefix(2))/\(large.sum.hex.dropFirst(2))"
    var bytes = large.bytes
    bytes[200] ^= 1
    try stand.folder.write(bytes, to: path)
    #expect(throws: ASN.StoreError.self) { try store.blob(large.sum) }
    #expect(try store.header(large.sum) == large.header)
    store.close()
    try stand.folder.remove(path)
    store = try stand.open()
    #expect(store.missingFiles == 1)
  }

  @Test(
    "A missing or empty database beside blob files is not opened, and the files stay",
    arguments: [true, false])
  func lostDatabase(isMissing: Bool) throws {
    let store = try stand.open()
    let large = try StoreStand.large(1)
    try store.apply([.insert(large)])
    try store.commit()
    store.close()
    for name in try stand.folder.files().keys where name.hasPrefix(SQLiteBlobStore.name) {
      try stand.folder.remove(name)
    }
    if !isMissing { try stand.folder.write([], to: SQLiteBlobStore.name) }
    for _ in 0..<2 {
      #expect(throws: ASN.StoreError.self) { try stand.open() }
      #expect(try stand.files == [large.sum.hex])
    }
    try stand.folder.remove(SQLiteBlobStore.folder)
    #expect(try stand.open().usage().blobs == 0)
  }

  @Test("Opening a database of layout 1 computes the shares of its authors and the number of its links")
  func oldLayout() throws {
    var store = try stand.open()
    let (one, user) = (try Contract.blob("one"), try Contract.blob("actual", author: 2, name: "asn/user"))
    try store.apply([.insert(one), .insert(user), .link(Contract.link(one, "a")), .link(Contract.link(user, "b"))])
    try store.apply([.hide(Contract.link(one, "a"), removal: user.sum)])
    try store.commit()
    let usage = try store.usage()
    let shares = try [1, 2].map { try store.share(of: Contract.key($0)) }
    #expect(usage.links == 2 && shares.map(\.users) == [0, 1])
    for trigger in [
      "authorAdded", "authorRemoved", "linkCounted", "linkUncounted", "hiddenCounted", "hiddenUncounted",
    ] {
      try store.database.run("DROP TRIGGER \(trigger)")
    }
    for statement in ["DROP TABLE share", "ALTER TABLE usage DROP COLUMN links", "PRAGMA user_version = 1"] {
      try store.database.run(statement)
    }
    store.close()
    store = try stand.open()
    #expect(try store.usage() == usage && [1, 2].map { try store.share(of: Contract.key($0)) } == shares)
    try store.apply([.purge(one.sum), .purge(user.sum)])
    try store.commit()
    #expect(try store.usage() == StoreUsage() && store.share(of: Contract.key(2)) == AuthorShare())
  }

  @Test("Two processes cannot open one blob store at the same time")
  func locked() throws {
    let store = try stand.open()
    #expect(throws: (any Error).self) { try stand.open() }
    store.close()
  }

  @Test("A backup is one database, which can be opened as a store with every blob, link and flag")
  func backup() throws {
    let store = try stand.open()
    let (one, large) = (try Contract.blob("one"), try StoreStand.large(1))
    try store.apply([
      .insert(one), .insert(large), .link(Contract.link(large, "asn/user")), .flag(one.sum, removal: large.sum),
    ])
    try store.commit()
    let other = try StoreStand()
    try other.folder.write([], to: SQLiteBlobStore.name)
    // Changes that are not committed are neither copied nor lost.
    let late = try StoreStand.large(2)
    try store.apply([.insert(late)])
    #expect(throws: ASN.StoreError.self) { try store.backUp(to: other.folder.path(SQLiteBlobStore.name)) }
    #expect(try store.blob(late.sum) == late)
    store.rollBack()
    #expect(try stand.files == [large.sum.hex] && store.blob(late.sum) == nil)
    try store.backUp(to: other.folder.path(SQLiteBlobStore.name))
    // The store continues to work.
    try store.apply([.purge(one.sum)])
    try store.commit()
    let restored = try other.open()
    #expect(try restored.blob(one.sum) == one && restored.blob(large.sum) == large && restored.isFlagged(one.sum))
    #expect(try restored.links(to: large.sum) == [Contract.link(large, "asn/user")])
    #expect(try restored.usage().blobs == 2 && restored.missingFiles == 0 && other.files == [])
    try restored.apply([.purge(large.sum)])
    try restored.commit()
    #expect(try restored.blob(large.sum) == nil)
  }
}
