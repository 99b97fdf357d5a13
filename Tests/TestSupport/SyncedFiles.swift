import Common
import Foundation

/// What the files of a folder have on a disk that keeps nothing but what was synced: each file as it was at its last `fsync` or
/// `fdatasync`.
public final class SyncedFiles: Sendable {
  private let folder: String
  private let files = Locked<[String: [UInt8]]>([:])
  private let entries = Locked<Set<String>>([])

  /// - Parameter folder: without the folders in it.
  public init(_ folder: String) { self.folder = folder }

  /// Does `body`, and notes what is synced by it.
  ///
  /// - Parameter meanwhile: called at each sync, before the disk has it.
  public func during(meanwhile: @escaping @Sendable () -> Void = {}, _ body: () throws -> Void) rethrows {
    _ = try SyncCalls.during(
      includingData: true,
      refusing: { [self] path in
        meanwhile()
        let url = URL(fileURLWithPath: path)
        if url.path == folder { entries.withLock { $0 = Set(written.keys) } }
        if url.deletingLastPathComponent().path == folder, let data = try? Data(contentsOf: url) {
          files.withLock { $0[url.lastPathComponent] = Array(data) }
        }
        return nil
      }, body)
  }

  /// The names that the folder had when it was synced last.
  public var syncedNames: Set<String> { entries.withLock { $0 } }

  /// Each file by its name, as the disk has it; what was removed is gone.
  public var content: [String: [UInt8]] {
    let present = written
    return files.withLock { $0.filter { present[$0.key] != nil } }
  }

  /// Each file by its name, as the processes see it.
  public var written: [String: [UInt8]] {
    var found: [String: [UInt8]] = [:]
    for name in (try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? [] {
      if let data = try? Data(contentsOf: URL(fileURLWithPath: "\(folder)/\(name)")) { found[name] = Array(data) }
    }
    return found
  }
}
