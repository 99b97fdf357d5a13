import Glibc
import Loop

/// Connects to Unix stream sockets on the process's event loop.
@LoopActor
public struct SocketConnector: LocalConnector {
  public nonisolated init() {}

  public func connect(
    to path: String, sending request: [UInt8], onEvent: @escaping @LoopActor (LocalStreamEvent) -> Void
  ) -> Registration {
    let connection = SocketConnection(request, onEvent)
    connection.open(path)
    return Registration { connection.close() }
  }

  public func hasSocket(at path: String) -> Bool { Self.isSocket(path) }

  /// Whether a socket exists at `path`; a program may or may not listen on it.
  public nonisolated static func isSocket(_ path: String) -> Bool {
    var status = stat()
    return stat(path, &status) == 0 && status.st_mode & S_IFMT == S_IFSOCK
  }

  /// Returns a non-blocking socket that is connected to the Unix stream socket at `path`.
  nonisolated static func connected(to path: String) throws(LocalStreamError) -> Int32 {
    var address = sockaddr_un()
    guard (1..<MemoryLayout.size(ofValue: address.sun_path)).contains(path.utf8.count), !path.utf8.contains(0) else {
      throw .missing
    }
    let descriptor = socket(
      AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_NONBLOCK.rawValue | SOCK_CLOEXEC.rawValue), 0)
    guard descriptor >= 0 else { throw reason(errno) }
    address.sun_family = sa_family_t(AF_UNIX)
    withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8) }
    // A Unix socket is connected at once, or not at all.
    let result = withUnsafePointer(to: &address) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        Glibc.connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
      }
    }
    guard result == 0 else {
      let error = reason(errno)
      close(descriptor)
      throw error
    }
    return descriptor
  }

  private nonisolated static func reason(_ code: Int32) -> LocalStreamError {
    switch code {
    case ENOENT, ECONNREFUSED, ENOTSOCK, ENOTDIR, EPROTOTYPE: .missing
    case EACCES, EPERM: .denied
    case EAGAIN: .busy
    default: .other(String(cString: strerror(code)))
    }
  }
}

/// One connection. It owns its descriptor.
@LoopActor
private final class SocketConnection {
  /// Maximum bytes that are read or written in one loop iteration.
  private static let slice = 64 << 10

  private var unsent: ArraySlice<UInt8>
  private var onEvent: (@LoopActor (LocalStreamEvent) -> Void)?
  private var descriptor: Int32 = -1
  /// The watch of the descriptor: sd-event accepts only one.
  private var watch: Registration?

  init(_ request: [UInt8], _ onEvent: @escaping @LoopActor (LocalStreamEvent) -> Void) {
    unsent = request[...]
    self.onEvent = onEvent
  }

  func open(_ path: String) {
    do throws(LocalStreamError) {
      descriptor = try SocketConnector.connected(to: path)
    } catch {
      return endSoon(.failed(error))
    }
    watch = EventLoop.shared.watch(descriptor, for: [.readable, .writable]) { [weak self] ready in
      if ready.contains(.writable) { self?.write() }
      if !ready.isDisjoint(with: [.readable, .hungUp, .failed]) { self?.read() }
    }
  }

  func close() {
    onEvent = nil
    watch = nil
    unsent = []
    if descriptor >= 0 { Glibc.close(descriptor) }
    descriptor = -1
  }

  private func write() {
    while !unsent.isEmpty {
      let count = unsent.prefix(Self.slice).withUnsafeBytes {
        Glibc.send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
      }
      if count < 0, errno == EINTR { continue }
      if count < 0, errno == EAGAIN { return }
      guard count > 0 else {
        // The program no longer reads the request, but may have sent a reply.
        unsent = []
        break
      }
      unsent = unsent.dropFirst(count)
    }
    shutdown(descriptor, Int32(SHUT_WR))
    watch = nil
    watch = EventLoop.shared.watch(descriptor, for: .readable) { [weak self] _ in self?.read() }
  }

  private func read() {
    guard descriptor >= 0 else { return }
    var received: Int
    repeat {
      received = 0
      let bytes = [UInt8](unsafeUninitializedCapacity: Self.slice) { buffer, count in
        received = recv(descriptor, buffer.baseAddress, buffer.count, 0)
        count = max(0, received)
      }
      if received > 0 {
        onEvent?(.received(bytes))
        return
      }
    } while received < 0 && errno == EINTR
    if received < 0, errno == EAGAIN { return }
    // A reset follows all data that was sent before it.
    end(.ended)
  }

  private func end(_ event: LocalStreamEvent) {
    let report = onEvent
    close()
    report?(event)
  }

  private func endSoon(_ event: LocalStreamEvent) {
    EventLoop.shared.soon { [weak self] in self?.end(event) }
  }
}
