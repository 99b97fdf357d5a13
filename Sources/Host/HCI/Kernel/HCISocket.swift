import Glibc
import Loop

/// A socket of the kernel's Bluetooth, and its owner: the descriptor is closed with it. One call sends or takes one
/// whole packet.
public final class HCISocket: Sendable {
  /// What a socket is bound to.
  public enum Channel: UInt16, Sendable {
    /// One controller, beside the kernel's own stack.
    case raw = 0
    /// The management interface of all controllers.
    case control = 3
  }

  /// What a request for the next packet finds.
  public enum Arrival: Hashable, Sendable {
    case packet([UInt8])
    /// A packet that was longer than the limit, and is gone.
    case tooLong
    case nothing
    case broken(HCIError)
  }

  /// What a request for the next packet finds, where there is a place for it.
  public enum Received: Hashable, Sendable {
    /// So many bytes of the place.
    case packet(Int)
    /// A packet that was longer than the place, and is gone.
    case tooLong
    case nothing
    case broken(HCIError)
  }

  /// The index that stands for no controller.
  public static let noIndex: UInt16 = 0xFFFF

  // AF_BLUETOOTH, BTPROTO_HCI, SOL_HCI and HCI_FILTER of <bluetooth/bluetooth.h> and <bluetooth/hci.h>.
  private static let family: Int32 = 31
  private static let hciProtocol: Int32 = 1
  private static let level: Int32 = 0
  private static let filterOption: Int32 = 2

  let descriptor: Int32

  /// Takes over an open descriptor of a socket that keeps packets apart.
  public init(owning descriptor: Int32) {
    self.descriptor = descriptor
    _ = fcntl(descriptor, F_SETFL, O_NONBLOCK)
    _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
  }

  deinit {
    close(descriptor)
  }

  /// Binds a new socket to `channel`, and to the controller `index` where the channel is one controller's.
  public convenience init(_ channel: Channel, index: UInt16 = HCISocket.noIndex) throws(HCIError) {
    let kind = Int32(SOCK_RAW.rawValue | SOCK_CLOEXEC.rawValue)
    let descriptor = socket(Self.family, kind, Self.hciProtocol)
    guard descriptor >= 0 else { throw HCIError(errno, in: "socket") }
    self.init(owning: descriptor)
    // struct sockaddr_hci: family, device, channel.
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

  /// Calls `body` while there is something to take, for as long as the registration lives.
  ///
  /// The registration keeps the socket open: if the descriptor were closed while the loop watches it, the loop would
  /// take the next descriptor of that number for it.
  @LoopActor
  public func watch(_ body: @escaping @LoopActor () -> Void) -> Registration {
    let watch = EventLoop.shared.watch(descriptor, for: .readable) { _ in body() }
    return Registration { [self] in
      watch.cancel()
      withExtendedLifetime(self) {}
    }
  }

  /// Takes one packet of at most `limit` bytes, without waiting for it.
  public func receive(limit: Int) -> Arrival {
    var buffer = [UInt8](repeating: 0, count: limit)
    switch receive(into: &buffer) {
    case .packet(let count): return .packet(Array(buffer.prefix(count)))
    case .tooLong: return .tooLong
    case .nothing: return .nothing
    case .broken(let error): return .broken(error)
    }
  }

  /// Takes one packet into `buffer`, without waiting for it; nothing is allocated.
  public func receive(into buffer: inout [UInt8]) -> Received {
    while true {
      let count = recv(descriptor, &buffer, buffer.count, Int32(MSG_DONTWAIT | MSG_TRUNC))
      if count < 0 {
        if errno == EINTR { continue }
        return errno == EAGAIN ? .nothing : .broken(HCIError(errno, in: "recv"))
      }
      if count == 0 { return .broken(.failed("recv: the other side is gone")) }
      return count > buffer.count ? .tooLong : .packet(count)
    }
  }

  /// Lets through what `filter` says; without CAP_NET_RAW the kernel takes most events out of it, Number Of Completed
  /// Packets among them, and says nothing.
  public func listen(to filter: HCIFilter) throws(HCIError) {
    let status = filter.bytes.withUnsafeBytes {
      setsockopt(descriptor, Self.level, Self.filterOption, $0.baseAddress, socklen_t($0.count))
    }
    guard status == 0 else { throw HCIError(errno, in: "setsockopt") }
  }

  /// Asks the kernel a question about controllers: `bytes` is the question and becomes the answer.
  func control(_ request: UInt, _ bytes: inout [UInt8]) throws(HCIError) {
    let status = bytes.withUnsafeMutableBytes { bytes in bytes.baseAddress.map { ioctl(descriptor, request, $0) } }
    guard status == 0 else { throw HCIError(errno, in: "ioctl") }
  }
}
