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
  ///   - environment: looks a variable up.
  /// - Throws: `missing` if there is neither, `wrongMode`, `wrongOwner`, `inUse`, or what the disk says.
  public init(
    path: String? = nil, on fileSystem: any FileSystem = SystemFileSystem(),
    environment: (String) -> String? = StateDirectory.environment
  ) throws(StoreError) {
    let given = path ?? environment("STATE_DIRECTORY")?.split(separator: ":").first.map(String.init)
    guard let given, !given.isEmpty else {
      throw StoreError(
        .missing, "There is no state directory: start the service by systemd, or name a directory for its state.")
    }
    directory = try Self.open(given, on: fileSystem)
    user = fileSystem.user
    try directory.status().requirePrivate(to: user, directory.path)
    try directory.lock()
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
