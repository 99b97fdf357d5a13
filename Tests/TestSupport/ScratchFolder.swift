import Foundation

/// A private folder on the real disk, which is deleted with this object.
public final class ScratchFolder: Sendable {
  public let path: String

  public init() throws {
    let folder = FileManager.default.temporaryDirectory.resolvingSymlinksInPath()
    path = folder.appendingPathComponent("scratch-\(UUID().uuidString.prefix(8))").path
    try FileManager.default.createDirectory(
      atPath: path, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
  }

  deinit {
    try? FileManager.default.removeItem(atPath: path)
  }

  public func path(_ name: String) -> String { "\(path)/\(name)" }

  /// The content of all files in the folder and below, by relative path.
  public func files() throws -> [String: [UInt8]] {
    var found: [String: [UInt8]] = [:]
    for name in try FileManager.default.subpathsOfDirectory(atPath: path) {
      var isFolder: ObjCBool = false
      guard FileManager.default.fileExists(atPath: self.path(name), isDirectory: &isFolder), !isFolder.boolValue else {
        continue
      }
      found[name] = try read(name)
    }
    return found
  }

  /// The sizes of all files in the folder and below, by relative path.
  public func sizes() throws -> [String: Int] { try files().mapValues(\.count) }

  public func read(_ name: String) throws -> [UInt8] { Array(try Data(contentsOf: URL(fileURLWithPath: path(name)))) }

  /// Writes a file of mode 0600, replacing the present one.
  public func write(_ bytes: [UInt8], to name: String) throws {
    try Data(bytes).write(to: URL(fileURLWithPath: path(name)))
    try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: path(name))
  }

  /// Makes a folder in it, with the folders above.
  public func make(_ name: String) throws {
    try FileManager.default.createDirectory(atPath: path(name), withIntermediateDirectories: true)
  }

  public func remove(_ name: String) throws { try FileManager.default.removeItem(atPath: path(name)) }

  public func mode(_ name: String) throws -> Int? {
    try FileManager.default.attributesOfItem(atPath: path(name))[.posixPermissions] as? Int
  }

  /// Makes a hard link to a file.
  public func link(_ name: String, as other: String) throws {
    try FileManager.default.linkItem(atPath: path(name), toPath: path(other))
  }

  /// Makes a symbolic link to a path.
  public func linkSymbolically(_ target: String, as name: String) throws {
    try FileManager.default.createSymbolicLink(atPath: path(name), withDestinationPath: target)
  }

  /// Copies a folder in it, byte by byte.
  public func copy(_ name: String, to other: ScratchFolder) throws {
    try FileManager.default.copyItem(atPath: path(name), toPath: other.path(name))
  }

  public func exists(_ name: String) -> Bool { FileManager.default.fileExists(atPath: path(name)) }
}

/// Whether `whole` contains the bytes of `part` contiguously.
public func contains(_ whole: [UInt8], _ part: [UInt8]) -> Bool {
  Data(whole).range(of: Data(part)) != nil
}
