import ASN
import Store

/// Reads a tree of files, as the original servers and `StoreExport` write it, into a store. Facts: asn.md sections 7
/// and 9
///
/// Nothing in the tree is trusted: a blob counts only under its own sum, a link only under a valid name. Symbolic links
/// are not followed. Blobs that are already in the store stay, and a link refers to the newer blob. Each portion is
/// committed separately, so an interrupted import can be repeated.
public struct StoreImport {
  /// Number of imported blobs and links, and of files that were skipped.
  public struct Report: Hashable, Sendable {
    public var blobs = 0
    public var links = 0
    public var flagged = 0
    /// Number of files that were skipped.
    public var problems = 0
    /// The first skipped files, with the reasons; at most 100.
    public var examples: [String] = []
  }

  /// Maximum octets of blobs, and maximum changes, in one commit.
  private static let portion = (octets: 4 << 20, changes: 1000)

  private let store: SQLiteBlobStore
  private let tree: any Directory
  private var report = Report()
  private var pending = (octets: 0, changes: 0)
  private var flagged: Set<Sum> = []
  private var removals: [Sum] = []

  public static func read(
    from path: String, into store: SQLiteBlobStore, on fileSystem: any FileSystem = SystemFileSystem()
  ) throws(ASN.StoreError) -> Report {
    var reading = StoreImport(
      store: store, tree: try BlobFiles.onDisk { () throws(Store.StoreError) in try fileSystem.openDirectory(path) })
    do throws(ASN.StoreError) {
      try reading.read()
    } catch {
      // The portion that is not committed must not become part of the next commit.
      store.rollBack()
      throw error
    }
    return reading.report
  }

  private init(store: SQLiteBlobStore, tree: any Directory) { (self.store, self.tree) = (store, tree) }

  private mutating func read() throws(ASN.StoreError) {
    var users: [(owner: UserKey, folder: String, name: String)] = []
    for folder in try names(tree) {
      guard folder.utf8.count == 2, HexPrefix(folder)?.digits == folder, try kind(folder, in: tree) == .directory else {
        // The originals have their configuration and their sockets here.
        continue
      }
      let directory = try open(folder, in: tree)
      for name in try names(directory) {
        if let sum = BlobFiles.sum(folder, name) {
          try readBlob(sum, name, in: directory)
        } else if let owner = Self.owner(folder + name), try kind(name, in: directory) == .directory {
          users.append((owner, folder, name))
        } else {
          note("\(folder)/\(name)", "is neither a blob nor a user")
        }
      }
    }
    for (owner, folder, name) in users {
      let directory = try open(name, in: try open(folder, in: tree))
      try readLinks(owner, prefix: "", in: directory)
    }
    try readFlags()
    try commit()
  }

  private static func owner(_ text: String) -> UserKey? {
    guard let prefix = HexPrefix(text), prefix.digits == text, text.utf8.count == 2 * UserKey.size else { return nil }
    return try? UserKey(prefix.lowerBound(count: UserKey.size))
  }

  // MARK: Blobs

  private mutating func readBlob(_ sum: Sum, _ name: String, in directory: any Directory) throws(ASN.StoreError) {
    let path = directory.path(of: name)
    guard let (blob, isFlagged) = try blob(name, in: directory) else { return }
    guard blob.sum == sum else { return note(path, "does not have the sum that it is named after") }
    guard let blobName = blob.header.name else { return note(path, "is a blob whose name is not valid") }
    try add(blob)
    if isFlagged { flagged.insert(sum) } else if blobName == .removals { removals.append(sum) }
  }

  private mutating func add(_ blob: Blob) throws(ASN.StoreError) {
    guard try store.header(blob.sum) == nil else { return }
    report.blobs += 1
    try write([.insert(blob)], octets: blob.bytes.count)
  }

  /// The blob in a file, and whether it is flagged; nil if the file has none, which is recorded as a problem.
  private mutating func blob(
    _ name: String, in directory: any Directory
  ) throws(ASN.StoreError) -> (blob: Blob, isFlagged: Bool)? {
    let path = directory.path(of: name)
    var bytes: [UInt8]
    do throws(Store.StoreError) {
      bytes = try directory.contents(of: name, limit: BlobFiles.limit) ?? []
    } catch {
      switch error.reason {
      case .diskFailed, .diskStalled: throw ASN.StoreError(error)
      default: note(path, error.sentence)
      }
      return nil
    }
    guard bytes.count > 1 else {
      note(path, "is too short for a blob")
      return nil
    }
    let isFlagged = bytes[1] & StoreExport.flag != 0
    bytes[1] &= ~StoreExport.flag
    guard let blob = try? Blob(bytes), blob.bytes.count <= Limits.largestBlob else {
      note(path, "is not a blob, or is too large")
      return nil
    }
    return (blob, isFlagged)
  }

  // MARK: Links

  private mutating func readLinks(
    _ owner: UserKey, prefix: String, in directory: any Directory
  ) throws(ASN.StoreError) {
    for name in try names(directory) {
      let full = prefix + name
      guard full.utf8.count <= Limits.name else {
        note(directory.path(of: name), "has a name of more than \(Limits.name) octets")
        continue
      }
      if try kind(name, in: directory) == .directory {
        try readLinks(owner, prefix: full + "/", in: try open(name, in: directory))
        continue
      }
      guard let (blob, isFlagged) = try blob(name, in: directory) else { continue }
      let linkName = LinkNames.imported(full, blob.header)
      guard blob.header.name != nil, (try? BlobName(linkName)) != nil else {
        note(directory.path(of: name), "has a name that is not valid")
        continue
      }
      // A removal deletes the links of what it flags.
      guard !isFlagged, !flagged.contains(blob.sum) else { continue }
      try add(blob)
      let link = Link(owner: owner, name: linkName, sum: blob.sum, epoch: blob.header.epoch)
      guard link.replaces(try store.link(owner, linkName)) else { continue }
      report.links += 1
      try write([.link(link)])
    }
  }

  // MARK: Removals

  /// Sets the flags of the tree, by the removals that exist. A flag without its removal is set by the blob itself: it
  /// cannot be reverted, and `gc` purges the blob.
  private mutating func readFlags() throws(ASN.StoreError) {
    var unexplained = flagged
    for removal in removals {
      guard let blob = try store.blob(removal), let targets = try? Sum.list(blob.content) else { continue }
      for target in targets where flagged.contains(target) {
        let isFirst = unexplained.remove(target) != nil
        try flag(target, by: removal, hides: isFirst)
      }
    }
    for sum in unexplained.sorted() { try flag(sum, by: sum, hides: false) }
  }

  private mutating func flag(_ target: Sum, by removal: Sum, hides: Bool) throws(ASN.StoreError) {
    guard let header = try store.header(target), let name = header.name else { return }
    if hides {
      // The tree has no hidden links: those that every blob of such a name has are found from its header.
      let owners: Set<UserKey> = name.isMessage ? [header.owner, header.author] : [header.owner]
      for owner in owners.sorted() {
        let link = Link(owner: owner, name: name.link(target), sum: target, epoch: header.epoch)
        let current = try store.link(owner, link.name)
        try write([.hide(link, removal: removal)])
        if let current, current.sum != target { try write([.link(current)]) }
      }
    }
    report.flagged += hides || removal == target ? 1 : 0
    try write([.flag(target, removal: removal)])
  }

  // MARK: Writing and reading

  private mutating func write(_ changes: [StoreChange], octets: Int = 0) throws(ASN.StoreError) {
    try store.apply(changes)
    pending.changes += changes.count
    pending.octets += octets
    if pending.changes >= Self.portion.changes || pending.octets >= Self.portion.octets { try commit() }
  }

  private mutating func commit() throws(ASN.StoreError) {
    try store.commit()
    pending = (0, 0)
  }

  private mutating func note(_ path: String, _ reason: String) {
    report.problems += 1
    if report.examples.count < 100 { report.examples.append("\(path): \(reason)") }
  }

  private func names(_ directory: any Directory) throws(ASN.StoreError) -> [String] {
    try BlobFiles.onDisk { () throws(Store.StoreError) in try directory.names().sorted() }
  }

  private func kind(_ name: String, in directory: any Directory) throws(ASN.StoreError) -> FileStatus.Kind? {
    try BlobFiles.onDisk { () throws(Store.StoreError) in try directory.status(of: name)?.kind }
  }

  private func open(_ name: String, in directory: any Directory) throws(ASN.StoreError) -> any Directory {
    try BlobFiles.onDisk { () throws(Store.StoreError) in try directory.openDirectory(name) }
  }
}
