import Common
import Glibc
import Loop

/// Monitors the network interfaces of this machine and their addresses, by rtnetlink. The process needs the address
/// family `AF_NETLINK`, and no privilege.
@LoopActor
public final class InterfaceMonitor {
  private enum Phase {
    case links, addresses, following
  }

  /// The netlink groups whose messages are received: `RTMGRP_LINK`, `RTMGRP_IPV4_IFADDR` and `RTMGRP_IPV6_IFADDR`.
  private static let eventGroups: UInt32 = 0x1 | 0x10 | 0x100
  private static let bufferSize = 32 << 10
  /// Maximum number of reads in one loop iteration.
  private static let batch = 16
  /// Time from a failed dump to the next one.
  private static let restartDelay = Duration.milliseconds(100)

  private let descriptor: Int32
  private let onChange: @LoopActor ([NetworkInterface]) -> Void
  private var watch: Registration?
  private var restart: Registration?
  private var table = InterfaceTable()
  private var phase = Phase.links
  private var sequence: UInt32 = 0
  private var isClosed = false
  /// The interfaces as last reported; empty before the first report.
  public private(set) var interfaces: [NetworkInterface] = []
  /// Number of times that all interfaces were requested again because netlink messages were lost.
  public private(set) var losses: UInt64 = 0

  /// - Parameter onChange: called on the loop with all interfaces, first when they are known, then after each change.
  /// - Throws: `denied`, `unsupported`, `exhausted`.
  public init(onChange: @escaping @LoopActor ([NetworkInterface]) -> Void) throws(NetworkError) {
    self.onChange = onChange
    let descriptor = socket(
      AF_NETLINK, Int32(SOCK_RAW.rawValue | SOCK_NONBLOCK.rawValue | SOCK_CLOEXEC.rawValue), 0)
    guard descriptor >= 0 else { throw NetworkError(errno: errno) }
    self.descriptor = descriptor
    let isBound = Self.address(groups: Self.eventGroups).withUnsafeBytes {
      bind(descriptor, $0.bindMemory(to: sockaddr.self).baseAddress, socklen_t($0.count)) == 0
    }
    guard isBound else {
      let error = NetworkError(errno: errno)
      Glibc.close(descriptor)
      isClosed = true
      throw error
    }
    watch = EventLoop.shared.watch(descriptor, for: .readable) { [weak self] _ in self?.read() }
    begin(.links)
  }

  deinit {
    if !isClosed { Glibc.close(descriptor) }
  }

  public func close() {
    guard !isClosed else { return }
    (watch, restart) = (nil, nil)
    isClosed = true
    Glibc.close(descriptor)
  }

  private func begin(_ phase: Phase) {
    self.phase = phase
    switch phase {
    case .links:
      table.removeAll()
      dump(InterfaceTable.MessageType.getLink)
    case .addresses: dump(InterfaceTable.MessageType.getAddress)
    case .following: report()
    }
  }

  /// Requests a dump: `struct nlmsghdr` with `NLM_F_REQUEST` and `NLM_F_DUMP`, and `struct rtgenmsg`, padded.
  private func dump(_ type: UInt16) {
    sequence += 1
    let flags: UInt16 = 0x1 | 0x300
    var request = UInt32(20).nativeBytes
    request += type.nativeBytes
    request += flags.nativeBytes
    request += sequence.nativeBytes
    request += [UInt8](repeating: 0, count: 8)
    let kernel = Self.address(groups: 0)
    let count = request.withUnsafeBytes { request in
      kernel.withUnsafeBytes {
        sendto(
          descriptor, request.baseAddress, request.count, 0, $0.bindMemory(to: sockaddr.self).baseAddress,
          socklen_t($0.count))
      }
    }
    if count != request.count { restartSoon() }
  }

  private func read() {
    var isChanged = false
    for _ in 0..<Self.batch {
      guard !isClosed else { return }
      var count = 0
      var failure: Int32 = 0
      var sender = [UInt8](repeating: 0, count: 12)
      let bytes = [UInt8](unsafeUninitializedCapacity: Self.bufferSize) { buffer, used in
        sender.withUnsafeMutableBytes { address in
          var size = socklen_t(address.count)
          count = recvfrom(
            descriptor, buffer.baseAddress, buffer.count, Int32(MSG_TRUNC),
            address.bindMemory(to: sockaddr.self).baseAddress, &size)
        }
        failure = errno
        used = min(max(0, count), buffer.count)
      }
      if count < 0 {
        if failure == ENOBUFS { restartSoon() }
        break
      }
      // Messages of other programs are ignored: only the kernel sends from netlink port 0.
      guard sender[4..<8].allSatisfy({ $0 == 0 }) else { continue }
      guard count <= Self.bufferSize else {
        restartSoon()
        continue
      }
      isChanged = true
      handle(table.apply(bytes[...]))
    }
    if isChanged, phase == .following { report() }
  }

  private func handle(_ outcome: InterfaceTable.Outcome) {
    if outcome.mustRestart { return restartSoon() }
    guard outcome.dumpEnded, restart == nil else { return }
    switch phase {
    case .links: begin(.addresses)
    case .addresses: begin(.following)
    case .following: break
    }
  }

  /// Requests all interfaces again, because messages were lost.
  private func restartSoon() {
    guard restart == nil else { return }
    losses += 1
    restart = EventLoop.shared.schedule(after: Self.restartDelay) { [weak self] in
      guard let self, !isClosed else { return }
      restart = nil
      begin(.links)
    }
  }

  private func report() {
    let found = table.interfaces
    guard found != interfaces else { return }
    interfaces = found
    onChange(found)
  }

  /// `struct sockaddr_nl`: family (2 bytes), padding (2), port (4), groups (4).
  private static func address(groups: UInt32) -> [UInt8] {
    UInt16(AF_NETLINK).nativeBytes + [UInt8](repeating: 0, count: 6) + groups.nativeBytes
  }
}
