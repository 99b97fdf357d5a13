import Glibc

/// Identifies the other end of a connection, for limits on the connections of one peer.
public enum StreamPeer: Hashable, Sendable, CustomStringConvertible {
  /// A program of the user with this ID, over a Unix socket.
  case user(UInt32)
  /// A numeric IP address. All addresses of a 64-bit IPv6 network count as one, because one machine can have all of
  /// them.
  case host(String)

  public var description: String {
    switch self {
    case .user(let user): "user \(user)"
    case .host(let host): host
    }
  }
}

/// An IP address with a port.
struct InternetAddress {
  private enum Storage {
    case four(sockaddr_in)
    case six(sockaddr_in6)
  }

  private let storage: Storage

  /// Parses a numeric address; nil for any other text.
  init?(host: String, port: UInt16) {
    guard !host.utf8.contains(0) else { return nil }
    var four = sockaddr_in()
    var six = sockaddr_in6()
    if inet_pton(AF_INET, host, &four.sin_addr) == 1 {
      (four.sin_family, four.sin_port) = (sa_family_t(AF_INET), port.bigEndian)
      storage = .four(four)
    } else if inet_pton(AF_INET6, host, &six.sin6_addr) == 1 {
      (six.sin6_family, six.sin6_port) = (sa_family_t(AF_INET6), port.bigEndian)
      storage = .six(six)
    } else {
      return nil
    }
  }

  /// The peer of a connected socket; nil for a socket that is not TCP.
  init?(peerOf descriptor: Int32) {
    var six = sockaddr_in6()
    var size = socklen_t(MemoryLayout<sockaddr_in6>.size)
    let result = withUnsafeMutablePointer(to: &six) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { getpeername(descriptor, $0, &size) }
    }
    guard result == 0 else { return nil }
    switch Int32(six.sin6_family) {
    case AF_INET6: storage = .six(six)
    case AF_INET:
      storage = .four(
        withUnsafeBytes(of: &six) { $0.loadUnaligned(as: sockaddr_in.self) })
    default: return nil
    }
  }

  var family: Int32 {
    switch storage {
    case .four: AF_INET
    case .six: AF_INET6
    }
  }

  /// The address by which connections are counted: for IPv6 the first 64 bits, unless it is an IPv4 address in another
  /// form.
  var host: String {
    var text = [CChar](repeating: 0, count: Int(INET6_ADDRSTRLEN))
    switch storage {
    case .four(var four): inet_ntop(AF_INET, &four.sin_addr, &text, socklen_t(text.count))
    case .six(var six):
      withUnsafeMutableBytes(of: &six.sin6_addr) { bytes in
        let isMapped = bytes[..<10].allSatisfy { $0 == 0 } && bytes[10] == 0xFF && bytes[11] == 0xFF
        let isLoopback = bytes[..<15].allSatisfy { $0 == 0 } && bytes[15] == 1
        if !isMapped, !isLoopback { for index in 8..<16 { bytes[index] = 0 } }
      }
      inet_ntop(AF_INET6, &six.sin6_addr, &text, socklen_t(text.count))
    }
    return String(decoding: text.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }

  func withPointer(_ body: (UnsafePointer<sockaddr>, socklen_t) -> Int32) -> Int32 {
    switch storage {
    case .four(let four):
      withUnsafePointer(to: four) { pointer in
        pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
          body($0, socklen_t(MemoryLayout<sockaddr_in>.size))
        }
      }
    case .six(let six):
      withUnsafePointer(to: six) { pointer in
        pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
          body($0, socklen_t(MemoryLayout<sockaddr_in6>.size))
        }
      }
    }
  }
}
