import Glibc
import Testing

@testable import Network

/// Sends a datagram of `count` zero bytes over a plain socket, without the length limit of `MulticastPort`.
func sendPlainly(_ count: Int, to destination: Endpoint) throws {
  let descriptor = try Socket.make(.datagram, for: destination.address)
  defer { close(descriptor) }
  let bytes = [UInt8](repeating: 0, count: count)
  let sent = bytes.withUnsafeBytes { buffer in
    destination.withSocketAddress { sendto(descriptor, buffer.baseAddress, buffer.count, 0, $0, $1) }
  }
  try #require(sent == count)
}
