import ASN
import Testing

/// What every `BlobStore` does. Each implementation runs all of it, with a new store each time.
struct StoreContract<Store: BlobStore> {
  let make: () throws -> Store

  static func key(_ number: UInt8) -> UserKey { PermissionTests.key(number) }

  static func blob(
    _ content: String, owner: UInt8 = 1, author: UInt8 = 1, name: String = "n", epoch: UInt64 = 1
  ) throws -> Blob {
    Blob(
      owner: key(owner), author: key(author), epoch: epoch, name: try BlobName(name), content: Array(content.utf8),
      random: [UInt8](repeating: 0, count: 32))
  }

  static func link(_ blob: Blob, _ name: String, owner: UInt8 = 1) -> Link {
    Link(owner: key(owner), name: name, sum: blob.sum, epoch: blob.header.epoch)
  }

  /// A blob is there verbatim, once, and is logged once; a purge takes everything that is about it.
  func blobs() throws {
    var store = try make()
    let (one, other) = (try Self.blob("one"), try Self.blob("other"))
    #expect(try store.blob(one.sum) == nil && store.header(one.sum) == nil)
    try store.apply([.insert(one), .insert(one), .insert(other)])
    #expect(try store.blob(one.sum) == one && store.header(one.sum) == one.header)
    #expect(try store.usage().blobs == 2)
    #expect(try store.usage().bytes == UInt64(one.bytes.count + other.bytes.count))
    let (first, last) = (min(one.sum, other.sum), max(one.sum, other.sum))
    #expect(try store.sums(from: first, through: last, limit: 9) == [first, last])
    #expect(try store.sums(from: first, through: first, limit: 9) == [first])
    #expect(try store.sums(from: first, through: last, limit: 1) == [first])
    #expect(try store.sums(from: last, through: first, limit: 9) == [])
    try store.apply([
      .link(Self.link(one, "a")), .link(Self.link(one, "b", owner: 2)), .flag(one.sum, removal: other.sum),
      .hide(Self.link(one, "b", owner: 2), removal: other.sum), .purge(one.sum),
    ])
    #expect(try store.blob(one.sum) == nil && store.links(to: one.sum) == [] && store.link(Self.key(1), "a") == nil)
    #expect(try store.hiddenLinks(removal: other.sum, of: nil) == [] && store.flags(after: nil, limit: 9) == [])
    #expect(try store.usage().blobs == 1)
    let changes = try store.changes(after: 0, limit: 9)
    #expect(changes.map(\.sum) == [one.sum, other.sum, one.sum])
    #expect(changes.map(\.kind) == [.inserted, .inserted, .purged])
    #expect(zip(changes, changes.dropFirst()).allSatisfy { $0.number < $1.number })
    let second = try #require(changes.dropFirst().first)
    #expect(try store.changes(after: second.number, limit: 9).map(\.kind) == [.purged])
    // A number is never used again.
    try store.apply([.insert(one)])
    let latest = try #require(try store.changes(after: 0, limit: 9).last)
    #expect(changes.allSatisfy { $0.number < latest.number })
  }

  /// A directory has each name once, in the order of its octets, and is read in portions.
  func links() throws {
    var store = try make()
    let (one, other) = (try Self.blob("one"), try Self.blob("other", epoch: 2))
    try store.apply([.insert(one), .insert(other)])
    let names = ["a", "a/b", "a/c", "a0", "ab", "asn/user", "\u{E9}", "z"]
    try store.apply(names.reversed().map { .link(Self.link(one, $0)) })
    try store.apply([.link(Self.link(other, "a/b")), .link(Self.link(other, "x", owner: 2))])
    let owner = Self.key(1)
    #expect(try store.link(owner, "a/b") == Self.link(other, "a/b") && store.link(owner, "a/") == nil)
    #expect(try store.linkCount(owner) == 8 && store.linkCount(Self.key(2)) == 1 && store.linkCount(Self.key(3)) == 0)
    let sorted = names.sorted { $0.utf8.lexicographicallyPrecedes($1.utf8) }
    #expect(try store.links(owner, prefix: "", after: nil, limit: 99).map(\.name) == sorted)
    #expect(try store.links(owner, prefix: "a/", after: nil, limit: 99).map(\.name) == ["a/b", "a/c"])
    #expect(try store.links(owner, prefix: "a", after: "a/b", limit: 2).map(\.name) == ["a/c", "a0"])
    #expect(try store.links(owner, prefix: "%", after: nil, limit: 9) == [])
    #expect(try store.links(owner, prefix: "a_", after: nil, limit: 9) == [])
    #expect(Set(try store.links(to: other.sum)) == [Self.link(other, "a/b"), Self.link(other, "x", owner: 2)])
    try store.apply([.unlink(owner: owner, name: "a/b"), .unlink(owner: owner, name: "none")])
    #expect(try store.links(to: other.sum) == [Self.link(other, "x", owner: 2)])
    #expect(try store.users(from: Self.key(0), through: Self.key(255), limit: 9) == [owner])
    #expect(try store.usage().users == 1)
    try store.apply([.link(Self.link(other, "asn/user", owner: 2)), .link(Self.link(one, "asn/user", owner: 2))])
    #expect(try store.users(from: Self.key(0), through: Self.key(255), limit: 9) == [owner, Self.key(2)])
    #expect(try store.users(from: Self.key(2), through: Self.key(255), limit: 9) == [Self.key(2)])
    #expect(try store.users(from: Self.key(0), through: Self.key(255), limit: 1) == [owner])
    #expect(try store.usage().users == 2)
    try store.apply([.unlink(owner: owner, name: "asn/user")])
    #expect(try store.usage().users == 1)
  }

  /// A hidden link is in no directory; a blob is flagged as long as one removal flags it.
  func removals() throws {
    var store = try make()
    let blobs = try ["target", "first", "second"].map { try Self.blob($0) }
    let (target, first, second) = (blobs[0].sum, blobs[1].sum, blobs[2].sum)
    let link = Self.link(blobs[0], "a")
    try store.apply(blobs.map { .insert($0) } + [.link(link)])
    try store.apply([.hide(link, removal: first), .flag(target, removal: first), .flag(target, removal: second)])
    #expect(try store.link(link.owner, "a") == nil && store.links(to: target) == [] && store.linkCount(link.owner) == 0)
    #expect(try store.hiddenLinks(removal: first, of: nil) == [link])
    #expect(try store.hiddenLinks(removal: first, of: target) == [link])
    #expect(
      try store.hiddenLinks(removal: first, of: second) == [] && store.hiddenLinks(removal: second, of: nil) == [])
    #expect(try store.removals(flagging: target) == [first, second].sorted() && store.isFlagged(target))
    let flags = [Flag(target, removal: first), Flag(target, removal: second)].sorted()
    #expect(try store.flags(after: nil, limit: 9) == flags && store.flags(after: flags[0], limit: 9) == [flags[1]])
    #expect(try store.flags(after: nil, limit: 1) == [flags[0]])
    try store.apply([.rehide(link, from: first, to: second), .unflag(target, removal: first)])
    #expect(try store.hiddenLinks(removal: second, of: target) == [link] && store.isFlagged(target))
    try store.apply([.unhide(link, removal: second), .link(link), .unflag(target, removal: second)])
    #expect(try store.link(link.owner, "a") == link && !store.isFlagged(target))
    #expect(try store.hiddenLinks(removal: second, of: nil) == [])
  }
}

@Suite("The store in memory keeps the contract of stores")
struct MemoryBlobStoreTests {
  private let contract = StoreContract { MemoryBlobStore() }

  @Test("Blobs are there verbatim and once, and a purge takes everything that is about them")
  func blobs() throws { try contract.blobs() }

  @Test("A directory has each name once, in the order of its octets")
  func links() throws { try contract.links() }

  @Test("Hidden links are in no directory, and flags go with their removals")
  func removals() throws { try contract.removals() }

  @Test("A commit that fails undoes everything since the last one")
  func commit() throws {
    var store = MemoryBlobStore()
    let (one, other) = (
      try StoreContract<MemoryBlobStore>.blob("one"), try StoreContract<MemoryBlobStore>.blob("other")
    )
    try store.apply([.insert(one)])
    try store.commit()
    try store.apply([.insert(other)])
    store.commitFailure = .full
    #expect(throws: StoreError.full) { try store.commit() }
    #expect(store.blob(one.sum) == one && store.blob(other.sum) == nil)
    store.failure = .readOnly
    #expect(throws: StoreError.readOnly) { try store.apply([.insert(other)]) }
    #expect(store.blob(other.sum) == nil)
  }
}
