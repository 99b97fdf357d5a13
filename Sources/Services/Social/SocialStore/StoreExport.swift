import ASN
import Store

/// Writes a store as a tree of files, as the original servers have it. Facts: asn.md sections 7 and 9
///
///     SUM[0:2]/SUM[2:128]            a blob; octet 1 has the bit 0x80 if a removal flagged the blob
///     OWNER[0:2]/OWNER[2:64]/NAME    a link: the same file under a second name
///
/// Links that a removal hid are not in the tree. A link whose name is a directory of other links, or the other way
/// round, cannot be in a tree of files: it is left out and counted.
public struct StoreExport {
  /// Number of blobs and links that an export has written, and of links that it left out.
  public struct Report: Hashable, Sendable {
    public var blobs = 0
    public var links = 0
    /// Number of links that were left out.
    public var omitted = 0
  }

  /// The bit of octet 1 that is set if a removal flagged the blob.
  static let flag: UInt8 = 0x80

  private let store: SQLiteBlobStore
  private let tree: any Directory
  private var report = Report()
  /// The open directories of one owner, by their paths.
  private var opened: [String: any Directory] = [:]

  /// Creates the directory `path`, which must not exist, and writes the tree into it. The tree survives a loss of power
  /// when this returns.
  public static func write(
    _ store: SQLiteBlobStore, to path: String, on fileSystem: any FileSystem = SystemFileSystem()
  ) throws(Store.StoreError) -> Report {
    let parts = path.split(separator: "/")
    guard path.hasPrefix("/"), let name = parts.last.map(String.init), name != ".", name != ".." else {
      throw Store.StoreError(.failed, "The path of an export begins with a slash and ends with a name.")
    }
    let parent = try fileSystem.openDirectory("/" + parts.dropLast().joined(separator: "/"))
    try parent.makeDirectory(name)
    var export = StoreExport(store: store, tree: try parent.openDirectory(name))
    try export.writeBlobs()
    try export.writeLinks()
    try export.tree.sync()
    try parent.sync()
    return export.report
  }

  private init(store: SQLiteBlobStore, tree: any Directory) { (self.store, self.tree) = (store, tree) }

  private mutating func writeBlobs() throws(Store.StoreError) {
    var current: (name: String, directory: any Directory)?
    var sums = try read { (store) throws(ASN.StoreError) in try store.allSums(after: nil, limit: 256) }
    while let last = sums.last {
      for sum in sums {
        let (folder, name) = BlobFiles.place(sum)
        if current?.name != folder {
          try current?.directory.sync()
          current = (folder, try tree.openDirectory(making: folder))
        }
        let blob = try read { (store) throws(ASN.StoreError) in try store.blob(sum) }
        guard var bytes = blob?.bytes, bytes.count > 1, let directory = current?.directory else { continue }
        if try read({ (store) throws(ASN.StoreError) in try store.isFlagged(sum) }) { bytes[1] |= Self.flag }
        let file = try directory.create(name)
        try file.write(bytes, at: 0)
        try file.sync()
        report.blobs += 1
      }
      sums = try read { (store) throws(ASN.StoreError) in try store.allSums(after: last, limit: 256) }
    }
    try current?.directory.sync()
  }

  private mutating func writeLinks() throws(Store.StoreError) {
    var links = try read { (store) throws(ASN.StoreError) in try store.allLinks(after: nil, limit: 256) }
    var owner: UserKey?
    while let last = links.last {
      for link in links {
        if link.owner != owner { try closeDirectories() }
        owner = link.owner
        try write(link)
      }
      links = try read { (store) throws(ASN.StoreError) in try store.allLinks(after: last, limit: 256) }
    }
    try closeDirectories()
  }

  private mutating func write(_ link: Link) throws(Store.StoreError) {
    let (source, file) = BlobFiles.place(link.sum)
    let hex = link.owner.hex
    var parts = [String(hex.prefix(2)), String(hex.dropFirst(2))]
    parts += LinkNames.exported(link).split(separator: "/").map(String.init)
    let name = parts.removeLast()
    do throws(Store.StoreError) {
      let directory = try open(parts)
      try tree.openDirectory(source).link(file, as: name, in: directory)
      report.links += 1
    } catch {
      guard error.reason == .exists || error.reason == .wrongKind else { throw error }
      report.omitted += 1
    }
  }

  private mutating func open(_ parts: [String]) throws(Store.StoreError) -> any Directory {
    var directory = tree
    var path = ""
    for part in parts {
      path += "/" + part
      if let known = opened[path] {
        directory = known
      } else {
        directory = try directory.openDirectory(making: part)
        // An owner may have more directories than a process may have open files.
        if opened.count >= 64 { try closeDirectories() }
        opened[path] = directory
      }
    }
    return directory
  }

  private mutating func closeDirectories() throws(Store.StoreError) {
    for directory in opened.values { try directory.sync() }
    opened = [:]
  }

  private func read<Value>(
    _ body: (SQLiteBlobStore) throws(ASN.StoreError) -> Value
  ) throws(Store.StoreError) -> Value {
    do throws(ASN.StoreError) {
      return try body(store)
    } catch {
      throw Store.StoreError(.failed, "The store cannot be read: \(error)")
    }
  }
}
