import Bytes
import Glibc
import Loop
import Radio

/// A Bluetooth socket of the kernel. It owns the descriptor, which it closes. Each call sends or receives one packet.
public final class HCISocket: Sendable {
  /// The channel that a socket is bound to.
  public enum Channel: UInt16, Sendable {
    /// The channel of one controller's packets, in parallel to the kernel's own stack.
    case raw = 0
    /// The channel of the management interface, for all controllers.
    case control = 3
  }

  /// The result of `receive(limit:)`.
  public enum Arrival: Hashable, Sendable {
    case packet([UInt8])
    /// The packet was longer than the limit, and was discarded.
    case tooLong
    case nothing
    case broken(HCIError)
  }

  /// The result of receiving into a buffer.
  public enum Received: Hashable, Sendable {
    /// A packet was received; the value is its length in the buffer.
    case packet(Int)
    /// The packet was longer than the buffer, and was discarded.
    case tooLong
    case nothing
    case broken(HCIError)
  }

  /// The controller index that means "no controller" (`HCI_DEV_NONE`).
  public static let noIndex: UInt16 = 0xFFFF

  // AF_BLUETOOTH, BTPROTO_HCI, SOL_HCI and HCI_FILTER of <bluetooth/bluetooth.h> and <bluetooth/hci.h>.
  private static let family: Int32 = 31
  private static let hciProtocol: Int32 = 1
  private static let level: Int32 = 0
  private static let filterOption: Int32 = 2

  let descriptor: Int32

  /// Takes ownership of an open descriptor of a packet socket.
  public init(owning descriptor: Int32) {
    self.descriptor = descriptor
    _ = fcntl(descriptor, F_SETFL, O_NONBLOCK)
    _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
  }

  deinit {
    close(descriptor)
  }

  /// Binds a new socket to `channel`, and to the controller `index` if the channel needs one.
  public convenience init(_ channel: Channel, index: UInt16 = HCISocket.noIndex) throws(HCIError) {
    let kind = Int32(SOCK_RAW.rawValue | SOCK_CLOEXEC.rawValue)
    let descriptor = socket(Self.family, kind, Self.hciProtocol)
    guard descriptor >= 0 else { throw HCIError(errno, in: "socket") }
    self.init(owning: descriptor)
    // `struct sockaddr_hci`: family, device, channel.
    let address = [UInt16(Self.family), index, channel.rawValue]
    let status = address.withUnsafeBytes { bytes in
      bytes.baseAddress.map { bind(descriptor, $0.assumingMemoryBound(to: sockaddr.self), socklen_t(bytes.count)) }
    }
    guard status == 0 else { throw HCIError(errno, in: "bind") }
  }

  /// Sends one packet.
  public func send(_ packet: [UInt8]) throws(HCIError) {
    while Glibc.send(descriptor, packet, packet.count, Int32(MSG_NOSIGNAL)) < 0 {
      guard errno == EINTR else { throw HCIError(errno, in: "send") }
    }
  }

  /// Calls `body` when packets can be received, for the lifetime of the registration.
  ///
  /// The socket stays open while the registration exists. If the descriptor were closed while the loop watches it, the
  /// loop would watch the next descriptor with that number.
  @LoopActor
  public func watch(_ body: @escaping @LoopActor () -> Void) -> Registration {
    let watch = EventLoop.shared.watch(descriptor, for: .readable) { _ in body() }
    return Registration { [self] in
      watch.cancel()
      withExtendedLifetime(self) {}
    }
  }

  /// Receives one packet of at most `limit` bytes, without blocking.
  public func receive(limit: Int) -> Arrival {
    var buffer = [UInt8](repeating: 0, count: limit)
    switch receive(into: &buffer) {
    case .packet(let count): return .packet(Array(buffer.prefix(count)))
    case .tooLong: return .tooLong
    case .nothing: return .nothing
    case .broken(let error): return .broken(error)
    }
  }

  /// Receives one packet into `buffer`, without blocking or allocating.
  public func receive(into buffer: inout [UInt8]) -> Received {
    while true {
      let count = recv(descriptor, &buffer, buffer.count, Int32(MSG_DONTWAIT | MSG_TRUNC))
      if count < 0 {
        if errno == EINTR { continue }
        return errno == EAGAIN ? .nothing : .broken(HCIError(errno, in: "recv"))
      }
      if count == 0 { return .broken(.failed("recv: the other side closed the socket")) }
      return count > buffer.count ? .tooLong : .packet(count)
    }
  }

  /// Sets the filter. Without CAP_NET_RAW the kernel silently removes most events from it, including Number Of
  /// Completed Packets.
  public func listen(to filter: HCIFilter) throws(HCIError) {
    let status = filter.bytes.withUnsafeBytes {
      setsockopt(descriptor, Self.level, Self.filterOption, $0.baseAddress, socklen_t($0.count))
    }
    guard status == 0 else { throw HCIError(errno, in: "setsockopt") }
  }

  /// Sends an `ioctl` about controllers: `bytes` contains the request and is replaced by the answer.
  func control(_ request: UInt, _ bytes: inout [UInt8]) throws(HCIError) {
    let status = bytes.withUnsafeMutableBytes { bytes in bytes.baseAddress.map { ioctl(descriptor, request, $0) } }
    guard status == 0 else { throw HCIError(errno, in: "ioctl") }
  }
}

extension ByteReader {
  /// Reads an address, least significant byte first.
  mutating func bluetoothAddress() throws(WireError) -> BluetoothAddress {
    BluetoothAddress(try bytes(6).reversed().reduce(0) { $0 << 8 | UInt64($1) })
  }
}

extension ByteWriter {
  /// Writes an address, least significant byte first.
  mutating func bluetoothAddress(_ address: BluetoothAddress) {
    append((0..<6).map { UInt8(truncatingIfNeeded: address.value >> UInt64(8 * $0)) })
  }
}
