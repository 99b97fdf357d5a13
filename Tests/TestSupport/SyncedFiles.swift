import Common
import Foundation

/// The files of a folder on a disk that stores synced data alone: each file as it was at its last `fsync` or
/// `fdatasync`.
public final class SyncedFiles: Sendable {
  private let folder: String
  private let files = Locked<[String: [UInt8]]>([:])
  private let entries = Locked<Set<String>>([])

  /// - Parameter folder: its path; folders in it are ignored.
  public init(_ folder: String) { self.folder = folder }

  /// Runs `body`, and records the synced content.
  ///
  /// - Parameter meanwhile: called at each sync, before it takes effect.
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

  /// The names in the folder at its last sync.
  public var syncedNames: Set<String> { entries.withLock { $0 } }

  /// The files on the disk by name, without removed ones.
  public var content: [String: [UInt8]] {
    let present = written
    return files.withLock { $0.filter { present[$0.key] != nil } }
  }

  /// The files by name, as processes see them.
  public var written: [String: [UInt8]] {
    var found: [String: [UInt8]] = [:]
    for name in (try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? [] {
      if let data = try? Data(contentsOf: URL(fileURLWithPath: "\(folder)/\(name)")) { found[name] = Array(data) }
    }
    return found
  }
}
