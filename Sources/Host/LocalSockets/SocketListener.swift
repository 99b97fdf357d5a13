import Glibc
import Loop

/// Listens at Unix stream sockets through the process's event loop.
@LoopActor
public struct SocketListener: LocalListening {
  public nonisolated init() {}

  public func listen(
    at path: String, mode: UInt32, onConnection: @escaping @LoopActor (any StreamConnection, UInt32) -> Void
  ) throws(ListenError) -> Registration {
    guard path.hasPrefix("/"), path.utf8.count <= 107, !path.utf8.contains(0) else { throw .badPath(path) }
    try Self.removeOrphan(path)
    let descriptor = socket(AF_UNIX, Self.kind, 0)
    guard descriptor >= 0 else { throw Self.failure(path) }
    // The mode is set before the socket listens, so that no program can connect before.
    guard Self.withAddress(path, { bind(descriptor, $0, $1) }) == 0, chmod(path, mode) == 0,
      Glibc.listen(descriptor, 128) == 0
    else {
      let error = Self.failure(path)
      close(descriptor)
      throw error
    }
    let listening = ListeningSocket(descriptor) { connection, peer in
      if case .user(let user) = peer { onConnection(connection, user) } else { connection.close() }
    }
    return Registration {
      listening.close()
      unlink(path)
    }
  }

  /// Listens at a TCP port, for the lifetime of the registration.
  ///
  /// - Parameters:
  ///   - host: a numeric IPv4 or IPv6 address; `::` is all addresses, of IPv4 too.
  ///   - onConnection: called on the loop with each connection and its peer.
  public func listen(
    atHost host: String, port: UInt16, onConnection: @escaping @LoopActor (any StreamConnection, StreamPeer) -> Void
  ) throws(ListenError) -> Registration {
    let name = "\(host) port \(port)"
    guard let address = InternetAddress(host: host, port: port) else { throw .badAddress(host) }
    let descriptor = socket(address.family, Self.kind, 0)
    guard descriptor >= 0 else { throw Self.failure(name) }
    var yes: Int32 = 1
    setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &yes, socklen_t(MemoryLayout<Int32>.size))
    guard address.withPointer({ bind(descriptor, $0, $1) }) == 0, Glibc.listen(descriptor, 128) == 0 else {
      let error = errno == EADDRINUSE ? ListenError.inUse(name) : Self.failure(name)
      close(descriptor)
      throw error
    }
    return listen(on: descriptor, onConnection: onConnection)
  }

  /// Listens at a socket that the caller created, systemd for example. The socket is closed with the registration.
  public func listen(
    on descriptor: Int32, onConnection: @escaping @LoopActor (any StreamConnection, StreamPeer) -> Void
  ) -> Registration {
    _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
    _ = fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) | O_NONBLOCK)
    let listening = ListeningSocket(descriptor, onConnection)
    return Registration { listening.close() }
  }

  fileprivate static var kind: Int32 {
    Int32(SOCK_STREAM.rawValue | SOCK_NONBLOCK.rawValue | SOCK_CLOEXEC.rawValue)
  }

  /// Removes a socket at which no program listens any more.
  private static func removeOrphan(_ path: String) throws(ListenError) {
    var status = stat()
    guard lstat(path, &status) == 0 else { return }
    guard status.st_mode & S_IFMT == S_IFSOCK else { throw .inUse(path) }
    let probe = socket(AF_UNIX, kind, 0)
    guard probe >= 0 else { throw failure(path) }
    defer { close(probe) }
    guard withAddress(path, { connect(probe, $0, $1) }) != 0, errno == ECONNREFUSED else { throw .inUse(path) }
    guard unlink(path) == 0 || errno == ENOENT else { throw failure(path) }
  }

  private static func withAddress(
    _ path: String, _ body: (UnsafePointer<sockaddr>, socklen_t) -> Int32
  ) -> Int32 {
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8) }
    return withUnsafePointer(to: &address) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { body($0, socklen_t(MemoryLayout<sockaddr_un>.size)) }
    }
  }

  private static func failure(_ path: String) -> ListenError {
    .failed(path, reason: strerror(errno).map { String(cString: $0) } ?? "error \(errno)")
  }
}

/// One listening socket. It owns its descriptor.
@LoopActor
private final class ListeningSocket {
  /// Maximum number of connections that are accepted in one loop iteration.
  private static let turn = 64
  /// Time without accepting after the process ran out of descriptors or memory.
  private static let pause = Duration.seconds(1)

  private var descriptor: Int32
  private let onConnection: @LoopActor (any StreamConnection, StreamPeer) -> Void
  private var watch: Registration?

  init(_ descriptor: Int32, _ onConnection: @escaping @LoopActor (any StreamConnection, StreamPeer) -> Void) {
    (self.descriptor, self.onConnection) = (descriptor, onConnection)
    start()
  }

  func close() {
    watch = nil
    if descriptor >= 0 { Glibc.close(descriptor) }
    descriptor = -1
  }

  private func start() {
    watch = EventLoop.shared.watch(descriptor, for: .readable) { [weak self] _ in self?.accept() }
  }

  private func accept() {
    for _ in 0..<Self.turn {
      guard descriptor >= 0 else { return }
      let connection = Glibc.accept(descriptor, nil, nil)
      guard connection >= 0 else {
        if errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM {
          // The connection stays in the queue, and the socket readable.
          watch = EventLoop.shared.schedule(at: EventLoop.shared.now.advanced(by: Self.pause)) { [weak self] in
            self?.start()
          }
        }
        return
      }
      _ = fcntl(connection, F_SETFD, FD_CLOEXEC)
      _ = fcntl(connection, F_SETFL, O_NONBLOCK)
      onConnection(SocketStream(connection), Self.peer(of: connection))
    }
  }

  private static func peer(of connection: Int32) -> StreamPeer {
    guard let address = InternetAddress(peerOf: connection) else { return .user(user(connection)) }
    func set(_ level: Int32, _ option: Int32, _ value: Int32) {
      var value = value
      setsockopt(connection, level, option, &value, socklen_t(MemoryLayout<Int32>.size))
    }
    // Nagle's algorithm is off, because each small segment is a complete request or answer.
    set(Int32(IPPROTO_TCP), TCP_NODELAY, 1)
    // A peer that is silent for a minute is probed each minute. After 9 probes without an answer it is gone.
    set(SOL_SOCKET, SO_KEEPALIVE, 1)
    set(Int32(IPPROTO_TCP), TCP_KEEPIDLE, 60)
    set(Int32(IPPROTO_TCP), TCP_KEEPINTVL, 60)
    set(Int32(IPPROTO_TCP), TCP_KEEPCNT, 9)
    return .host(address.host)
  }

  /// The user ID of the peer; the ID of `nobody` if the kernel does not provide it.
  private static func user(_ connection: Int32) -> UInt32 {
    // struct ucred: process, user, group.
    var identity: (Int32, UInt32, UInt32) = (0, 65_534, 65_534)
    var size = socklen_t(MemoryLayout.size(ofValue: identity))
    getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &identity, &size)
    return identity.1
  }
}
