import Glibc
import Loop

extension SocketStream {
  /// Connects to a Unix stream socket. The connection exists when this returns; call `start` to read from it.
  ///
  /// - Throws: `refused` if nothing listens, `noSuchAddress` if there is no socket, `denied`, `exhausted`.
  public static func connect(toSocket path: String) throws(NetworkError) -> SocketStream {
    var address = sockaddr_un()
    guard (1..<MemoryLayout.size(ofValue: address.sun_path)).contains(path.utf8.count), !path.utf8.contains(0) else {
      throw .noSuchAddress
    }
    address.sun_family = sa_family_t(AF_UNIX)
    withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8) }
    let descriptor = socket(
      AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_NONBLOCK.rawValue | SOCK_CLOEXEC.rawValue), 0)
    guard descriptor >= 0 else { throw NetworkError(errno: errno) }
    let result = withUnsafePointer(to: &address) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        Glibc.connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
      }
    }
    guard result == 0 else {
      let reason = errno
      Glibc.close(descriptor)
      throw reason == ENOENT ? .noSuchAddress : NetworkError(errno: reason == EAGAIN ? ECONNREFUSED : reason)
    }
    return SocketStream(owning: descriptor)
  }

  /// Makes two connected stream sockets.
  ///
  /// - Returns: a stream for one of them, and the descriptor of the other one, which the caller owns.
  public static func pair() throws(NetworkError) -> (stream: SocketStream, other: Int32) {
    var ends: [Int32] = [-1, -1]
    guard socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0, &ends) == 0 else {
      throw NetworkError(errno: errno)
    }
    return (SocketStream(owning: ends[0]), ends[1])
  }

  /// The user ID of the program at the other end of a Unix socket; nil if the kernel does not report it.
  public var peerUser: UInt32? {
    // struct ucred: process, user, group.
    var owner: [UInt32] = [0, 0, 0]
    var size = socklen_t(owner.count * MemoryLayout<UInt32>.size)
    let isKnown = getsockopt(rawDescriptor, SOL_SOCKET, SO_PEERCRED, &owner, &size) == 0
    return isKnown && Int(size) == owner.count * MemoryLayout<UInt32>.size ? owner[1] : nil
  }
}
