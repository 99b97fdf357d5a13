import Common
import Glibc

/// System calls for Unix stream sockets.
enum UnixSocket {
  /// Creates a socket that listens at `path`, for its owner only. The socket of a hub that no longer runs is removed
  /// first.
  ///
  /// - Returns: a non-blocking descriptor.
  static func listen(at path: String) throws(AirHubError) -> Int32 {
    try clear(path)
    let descriptor = try open(path)
    // `bind` gives the file the mode of the socket: other users cannot connect before `chmod`.
    fchmod(descriptor, 0o600)
    guard address(path, { bind(descriptor, $0, $1) }) == 0, Glibc.listen(descriptor, 64) == 0 else {
      let reason = String(cString: strerror(errno))
      close(descriptor)
      throw .cannotListen(path: path, reason: reason)
    }
    chmod(path, 0o600)
    return descriptor
  }

  /// Connects to the program that listens at `path`; nil if there is none.
  static func connect(to path: String) -> Int32? {
    guard let descriptor = try? open(path) else { return nil }
    guard address(path, { Glibc.connect(descriptor, $0, $1) }) == 0 else {
      close(descriptor)
      return nil
    }
    return descriptor
  }

  /// Accepts the next waiting connection; nil if there is none.
  static func accept(_ descriptor: Int32) -> Int32? {
    let accepted = Glibc.accept(descriptor, nil, nil)
    guard accepted >= 0 else { return nil }
    _ = fcntl(accepted, F_SETFD, FD_CLOEXEC)
    _ = fcntl(accepted, F_SETFL, O_NONBLOCK)
    return accepted
  }

  /// Returns device and inode of the file at `path`, which together identify it; nil if there is none.
  static func identity(of path: String) -> [UInt64]? {
    var status = stat()
    guard lstat(path, &status) == 0 else { return nil }
    return [UInt64(status.st_dev), UInt64(status.st_ino)]
  }

  private static func clear(_ path: String) throws(AirHubError) {
    var status = stat()
    guard lstat(path, &status) == 0 else { return }
    guard status.st_mode & S_IFMT == S_IFSOCK else { throw .notASocket(path: path) }
    if let descriptor = connect(to: path) {
      close(descriptor)
      throw .alreadyRunning(path: path)
    }
    // A hub whose queue of waiting connections is full still runs.
    guard errno == ECONNREFUSED else { throw .cannotListen(path: path, reason: String(cString: strerror(errno))) }
    unlink(path)
  }

  private static func open(_ path: String) throws(AirHubError) -> Int32 {
    let limit = MemoryLayout.size(ofValue: sockaddr_un().sun_path) - 1
    guard (1...limit).contains(path.utf8.count), !path.utf8.contains(0) else {
      throw .badPath(path: path, limit: limit)
    }
    let kind = Int32(SOCK_STREAM.rawValue | SOCK_NONBLOCK.rawValue | SOCK_CLOEXEC.rawValue)
    let descriptor = socket(AF_UNIX, kind, 0)
    guard descriptor >= 0 else { throw .cannotListen(path: path, reason: String(cString: strerror(errno))) }
    return descriptor
  }

  private static func address(
    _ path: String, _ body: (UnsafePointer<sockaddr>, socklen_t) -> Int32
  ) -> Int32 {
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: Array(path.utf8).prefix($0.count - 1)) }
    return withUnsafePointer(to: &address) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { body($0, socklen_t(MemoryLayout<sockaddr_un>.size)) }
    }
  }
}
