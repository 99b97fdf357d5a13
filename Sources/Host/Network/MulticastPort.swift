import Common
import Glibc
import Loop

/// A datagram and its source.
public struct Datagram: Hashable, Sendable {
  public let bytes: [UInt8]
  public let source: Endpoint

  public init(_ bytes: [UInt8], from source: Endpoint) { (self.bytes, self.source) = (bytes, source) }
}

/// Multicast on one interface: receives the datagrams to its groups, and sends to them.
///
/// Each group has a socket of its own, bound to the group's address. A socket bound to every address would receive
/// unicast datagrams that are meant for another program at the same port. Datagrams leave from a port that the kernel
/// chooses, and replies to them come back to it.
@LoopActor
public final class MulticastPort {
  /// Event counters of a port.
  public struct Counters: Hashable, Sendable {
    public fileprivate(set) var received: UInt64 = 0
    /// Received datagrams of more than 1,500 bytes.
    public fileprivate(set) var tooLong: UInt64 = 0
    public fileprivate(set) var sent: UInt64 = 0
    /// Datagrams that the kernel did not send.
    public fileprivate(set) var unsent: UInt64 = 0

    public var tallies: [Tally] {
      [
        Tally("ReceivedDatagrams", received), Tally("DatagramsTooLong", tooLong), Tally("SentDatagrams", sent),
        Tally("UnsentDatagrams", unsent),
      ]
    }
  }

  /// Maximum length of a datagram, in bytes.
  public static let datagramSize = 1500
  /// Maximum number of datagrams that are read from one socket in one loop iteration.
  private static let batch = 32
  private static let kernelBuffer: Int32 = 64 << 10

  public let groups: [Endpoint]
  public private(set) var counters = Counters()
  private let sender: Int32
  private let receivers: [Int32]
  private let onDatagram: @LoopActor (Datagram) -> Void
  private var watches: [Registration] = []
  private var isClosed = false

  /// - Parameters:
  ///   - interface: the index of the interface.
  ///   - source: the address of the interface that datagrams come from. For IPv6 it is link-local.
  ///   - groups: addresses of the same family as `source`.
  ///   - onDatagram: called on the loop for each datagram, also for those that this machine has sent.
  /// - Throws: `portInUse`, `noSuchAddress`, `denied`, `exhausted`, `unsupported`.
  public init(
    interface: UInt32, source: IPAddress, groups: [IPAddress], port: UInt16,
    onDatagram: @escaping @LoopActor (Datagram) -> Void
  ) throws(NetworkError) {
    let zone = source.isIPv6 ? interface : 0
    let ends = groups.map { Endpoint($0, port: port, zone: zone) }
    guard groups.allSatisfy({ $0.isMulticast && $0.isIPv6 == source.isIPv6 }) else { throw .unsupported }
    var made: [Int32] = []
    do throws(NetworkError) {
      made.append(try Self.makeSender(interface, Endpoint(source, port: 0, zone: zone)))
      for group in ends { made.append(try Self.makeReceiver(interface, group)) }
    } catch {
      for descriptor in made { Glibc.close(descriptor) }
      throw error
    }
    (sender, receivers) = (made[0], Array(made.dropFirst()))
    (self.groups, self.onDatagram) = (ends, onDatagram)
    watch()
  }

  deinit {
    if !isClosed { for descriptor in receivers + [sender] { Glibc.close(descriptor) } }
  }

  /// The address and port from which datagrams are sent, and where replies arrive.
  public var local: Endpoint? { isClosed ? nil : Socket.local(sender) }

  /// Sends a datagram to a group or to any other address.
  ///
  /// - Throws: `datagramTooLong`, `unreachable`, `exhausted`, `denied`, or another error of the kernel.
  public func send(_ bytes: [UInt8], to destination: Endpoint) throws(NetworkError) {
    guard bytes.count <= Self.datagramSize else {
      counters.unsent += 1
      throw .datagramTooLong
    }
    guard !isClosed else { throw .noSuchAddress }
    var count = -1
    repeat {
      count = bytes.withUnsafeBytes { buffer in
        destination.withSocketAddress {
          sendto(sender, buffer.baseAddress, buffer.count, Int32(MSG_NOSIGNAL), $0, $1)
        }
      }
    } while count < 0 && errno == EINTR
    guard count == bytes.count else {
      counters.unsent += 1
      throw NetworkError(errno: errno == EAGAIN ? ENOBUFS : errno)
    }
    counters.sent += 1
  }

  /// Stops or resumes reading. Meanwhile the kernel drops datagrams that do not fit in its buffer.
  public func pauseReading(_ isPaused: Bool) {
    guard !isClosed, isPaused != watches.isEmpty else { return }
    if isPaused { watches = [] } else { watch() }
  }

  /// Leaves the groups and closes the sockets.
  public func close() {
    guard !isClosed else { return }
    watches = []
    isClosed = true
    for descriptor in receivers + [sender] { Glibc.close(descriptor) }
  }

  private func watch() {
    watches = (receivers + [sender]).map { descriptor in
      EventLoop.shared.watch(descriptor, for: .readable) { [weak self] _ in self?.read(descriptor) }
    }
  }

  private func read(_ descriptor: Int32) {
    for _ in 0..<Self.batch {
      guard !isClosed, !watches.isEmpty else { return }
      var count = 0
      var source: Endpoint?
      let bytes = [UInt8](unsafeUninitializedCapacity: Self.datagramSize) { buffer, used in
        source = Endpoint.read { address, size in
          // With MSG_TRUNC the result is the datagram's own length, however much of it fits.
          count = recvfrom(descriptor, buffer.baseAddress, buffer.count, Int32(MSG_TRUNC), address, size)
          return count >= 0
        }
        used = min(max(0, count), buffer.count)
      }
      if count < 0 {
        // The error belongs to an earlier datagram to an address that does not exist. Reading it clears it.
        if errno == EAGAIN { return }
        continue
      }
      guard let source else { continue }
      counters.received += 1
      guard count <= Self.datagramSize else {
        counters.tooLong += 1
        continue
      }
      onDatagram(Datagram(bytes, from: source))
    }
  }

  // MARK: Sockets

  private static func makeSender(_ interface: UInt32, _ source: Endpoint) throws(NetworkError) -> Int32 {
    try making(source.address) { descriptor throws(NetworkError) in
      let index = interface.nativeBytes
      if source.address.isIPv6 {
        try Socket.set(descriptor, Int32(IPPROTO_IPV6), IPV6_MULTICAST_IF, bytes: index)
        Socket.set(descriptor, Int32(IPPROTO_IPV6), IPV6_MULTICAST_HOPS, 1)
        Socket.set(descriptor, Int32(IPPROTO_IPV6), IPV6_MULTICAST_LOOP, 1)
      } else {
        // struct ip_mreqn: group, local address, interface.
        try Socket.set(
          descriptor, Int32(IPPROTO_IP), IP_MULTICAST_IF, bytes: anyAddress + source.address.bytes + index)
        Socket.set(descriptor, Int32(IPPROTO_IP), IP_MULTICAST_TTL, 1)
        Socket.set(descriptor, Int32(IPPROTO_IP), IP_MULTICAST_LOOP, 1)
      }
      try Socket.bind(descriptor, to: source)
    }
  }

  private static func makeReceiver(_ interface: UInt32, _ group: Endpoint) throws(NetworkError) -> Int32 {
    try making(group.address) { descriptor throws(NetworkError) in
      // Other programs on this machine use the same port.
      Socket.set(descriptor, SOL_SOCKET, SO_REUSEADDR, 1)
      Socket.set(descriptor, SOL_SOCKET, SO_RCVBUF, kernelBuffer)
      try Socket.bind(descriptor, to: group)
      let index = interface.nativeBytes
      if group.address.isIPv6 {
        // struct ipv6_mreq: group, interface. A link-local group is bound to its interface by the zone.
        try Socket.set(descriptor, Int32(IPPROTO_IPV6), IPV6_JOIN_GROUP, bytes: group.address.bytes + index)
      } else {
        // Otherwise the kernel also delivers datagrams to groups that other sockets have joined on other interfaces.
        Socket.set(descriptor, Int32(IPPROTO_IP), multicastAll, 0)
        try Socket.set(
          descriptor, Int32(IPPROTO_IP), IP_ADD_MEMBERSHIP, bytes: group.address.bytes + anyAddress + index)
      }
    }
  }

  private static let anyAddress = [UInt8](repeating: 0, count: 4)
  /// The option `IP_MULTICAST_ALL` of <linux/in.h>, which Swift does not import.
  private static let multicastAll: Int32 = 49

  private static func making(
    _ address: IPAddress, _ configure: (Int32) throws(NetworkError) -> Void
  ) throws(NetworkError) -> Int32 {
    let descriptor = try Socket.make(.datagram, for: address)
    do throws(NetworkError) {
      try configure(descriptor)
    } catch {
      Glibc.close(descriptor)
      throw error
    }
    return descriptor
  }
}
