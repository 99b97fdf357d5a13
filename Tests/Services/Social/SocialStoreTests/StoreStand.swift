import ASN
import ASNSupport
import Store
import TestSupport
import Testing

@testable import SocialStore

typealias Contract = StoreContract<SQLiteBlobStore>

/// A state directory on the real disk with a store in it.
struct StoreStand {
  let folder: ScratchFolder

  init() throws { folder = try ScratchFolder() }

  init(_ folder: ScratchFolder) { self.folder = folder }

  func open() throws -> SQLiteBlobStore { try SQLiteBlobStore(in: StateDirectory(path: folder.path)) }

  /// Blobs that are files, by their sums in digits.
  var files: Set<String> {
    get throws {
      let names = try folder.files().keys.filter { $0.hasPrefix("blobs/") }
      return Set(names.map { $0.dropFirst("blobs/".utf8.count).filter { $0 != "/" } })
    }
  }

  /// A blob that is a file.
  static func large(_ number: Int, name: String = "n", octets: Int = 70_000) throws -> Blob {
    try Contract.blob("\(number) " + String(repeating: "x", count: octets), name: name, epoch: UInt64(number + 1))
  }
}
