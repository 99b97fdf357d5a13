import Bytes
import Glibc
import Radio

/// Connections of the kernel to a peer over BR/EDR. A test replaces it.
public protocol ClassicSockets: Sendable {
  /// Begins to connect to the service discovery server of a peer (L2CAP, PSM 1).
  ///
  /// - Returns: a descriptor of a packet socket, which the caller owns. It is writable when the attempt is over.
  func discovery(of peer: BluetoothAddress, from adapter: BluetoothAddress) throws(HCIError) -> Int32

  /// Begins to connect to an RFCOMM channel of a peer, without authentication of its user.
  ///
  /// - Returns: a descriptor of a stream socket, which the caller owns. It is writable when the attempt is over.
  func stream(to peer: BluetoothAddress, channel: UInt8, from adapter: BluetoothAddress) throws(HCIError) -> Int32
}

/// The real connections over BR/EDR, through the kernel's sockets.
public struct KernelClassicSockets: ClassicSockets {
  // AF_BLUETOOTH and its protocols, of <bluetooth/bluetooth.h>.
  private static let family: Int32 = 31
  private static let l2cap: Int32 = 0
  private static let rfcomm: Int32 = 3
  private static let discoveryServer: UInt16 = 1
  // SOL_BLUETOOTH, and BT_SECURITY with BT_SECURITY_LOW.
  private static let level: Int32 = 274
  private static let security: Int32 = 4
  private static let low: UInt8 = 1

  public init() {}

  public func discovery(of peer: BluetoothAddress, from adapter: BluetoothAddress) throws(HCIError) -> Int32 {
    try open(
      SOCK_SEQPACKET.rawValue, Self.l2cap, from: Self.l2capAddress(adapter, 0),
      to: Self.l2capAddress(peer, Self.discoveryServer))
  }

  public func stream(
    to peer: BluetoothAddress, channel: UInt8, from adapter: BluetoothAddress
  ) throws(HCIError) -> Int32 {
    try open(
      SOCK_STREAM.rawValue, Self.rfcomm, from: Self.rfcommAddress(adapter, 0), to: Self.rfcommAddress(peer, channel))
  }

  private func open(
    _ type: UInt32, _ number: Int32, from own: [UInt8], to peer: [UInt8]
  ) throws(HCIError) -> Int32 {
    let kind = Int32(type | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue)
    let descriptor = socket(Self.family, kind, number)
    guard descriptor >= 0 else { throw HCIError(errno, in: "socket") }
    do throws(HCIError) {
      let options: [UInt8] = [Self.low, 0]
      guard setsockopt(descriptor, Self.level, Self.security, options, socklen_t(options.count)) == 0 else {
        throw HCIError(errno, in: "setsockopt")
      }
      guard Self.with(own, { bind(descriptor, $0, $1) }) == 0 else { throw HCIError(errno, in: "bind") }
      guard Self.with(peer, { connect(descriptor, $0, $1) }) == 0 || errno == EINPROGRESS else {
        throw HCIError(errno, in: "connect")
      }
    } catch {
      close(descriptor)
      throw error
    }
    return descriptor
  }

  /// Passes a socket address to a system call.
  private static func with(
    _ address: [UInt8], _ body: (UnsafePointer<sockaddr>?, socklen_t) -> Int32
  ) -> Int32 {
    address.withUnsafeBytes { body($0.bindMemory(to: sockaddr.self).baseAddress, socklen_t($0.count)) }
  }

  /// `struct sockaddr_l2`: family, PSM, address, channel, kind of address, padding.
  private static func l2capAddress(_ address: BluetoothAddress, _ port: UInt16) -> [UInt8] {
    var writer = ByteWriter()
    writer.u16le(UInt16(family))
    writer.u16le(port)
    writer.bluetoothAddress(address)
    writer.append([0, 0, 0, 0])
    return writer.bytes
  }

  /// `struct sockaddr_rc`: family, address, channel, padding.
  private static func rfcommAddress(_ address: BluetoothAddress, _ channel: UInt8) -> [UInt8] {
    var writer = ByteWriter()
    writer.u16le(UInt16(family))
    writer.bluetoothAddress(address)
    writer.append([channel, 0])
    return writer.bytes
  }
}
