import Foundation
import Loop
import TestSupport

/// The service manager's end of `$NOTIFY_SOCKET`, which receives the service's state.
@LoopActor
final class NotifySocket {
  struct NotBound: Error {
    let path: String
  }

  /// The received messages: `READY=1`, `STATUS=…`.
  let heard = Mailbox<String>()
  private let path: String
  private let descriptor: Int32
  private var watch: Registration?

  init(in directory: URL) throws {
    path = directory.appendingPathComponent("notify").path
    descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8) }
    let bound = withUnsafePointer(to: &address) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
      }
    }
    guard descriptor >= 0, bound == 0 else { throw NotBound(path: path) }
    watch = EventLoop.shared.watch(descriptor, for: .readable) { [weak self] _ in self?.receive() }
  }

  /// The words that start a program with the socket in its environment.
  var prefix: [String] { ["env", "NOTIFY_SOCKET=\(path)"] }

  func close() {
    watch = nil
    Glibc.close(descriptor)
  }

  private func receive() {
    var buffer = [UInt8](repeating: 0, count: 4096)
    while case let count = recv(descriptor, &buffer, buffer.count, Int32(MSG_DONTWAIT)), count > 0 {
      heard.put(String(decoding: buffer[..<count], as: UTF8.self))
    }
  }
}
