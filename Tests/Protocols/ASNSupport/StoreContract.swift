import ASN

/// What every `BlobStore` does. Each implementation runs all of it, with a new store each time.
///
/// Each function returns the lines of the expectations that the store did not meet.
public struct StoreContract<Store: BlobStore> {
  private let make: () throws -> Store

  public init(_ make: @escaping () throws -> Store) { self.make = make }

  /// The key of 32 equal octets.
  public static func key(_ number: UInt8) throws -> UserKey { try UserKey([UInt8](repeating: number, count: 32)) }

  public static func blob(
    _ content: String, owner: UInt8 = 1, author: UInt8 = 1, name: String = "n", epoch: UInt64 = 1
  ) throws -> Blob {
    Blob(
      owner: try key(owner), author: try key(author), epoch: epoch, name: try BlobName(name),
      content: Array(content.utf8),
      random: [UInt8](repeating: 0, count: 32))
  }

  public static func link(_ blob: Blob, _ name: String, owner: UInt8 = 1) throws -> Link {
    Link(owner: try key(owner), name: name, sum: blob.sum, epoch: blob.header.epoch)
  }

  /// A blob is there verbatim, once, and is logged once; a purge takes everything that is about it.
  public func blobs() throws -> [String] {
    var store = try make()
    var failures = Failures()
    let (one, other) = (try Self.blob("one"), try Self.blob("other"))
    try failures.expect(store.blob(one.sum) == nil && store.header(one.sum) == nil)
    try store.apply([.insert(one), .insert(one), .insert(other)])
    try failures.expect(store.blob(one.sum) == one && store.header(one.sum) == one.header)
    try failures.expect(store.usage().blobs == 2)
    try failures.expect(store.usage().bytes == UInt64(one.bytes.count + other.bytes.count))
    let (first, last) = (min(one.sum, other.sum), max(one.sum, other.sum))
    var share = try store.share(of: Self.key(1))
    failures.expect(share.bytes == UInt64(one.bytes.count + other.bytes.count) && share.users == 0)
    let user = try Self.blob("user", author: 3, name: "asn/user")
    try store.apply([.insert(user), .insert(user)])
    share = try store.share(of: Self.key(3))
    failures.expect(share.bytes == UInt64(user.bytes.count) && share.users == 1)
    try store.apply([.purge(user.sum)])
    try failures.expect(store.share(of: Self.key(3)) == AuthorShare())
    try failures.expect(store.sums(from: first, through: last, limit: 9) == [first, last])
    try failures.expect(store.sums(from: first, through: first, limit: 9) == [first])
    try failures.expect(store.sums(from: first, through: last, limit: 1) == [first])
    try failures.expect(store.sums(from: last, through: first, limit: 9) == [])
    try store.apply([
      .link(Self.link(one, "a")), .link(Self.link(one, "b", owner: 2)), .flag(one.sum, removal: other.sum),
      .hide(Self.link(one, "b", owner: 2), removal: other.sum), .purge(one.sum),
    ])
    try failures.expect(
      store.blob(one.sum) == nil && store.links(to: one.sum) == [] && store.link(Self.key(1), "a") == nil)
    try failures.expect(store.hiddenLinks(removal: other.sum, of: nil) == [] && store.flags(after: nil, limit: 9) == [])
    try failures.expect(store.usage().blobs == 1)
    let changes = try store.changes(after: 0, limit: 9).filter { $0.sum != user.sum }
    failures.expect(changes.map(\.sum) == [one.sum, other.sum, one.sum])
    failures.expect(changes.map(\.kind) == [.inserted, .inserted, .purged])
    failures.expect(zip(changes, changes.dropFirst()).allSatisfy { $0.number < $1.number })
    guard changes.count == 3 else { return failures.lines }
    let second = changes[1]
    let later = try store.changes(after: second.number, limit: 9).filter { $0.sum != user.sum }
    failures.expect(later.map(\.kind) == [.purged])
    // A number is never used again.
    try store.apply([.insert(one)])
    let latest = try store.changes(after: 0, limit: 9).last?.number ?? 0
    failures.expect(changes.allSatisfy { $0.number < latest })
    return failures.lines
  }

  /// A directory has each name once, in the order of its octets, and is read in portions.
  public func links() throws -> [String] {
    var store = try make()
    var failures = Failures()
    let (one, other) = (try Self.blob("one"), try Self.blob("other", epoch: 2))
    try store.apply([.insert(one), .insert(other)])
    let names = ["a", "a/b", "a/c", "a0", "ab", "asn/user", "\u{E9}", "z"]
    try store.apply(names.reversed().map { .link(try Self.link(one, $0)) })
    try store.apply([.link(Self.link(other, "a/b")), .link(Self.link(other, "x", owner: 2))])
    let owner = try Self.key(1)
    try failures.expect(store.link(owner, "a/b") == Self.link(other, "a/b") && store.link(owner, "a/") == nil)
    try failures.expect(
      store.linkCount(owner) == 8 && store.linkCount(Self.key(2)) == 1 && store.linkCount(Self.key(3)) == 0)
    // Equal characters do not make equal names.
    try store.apply([.link(Self.link(other, "e\u{301}", owner: 4)), .link(Self.link(one, "\u{E9}", owner: 4))])
    try failures.expect(store.linkCount(Self.key(4)) == 2 && store.link(Self.key(4), "\u{E9}")?.sum == one.sum)
    try failures.expect(store.usage().links == 11)
    try store.apply([.unlink(owner: Self.key(4), name: "\u{E9}"), .unlink(owner: Self.key(4), name: "e\u{301}")])
    try failures.expect(store.linkCount(Self.key(4)) == 0 && store.usage().links == 9)
    let sorted = names.sorted { $0.utf8.lexicographicallyPrecedes($1.utf8) }
    try failures.expect(store.links(owner, prefix: "", after: nil, limit: 99).map(\.name) == sorted)
    try failures.expect(store.links(owner, prefix: "a/", after: nil, limit: 99).map(\.name) == ["a/b", "a/c"])
    try failures.expect(store.links(owner, prefix: "a", after: "a/b", limit: 2).map(\.name) == ["a/c", "a0"])
    try failures.expect(store.links(owner, prefix: "%", after: nil, limit: 9) == [])
    try failures.expect(store.links(owner, prefix: "a_", after: nil, limit: 9) == [])
    try failures.expect(Set(store.links(to: other.sum)) == [Self.link(other, "a/b"), Self.link(other, "x", owner: 2)])
    try store.apply([.unlink(owner: owner, name: "a/b"), .unlink(owner: owner, name: "none")])
    try failures.expect(store.links(to: other.sum) == [Self.link(other, "x", owner: 2)])
    try failures.expect(store.users(from: Self.key(0), through: Self.key(255), limit: 9) == [owner])
    try failures.expect(store.usage().users == 1)
    try store.apply([.link(Self.link(other, "asn/user", owner: 2)), .link(Self.link(one, "asn/user", owner: 2))])
    try failures.expect(store.users(from: Self.key(0), through: Self.key(255), limit: 9) == [owner, Self.key(2)])
    try failures.expect(store.users(from: Self.key(2), through: Self.key(255), limit: 9) == [Self.key(2)])
    try failures.expect(store.users(from: Self.key(0), through: Self.key(255), limit: 1) == [owner])
    try failures.expect(store.usage().users == 2)
    try store.apply([.unlink(owner: owner, name: "asn/user")])
    try failures.expect(store.usage().users == 1)
    return failures.lines
  }

  /// A hidden link is in no directory; a blob is flagged as long as one removal flags it.
  public func removals() throws -> [String] {
    var store = try make()
    var failures = Failures()
    let blobs = try ["target", "first", "second"].map { try Self.blob($0) }
    let (target, first, second) = (blobs[0].sum, blobs[1].sum, blobs[2].sum)
    let link = try Self.link(blobs[0], "a")
    try store.apply(blobs.map { .insert($0) } + [.link(link)])
    try store.apply([.hide(link, removal: first), .flag(target, removal: first), .flag(target, removal: second)])
    try failures.expect(
      store.link(link.owner, "a") == nil && store.links(to: target) == [] && store.linkCount(link.owner) == 0)
    try failures.expect(store.hiddenLinks(removal: first, of: nil) == [link] && store.usage().links == 1)
    try failures.expect(store.hiddenLinks(removal: first, of: target) == [link])
    try failures.expect(
      store.hiddenLinks(removal: first, of: second) == [] && store.hiddenLinks(removal: second, of: nil) == [])
    try failures.expect(store.removals(flagging: target) == [first, second].sorted() && store.isFlagged(target))
    let flags = [Flag(target, removal: first), Flag(target, removal: second)].sorted()
    try failures.expect(
      store.flags(after: nil, limit: 9) == flags && store.flags(after: flags[0], limit: 9) == [flags[1]])
    try failures.expect(store.flags(after: nil, limit: 1) == [flags[0]])
    try store.apply([.rehide(link, from: first, to: second), .unflag(target, removal: first)])
    try failures.expect(store.hiddenLinks(removal: second, of: target) == [link] && store.isFlagged(target))
    try store.apply([.unhide(link, removal: second), .link(link), .unflag(target, removal: second)])
    try failures.expect(store.link(link.owner, "a") == link && !store.isFlagged(target))
    try failures.expect(store.hiddenLinks(removal: second, of: nil) == [] && store.usage().links == 1)
    return failures.lines
  }
}

/// The expectations that were not met.
private struct Failures {
  private(set) var lines: [String] = []

  mutating func expect(_ isMet: Bool, line: Int = #line) {
    if !isMet { lines.append("StoreContract.swift:\(line)") }
  }
}
