import Glibc

/// The directory of the service's persistent state: inaccessible to other users, and used by one process.
public final class StateDirectory: Sendable {
  public let directory: any Directory
  /// The owner of the directory and its content.
  let user: UInt32

  /// Opens and locks the directory; its last path component is created if necessary.
  ///
  /// - Parameters:
  ///   - path: nil means the first directory of `$STATE_DIRECTORY`, which systemd created.
  ///   - folder: a subdirectory to open and lock instead, which is created if necessary. Each part of the service may
  ///     have its own subdirectory, so that their locks do not conflict.
  ///   - environment: returns the value of an environment variable.
  /// - Throws: `missing` if neither is given, `wrongMode`, `wrongOwner`, `inUse`, or an error of the disk.
  public init(
    path: String? = nil, folder: String? = nil, on fileSystem: any FileSystem = SystemFileSystem(),
    environment: (String) -> String? = StateDirectory.environment
  ) throws(StoreError) {
    let given = Self.path(path, environment: environment)
    guard let given, !given.isEmpty else {
      throw StoreError(
        .missing, "There is no state directory. Start the service with systemd, or set Directory= in section [Store].")
    }
    user = fileSystem.user
    let outer = try Self.open(given, on: fileSystem)
    try outer.status().requirePrivate(to: user, outer.path)
    if let folder {
      directory = try outer.openDirectory(making: folder)
      try directory.status().requirePrivate(to: user, directory.path)
    } else {
      directory = outer
    }
    try directory.lock()
  }

  /// The path that `init` uses for these arguments; nil or empty if there is no state directory.
  public static func path(
    _ path: String?, environment: (String) -> String? = StateDirectory.environment
  ) -> String? {
    path ?? environment("STATE_DIRECTORY")?.split(separator: ":").first.map(String.init)
  }

  /// Throws `wrongMode` or `wrongOwner` if other users can read or write the entry. No effect if it does not exist.
  public func requirePrivate(_ name: String) throws(StoreError) {
    try directory.status(of: name)?.requirePrivate(to: user, directory.path(of: name))
  }

  /// Overwrites and removes the existing files among `names`. When this returns, they remain removed after a loss of
  /// power.
  ///
  /// A file that cannot be overwritten is removed, and the other files are still erased; the first error is thrown at
  /// the end.
  public func erase(_ names: [String]) throws(StoreError) {
    var failure: StoreError?
    for name in names {
      do throws(StoreError) {
        if try directory.status(of: name) != nil { try directory.erase(name) }
      } catch {
        failure = failure ?? error
      }
    }
    try directory.sync()
    if let failure { throw failure }
  }

  private static func open(_ path: String, on fileSystem: any FileSystem) throws(StoreError) -> any Directory {
    do throws(StoreError) {
      return try fileSystem.openDirectory(path)
    } catch {
      let parts = path.split(separator: "/")
      guard error.reason == .missing, let name = parts.last.map(String.init), name != "..", name != "." else {
        throw error
      }
      let parent = parts.dropLast().joined(separator: "/")
      let top = path.hasPrefix("/") ? "/" : (parent.isEmpty ? "." : "")
      return try fileSystem.openDirectory(top + parent).openDirectory(making: name)
    }
  }

  /// Opens a subdirectory with the same access checks; it is created if necessary.
  func open(_ name: String) throws(StoreError) -> any Directory {
    let inner = try directory.openDirectory(making: name)
    try inner.status().requirePrivate(to: user, inner.path)
    return inner
  }

  /// An environment variable of this process.
  public static func environment(_ name: String) -> String? {
    getenv(name).map { String(cString: $0) }
  }
}
