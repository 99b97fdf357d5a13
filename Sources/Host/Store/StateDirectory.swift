import Glibc

/// The directory where the service keeps what shall survive it: closed to everybody else, and used by one process.
public final class StateDirectory: Sendable {
  public let directory: any Directory
  /// The user that everything in it belongs to.
  let user: UInt32

  /// Opens and locks the directory; its last part is made if it is not there.
  ///
  /// - Parameters:
  ///   - path: nil means the one that systemd made: the first of `$STATE_DIRECTORY`.
  ///   - folder: means the folder of this name in it, which is made if it is not there, and is locked in its place: each part of the
  ///     service that keeps something may have one, and none keeps another out.
  ///   - environment: looks a variable up.
  /// - Throws: `missing` if there is neither, `wrongMode`, `wrongOwner`, `inUse`, or what the disk says.
  public init(
    path: String? = nil, folder: String? = nil, on fileSystem: any FileSystem = SystemFileSystem(),
    environment: (String) -> String? = StateDirectory.environment
  ) throws(StoreError) {
    let given = Self.path(path, environment: environment)
    guard let given, !given.isEmpty else {
      throw StoreError(
        .missing, "There is no state directory: start the service by systemd, or name a directory for its state.")
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

  /// The path that `init` takes for these arguments; nil or empty if there is no state directory.
  public static func path(
    _ path: String?, environment: (String) -> String? = StateDirectory.environment
  ) -> String? {
    path ?? environment("STATE_DIRECTORY")?.split(separator: ":").first.map(String.init)
  }

  /// Throws `wrongMode` or `wrongOwner` for an entry that others than this service's user may read or write, and nothing where
  /// there is no such entry.
  public func requirePrivate(_ name: String) throws(StoreError) {
    try directory.status(of: name)?.requirePrivate(to: user, directory.path(of: name))
  }

  /// Overwrites and removes those of the files that there are; they are gone after a loss of power when this returns.
  ///
  /// A file that cannot be overwritten is removed, and the others are erased all the same; the first reason is thrown at the end.
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

  /// A directory in this one, as private as this one; it is made if it is not there.
  func open(_ name: String) throws(StoreError) -> any Directory {
    let inner = try directory.openDirectory(making: name)
    try inner.status().requirePrivate(to: user, inner.path)
    return inner
  }

  /// A variable of this process's environment.
  public static func environment(_ name: String) -> String? {
    getenv(name).map { String(cString: $0) }
  }
}
