import ASN
import ASNSupport
import Store
import TestSupport
import Testing

@testable import SocialStore

@Suite("File trees of the original ASN servers")
struct StoreTreeTests {
  private let stand: StoreStand
  private let tree: ScratchFolder

  init() throws { (stand, tree) = (try StoreStand(), try ScratchFolder()) }

  private static func path(_ sum: Sum) -> String { "\(sum.hex.prefix(2))/\(sum.hex.dropFirst(2))" }
  private static func folder(_ owner: UInt8) throws -> String {
    let hex = try Contract.key(owner).hex
    return "\(hex.prefix(2))/\(hex.dropFirst(2))"
  }
  /// The name under which the originals link a blob.
  private static func base(_ blob: Blob) -> String {
    let epoch = String(blob.header.epoch, radix: 16)
    return String(repeating: "0", count: 16 - epoch.utf8.count) + epoch + "_" + blob.sum.hex.prefix(16)
  }

  /// A store with every kind of link and a removal.
  private struct Sample {
    let user: Blob
    let message: Blob
    let removed: Blob
    let removal: Blob
    let large: Blob

    init() throws {
      user = try Contract.blob("actual", name: "asn/user")
      message = try Contract.blob("hello", author: 2, name: "", epoch: 0x13FA)
      removed = try Contract.blob("gone", name: "old")
      large = try StoreStand.large(7, name: "deep/er/file")
      removal = Blob(
        owner: try Contract.key(1), author: try Contract.key(1), epoch: 9, name: .removals, content: removed.sum.bytes,
        random: [])
    }

    var blobs: [Blob] { [user, message, removed, removal, large] }

    var changes: [StoreChange] {
      get throws {
        try blobs.map { .insert($0) }
          + [
            .link(Contract.link(user, "asn/user")), .link(Contract.link(message, message.link)),
            .link(Contract.link(message, message.link, owner: 2)), .link(Contract.link(removal, removal.link)),
            .link(Contract.link(large, "deep/er/file")), .link(Contract.link(removed, "old")),
            .hide(Contract.link(removed, "old"), removal: removal.sum), .flag(removed.sum, removal: removal.sum),
          ]
      }
    }
  }

  @Test(
    "An export has each blob under its sum, links as hard links, and 0x80 in byte 1 of flagged blobs")
  func export() throws {
    let (store, sample) = (try stand.open(), try Sample())
    try store.apply(sample.changes)
    try store.commit()
    let report = try StoreExport.write(store, to: tree.path("tree"))
    #expect(report == StoreExport.Report(blobs: 5, links: 5, omitted: 0))
    for blob in sample.blobs where blob != sample.removed {
      #expect(try tree.read("tree/" + Self.path(blob.sum)) == blob.bytes)
    }
    var flagged = sample.removed.bytes
    flagged[1] = 0x88
    #expect(try tree.read("tree/" + Self.path(sample.removed.sum)) == flagged)
    let owner = "tree/" + (try Self.folder(1))
    #expect(try tree.read(owner + "/asn/user") == sample.user.bytes)
    #expect(try tree.read(owner + "/deep/er/file") == sample.large.bytes)
    let name = "/asn/messages/00000000000013fa_" + sample.message.sum.hex.prefix(16)
    #expect(try tree.read(owner + name) == sample.message.bytes)
    #expect(try tree.read("tree/" + Self.folder(2) + name) == sample.message.bytes)
    #expect(!tree.exists(owner + "/old"))
    #expect(try tree.files().count == 10)
    #expect(throws: Store.StoreError.self) { try StoreExport.write(store, to: tree.path("tree")) }
  }

  @Test("A store that is exported and imported has the same blobs, links, flags and hidden links")
  func roundTrip() throws {
    let (store, sample) = (try stand.open(), try Sample())
    try store.apply(sample.changes)
    try store.commit()
    _ = try StoreExport.write(store, to: tree.path("tree"))
    let other = try StoreStand()
    let copy = try other.open()
    let report = try StoreImport.read(from: tree.path("tree"), into: copy)
    #expect(report.blobs == 5 && report.links == 5 && report.flagged == 1 && report.problems == 0)
    for blob in sample.blobs { #expect(try copy.blob(blob.sum) == blob) }
    #expect(try copy.allLinks(after: nil, limit: 99) == store.allLinks(after: nil, limit: 99))
    #expect(try copy.flags(after: nil, limit: 9) == store.flags(after: nil, limit: 9))
    #expect(
      try copy.hiddenLinks(removal: sample.removal.sum, of: nil)
        == store.hiddenLinks(removal: sample.removal.sum, of: nil))
    // A second time nothing is new.
    let again = try StoreImport.read(from: tree.path("tree"), into: copy)
    #expect(again.blobs == 0 && again.links == 0 && again.problems == 0)
    #expect(try copy.usage() == store.usage())
  }

  @Test("An imported link named by epoch and sum, or by 32 digits, gets a name of 64 digits")
  func names() throws {
    let message = try Contract.blob("m", name: "", epoch: 0x13FA)
    let note = try Contract.blob("n", name: "notes/")
    for blob in [message, note] {
      try tree.make(String(blob.sum.hex.prefix(2)))
      try tree.write(blob.bytes, to: Self.path(blob.sum))
    }
    let owner = try Self.folder(1)
    try tree.make(owner + "/asn/messages")
    try tree.make(owner + "/notes")
    try tree.write(message.bytes, to: owner + "/asn/messages/" + Self.base(message))
    try tree.write(note.bytes, to: owner + "/notes/" + note.sum.hex.prefix(32))
    let store = try stand.open()
    _ = try StoreImport.read(from: tree.path, into: store)
    let names = try store.allLinks(after: nil, limit: 9).map(\.name)
    #expect(names == [message.link, note.link])
  }

  @Test("An imported link does not replace a stored link of the same name to a newer blob")
  func newer() throws {
    let (old, new) = (try Contract.blob("old"), try Contract.blob("new", epoch: 2))
    let store = try stand.open()
    try store.apply([.insert(new), .link(Contract.link(new, "n"))])
    try store.commit()
    let owner = try Self.folder(1)
    try tree.make(owner)
    try tree.write(old.bytes, to: owner + "/n")
    let report = try StoreImport.read(from: tree.path, into: store)
    #expect(report.blobs == 1 && report.links == 0)
    #expect(try store.links(to: new.sum) == [Contract.link(new, "n")] && store.blob(old.sum) == old)
  }

  @Test("An imported flagged blob without its removal stays flagged until gc, and a newer blob gets its name")
  func orphanFlag() throws {
    let (old, new) = (try Contract.blob("old"), try Contract.blob("new", epoch: 2))
    var flagged = old.bytes
    flagged[1] |= 0x80
    try tree.make(String(old.sum.hex.prefix(2)))
    try tree.write(flagged, to: Self.path(old.sum))
    let store = try stand.open()
    try store.apply([.insert(new), .link(Contract.link(new, "n"))])
    let report = try StoreImport.read(from: tree.path, into: store)
    #expect(report.flagged == 1)
    #expect(try store.blob(old.sum) == old && store.isFlagged(old.sum))
    #expect(try store.links(to: new.sum) == [Contract.link(new, "n")])
  }

  @Test("An import adds nothing from files with wrong sums, bad names or excessive size, or from symbolic links")
  func hostile() throws {
    let good = try Contract.blob("good")
    let hex = String(repeating: "ab", count: 64)
    try tree.make("ab")
    try tree.write(good.bytes, to: "ab/" + hex.dropFirst(2))
    try tree.write([0], to: "ab/" + String(repeating: "c", count: 126))
    try tree.write([UInt8](repeating: 0, count: 200), to: "ab/" + String(repeating: "d", count: 126))
    try tree.write([UInt8](repeating: 0, count: BlobFiles.limit + 1), to: "ab/" + String(repeating: "e", count: 126))
    try tree.write(good.bytes, to: "ab/short")
    try tree.write(good.bytes, to: "config")
    let owner = try Self.folder(1)
    try tree.make(owner)
    try tree.write(good.bytes, to: owner + "/bad\u{7}name")
    try tree.linkSymbolically("/etc/passwd", as: owner + "/passwd")
    try tree.linkSymbolically("/etc", as: owner + "/etc")
    let store = try stand.open()
    let report = try StoreImport.read(from: tree.path, into: store)
    #expect(report.blobs == 0 && report.links == 0)
    #expect(report.problems == 8)
    #expect(report.examples.count == 8)
    #expect(try store.usage() == StoreUsage())
  }

  @Test("Names that would be both a file and a directory are left out of an export and counted")
  func clash() throws {
    let blob = try Contract.blob("one")
    let store = try stand.open()
    try store.apply([.insert(blob), .link(Contract.link(blob, "a")), .link(Contract.link(blob, "a/b"))])
    try store.commit()
    let report = try StoreExport.write(store, to: tree.path("tree"))
    #expect(report == StoreExport.Report(blobs: 1, links: 1, omitted: 1))
  }
}

extension Blob {
  fileprivate var link: String { header.name?.link(sum) ?? "" }
}
