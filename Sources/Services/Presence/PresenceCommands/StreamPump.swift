import Glibc
import Tool

/// Copies standard input to a socket, and the socket to standard output.
enum StreamPump {
  private static let slice = 64 << 10

  /// Copies until the peer ends the stream. The end of standard input ends this side's direction.
  ///
  /// The call blocks, because the program has nothing else to do.
  ///
  /// - Returns: whether the peer ended the stream; false if the stream was truncated.
  static func run(_ socket: Int32) -> Bool {
    var waiting: ArraySlice<UInt8> = []
    var hasInput = true
    while true {
      var polls = [
        pollfd(fd: hasInput && waiting.isEmpty ? STDIN_FILENO : -1, events: Int16(POLLIN), revents: 0),
        pollfd(fd: socket, events: Int16(waiting.isEmpty ? POLLIN : POLLIN | POLLOUT), revents: 0),
      ]
      guard poll(&polls, 2, -1) >= 0 || errno == EINTR else { return false }
      if polls[0].revents != 0 {
        let bytes = read(STDIN_FILENO)
        if let bytes, !bytes.isEmpty {
          waiting = bytes[...]
        } else {
          hasInput = false
          shutdown(socket, Int32(SHUT_WR))
        }
      }
      if !waiting.isEmpty {
        let count = waiting.withUnsafeBytes {
          send(socket, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL | MSG_DONTWAIT))
        }
        if count > 0 { waiting = waiting.dropFirst(count) }
        if count < 0, errno != EAGAIN, errno != EINTR { (waiting, hasInput) = ([], false) }
      }
      let ready = Int32(polls[1].revents)
      guard ready & (POLLIN | POLLHUP | POLLERR) != 0 else { continue }
      guard let bytes = read(socket) else { return false }
      if bytes.isEmpty { return true }
      Output.write(bytes)
    }
  }

  /// Reads the next bytes; empty at the end; nil after an error.
  private static func read(_ descriptor: Int32) -> [UInt8]? {
    var count = 0
    let bytes = [UInt8](unsafeUninitializedCapacity: slice) { buffer, used in
      repeat { count = Glibc.read(descriptor, buffer.baseAddress, buffer.count) } while count < 0 && errno == EINTR
      used = max(0, count)
    }
    return count < 0 ? nil : bytes
  }
}
