import ASN
import Store

/// The blobs that are too large for the database: each is a file `SUM[0:2]/SUM[2:128]`, as in the published document.
/// Facts: asn.md section 7
///
/// A file is written and synced before the database gets its row, and removed after its row is gone. A row therefore
/// always has its file. A file without a row is left from a commit that failed, and `sweep` removes it.
struct BlobFiles: Sendable {
  /// Maximum size of a blob in the database, in octets. Larger blobs are files.
  static let threshold = 64 * 1024
  /// Maximum size of a file, in octets.
  static let limit = Limits.largestBlob + Blob.fixedHeader + Limits.name
  /// The ending of the name of an incomplete file.
  private static let temporary = ".new"

  private let directory: any Directory

  init(_ directory: any Directory) { self.directory = directory }

  /// Writes a blob. It survives a loss of power when this returns.
  func write(_ blob: Blob) throws(ASN.StoreError) {
    let (folder, name) = Self.place(blob.sum)
    try Self.onDisk { () throws(Store.StoreError) in
      try directory.openDirectory(making: folder).replace(name, with: blob.bytes, temporary: name + Self.temporary)
    }
  }

  /// The octets of a blob; nil if there is no file.
  func read(_ sum: Sum) throws(ASN.StoreError) -> [UInt8]? {
    let (folder, name) = Self.place(sum)
    return try Self.onDisk { () throws(Store.StoreError) in
      guard try directory.status(of: folder) != nil else { return nil }
      return try directory.openDirectory(folder).contents(of: name, limit: Self.limit)
    }
  }

  /// Removes a file. A loss of power may bring it back.
  func remove(_ sum: Sum) throws(ASN.StoreError) {
    let (folder, name) = Self.place(sum)
    try Self.onDisk { () throws(Store.StoreError) in try directory.openDirectory(folder).unlink(name) }
  }

  /// Whether any file has the name of a blob.
  func hasBlobs() throws(ASN.StoreError) -> Bool {
    try Self.onDisk { () throws(Store.StoreError) in
      for folder in try directory.names() where folder.utf8.count == 2 && HexPrefix(folder) != nil {
        let names = try directory.openDirectory(folder).names()
        if names.contains(where: { Self.sum(folder, $0) != nil }) { return true }
      }
      return false
    }
  }

  /// Removes every unwanted file, and returns the number of wanted ones.
  func sweep(isWanted: (Sum) throws(ASN.StoreError) -> Bool) throws(ASN.StoreError) -> Int {
    var found = 0
    let folders = try Self.onDisk { () throws(Store.StoreError) in try directory.names() }
    for folder in folders where folder.utf8.count == 2 && HexPrefix(folder) != nil {
      let (inner, names) = try Self.onDisk { () throws(Store.StoreError) -> (any Directory, [String]) in
        let inner = try directory.openDirectory(folder)
        return (inner, try inner.names())
      }
      for name in names {
        if let sum = Self.sum(folder, name), try isWanted(sum) {
          found += 1
        } else {
          try Self.onDisk { () throws(Store.StoreError) in try inner.unlink(name) }
        }
      }
    }
    return found
  }

  /// Executes a file operation, and converts its error to one of the blob store.
  static func onDisk<Value>(
    _ body: () throws(Store.StoreError) -> Value
  ) throws(ASN.StoreError) -> Value {
    do throws(Store.StoreError) {
      return try body()
    } catch {
      throw ASN.StoreError(error)
    }
  }

  /// The folder and the name of a blob's file.
  static func place(_ sum: Sum) -> (folder: String, name: String) {
    let hex = sum.hex
    return (String(hex.prefix(2)), String(hex.dropFirst(2)))
  }

  /// The sum in the name of a file; nil if the name is not that of a blob.
  static func sum(_ folder: String, _ name: String) -> Sum? {
    guard folder.utf8.count == 2, let prefix = HexPrefix(folder + name), prefix.digits == folder + name,
      prefix.digits.utf8.count == 2 * Sum.size
    else { return nil }
    return try? Sum(prefix.lowerBound(count: Sum.size))
  }
}
