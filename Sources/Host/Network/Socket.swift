import Glibc

/// Common functions of `AF_INET` and `AF_INET6` sockets.
enum Socket {
  /// Bytes that the kernel buffers for a stream in one direction. The kernel doubles the number for its own overhead.
  static let kernelBuffer: Int32 = 128 << 10

  /// Type of a socket. Swift 6.0.3 does not find the constants in a module that names their C type.
  enum Kind {
    case stream, datagram

    fileprivate var type: UInt32 { self == .stream ? SOCK_STREAM.rawValue : SOCK_DGRAM.rawValue }
  }

  /// Makes a non-blocking socket that child processes do not inherit.
  static func make(_ kind: Kind, for address: IPAddress) throws(NetworkError) -> Int32 {
    let family = address.isIPv6 ? AF_INET6 : AF_INET
    let descriptor = socket(family, Int32(kind.type | SOCK_NONBLOCK.rawValue | SOCK_CLOEXEC.rawValue), 0)
    guard descriptor >= 0 else { throw NetworkError(errno: errno) }
    // Otherwise an IPv6 socket also accepts IPv4 connections, under IPv4-mapped addresses.
    if address.isIPv6 { set(descriptor, Int32(IPPROTO_IPV6), IPV6_V6ONLY, 1) }
    return descriptor
  }

  /// Makes an accepted socket non-blocking and close-on-exec.
  static func keepToItself(_ descriptor: Int32) {
    _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
    _ = fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) | O_NONBLOCK)
  }

  @discardableResult
  static func set(_ descriptor: Int32, _ level: Int32, _ option: Int32, _ value: Int32) -> Bool {
    withUnsafeBytes(of: value) {
      setsockopt(descriptor, level, option, $0.baseAddress, socklen_t($0.count)) == 0
    }
  }

  /// Sets an option whose value is a C structure, given as its bytes.
  static func set(_ descriptor: Int32, _ level: Int32, _ option: Int32, bytes: [UInt8]) throws(NetworkError) {
    let isSet = bytes.withUnsafeBytes {
      setsockopt(descriptor, level, option, $0.baseAddress, socklen_t($0.count)) == 0
    }
    guard isSet else { throw NetworkError(errno: errno) }
  }

  static func bind(_ descriptor: Int32, to endpoint: Endpoint) throws(NetworkError) {
    let isBound = endpoint.withSocketAddress { Glibc.bind(descriptor, $0, $1) == 0 }
    guard isBound else { throw NetworkError(errno: errno) }
  }

  /// The address that a socket is bound to.
  static func local(_ descriptor: Int32) -> Endpoint? {
    Endpoint.read { getsockname(descriptor, $0, $1) == 0 }
  }

  /// Whether a socket is a Unix socket.
  static func isLocal(_ descriptor: Int32) -> Bool {
    var family: Int32 = 0
    var size = socklen_t(MemoryLayout<Int32>.size)
    return getsockopt(descriptor, SOL_SOCKET, SO_DOMAIN, &family, &size) == 0 && family == AF_UNIX
  }

  /// The error that a connection attempt or the peer has left on a socket; nil if there is none.
  static func pendingError(_ descriptor: Int32) -> NetworkError? {
    var code: Int32 = 0
    var size = socklen_t(MemoryLayout<Int32>.size)
    guard getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &code, &size) == 0 else { return NetworkError(errno: errno) }
    return code == 0 ? nil : NetworkError(errno: code)
  }
}

extension Endpoint {
  /// The size of `struct sockaddr_in6`, the larger of the two.
  private static let largestSize = 28

  /// `struct sockaddr_in` or `struct sockaddr_in6`, byte by byte:
  ///
  /// | offset | `sockaddr_in` | `sockaddr_in6` |
  /// |---|---|---|
  /// | 0 | family, 2 bytes, byte order of the machine | the same |
  /// | 2 | port, most significant byte first | the same |
  /// | 4 | address, 4 bytes | flow label, 4 bytes |
  /// | 8 | zero, 8 bytes | address, 16 bytes |
  /// | 24 | | zone, 4 bytes, byte order of the machine |
  var socketAddress: [UInt8] {
    let family = UInt16(address.isIPv6 ? AF_INET6 : AF_INET)
    let head = family.nativeBytes + port.bigEndian.nativeBytes
    switch address {
    case .v4: return head + address.bytes + [UInt8](repeating: 0, count: 8)
    case .v6: return head + [UInt8](repeating: 0, count: 4) + address.bytes + zone.nativeBytes
    }
  }

  /// Reads the output of `socketAddress`; nil for another family or too few bytes.
  init?(socketAddress bytes: ArraySlice<UInt8>) {
    let bytes = Array(bytes)
    guard bytes.count >= 16 else { return nil }
    let port = UInt16(bytes[2]) << 8 | UInt16(bytes[3])
    switch Int32(UInt16(native: bytes[0..<2])) {
    case AF_INET:
      guard let address = IPAddress(bytes: bytes[4..<8]) else { return nil }
      self.init(address, port: port)
    case AF_INET6:
      guard bytes.count >= Self.largestSize, let address = IPAddress(bytes: bytes[8..<24]) else { return nil }
      self.init(address, port: port, zone: UInt32(native: bytes[24..<28]))
    default: return nil
    }
  }

  /// Passes the structure to a call of the C library.
  func withSocketAddress<Result>(_ body: (UnsafePointer<sockaddr>?, socklen_t) -> Result) -> Result {
    socketAddress.withUnsafeBytes { body($0.bindMemory(to: sockaddr.self).baseAddress, socklen_t($0.count)) }
  }

  /// Lets a call of the C library write the structure; nil if it returns false.
  static func read(
    _ body: (UnsafeMutablePointer<sockaddr>?, UnsafeMutablePointer<socklen_t>) -> Bool
  ) -> Endpoint? {
    var bytes = [UInt8](repeating: 0, count: largestSize)
    var size = socklen_t(bytes.count)
    let isRead = bytes.withUnsafeMutableBytes { body($0.bindMemory(to: sockaddr.self).baseAddress, &size) }
    guard isRead, size <= bytes.count else { return nil }
    return Endpoint(socketAddress: bytes[..<Int(size)])
  }
}

/// Numbers in the byte order of the machine, as in structures of the kernel.
extension FixedWidthInteger {
  var nativeBytes: [UInt8] { withUnsafeBytes(of: self) { Array($0) } }

  /// Reads a number from its bytes. Missing bytes count as 0.
  init(native bytes: ArraySlice<UInt8>) {
    var value: Self = 0
    withUnsafeMutableBytes(of: &value) { $0.copyBytes(from: bytes.prefix($0.count)) }
    self = value
  }
}
