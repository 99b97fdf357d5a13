import Common
import Glibc
import Loop

/// Maximum numbers of open connections of a listener.
public struct ConnectionBounds: Hashable, Sendable {
  /// Maximum of all connections together.
  public let total: Int
  /// Maximum of the connections of one address.
  public let ofOneAddress: Int

  public init(total: Int = 64, ofOneAddress: Int = 4) { (self.total, self.ofOneAddress) = (total, ofOneAddress) }
}

/// A connection that a listener has accepted. It is closed when this object is released, unless its descriptor was
/// taken.
@LoopActor
public final class IncomingConnection {
  public let peer: Endpoint
  private var descriptor: Int32
  private var slot: Registration?

  fileprivate init(_ descriptor: Int32, _ peer: Endpoint, _ slot: Registration) {
    (self.descriptor, self.peer, self.slot) = (descriptor, peer, slot)
  }

  deinit {
    if descriptor >= 0 { Glibc.close(descriptor) }
  }

  /// The descriptor; -1 if it was taken.
  var rawDescriptor: Int32 { descriptor }

  /// Reverses `take`: the connection owns the descriptor and its slot again.
  func restore(_ descriptor: Int32, _ slot: Registration?) { (self.descriptor, self.slot) = (descriptor, slot) }

  /// Transfers ownership of the descriptor.
  ///
  /// - Returns: the descriptor, or -1 if it was taken before; and the slot, which the new owner releases when it closes
  ///   the descriptor. The connection counts against the limit until then.
  public func take() -> (descriptor: Int32, slot: Registration?) {
    defer { (descriptor, slot) = (-1, nil) }
    return (descriptor, slot)
  }
}

/// Accepts TCP connections at one address. Connections over the limits are closed at once.
@LoopActor
public final class TCPListener {
  /// Event counters of a listener.
  public struct Counters: Hashable, Sendable {
    public fileprivate(set) var accepted: UInt64 = 0
    /// Connections that were closed because the maximum was open.
    public fileprivate(set) var tooMany: UInt64 = 0
    /// Connections that were closed because their address had its maximum.
    public fileprivate(set) var tooManyOfAddress: UInt64 = 0
    /// Number of pauses because the process or the machine had no descriptors or memory left.
    public fileprivate(set) var exhausted: UInt64 = 0

    public var tallies: [Tally] {
      [
        Tally("AcceptedConnections", accepted), Tally("TooManyConnections", tooMany),
        Tally("TooManyConnectionsOfOne", tooManyOfAddress), Tally("AcceptingPauses", exhausted),
      ]
    }
  }

  private static let backlog: Int32 = 64
  /// Maximum number of connections that are accepted in one loop iteration.
  private static let batch = 16
  /// Time in which no connection is accepted after descriptors ran out.
  private static let pause = Duration.seconds(1)

  /// The address and port of the listener. If port 0 was requested, this is the port that the kernel has chosen.
  public let local: Endpoint
  public private(set) var counters = Counters()
  private let bounds: ConnectionBounds
  private let onConnection: @LoopActor (IncomingConnection) -> Void
  private var descriptor: Int32
  private var watch: Registration?
  private var resumption: Registration?
  private var open: [IPAddress: Int] = [:]
  private var openCount = 0

  /// Begins to listen.
  ///
  /// - Parameters:
  ///   - endpoint: an address of this machine, and a port; port 0 lets the kernel choose.
  ///   - onConnection: called on the loop for each accepted connection.
  /// - Throws: `portInUse`, `noSuchAddress`, `denied`, `exhausted`, `unsupported`.
  public init(
    on endpoint: Endpoint, bounds: ConnectionBounds = ConnectionBounds(),
    onConnection: @escaping @LoopActor (IncomingConnection) -> Void
  ) throws(NetworkError) {
    let descriptor = try Socket.make(.stream, for: endpoint.address)
    do throws(NetworkError) {
      Socket.set(descriptor, SOL_SOCKET, SO_REUSEADDR, 1)
      // Accepted sockets inherit these buffer sizes.
      Socket.set(descriptor, SOL_SOCKET, SO_RCVBUF, Socket.kernelBuffer)
      Socket.set(descriptor, SOL_SOCKET, SO_SNDBUF, Socket.kernelBuffer)
      Socket.set(descriptor, Int32(IPPROTO_TCP), TCP_NODELAY, 1)
      try Socket.bind(descriptor, to: endpoint)
      guard listen(descriptor, Self.backlog) == 0, let local = Socket.local(descriptor) else {
        throw NetworkError(errno: errno)
      }
      self.local = local
    } catch {
      Glibc.close(descriptor)
      throw error
    }
    (self.descriptor, self.bounds, self.onConnection) = (descriptor, bounds, onConnection)
    startWatching()
  }

  deinit {
    if descriptor >= 0 { Glibc.close(descriptor) }
  }

  /// Number of open connections.
  public var connectionCount: Int { openCount }

  /// Stops accepting connections. Open connections stay.
  public func close() {
    (watch, resumption) = (nil, nil)
    if descriptor >= 0 { Glibc.close(descriptor) }
    descriptor = -1
  }

  private func startWatching() {
    watch = EventLoop.shared.watch(descriptor, for: .readable) { [weak self] _ in self?.accept() }
  }

  private func accept() {
    for _ in 0..<Self.batch {
      guard descriptor >= 0 else { return }
      var accepted: Int32 = -1
      let peer = Endpoint.read {
        accepted = Glibc.accept(descriptor, $0, $1)
        return accepted >= 0
      }
      guard let peer else {
        if accepted >= 0 { Glibc.close(accepted) }
        return pauseIfExhausted(errno)
      }
      Socket.keepToItself(accepted)
      admit(accepted, peer)
    }
  }

  private func admit(_ accepted: Int32, _ peer: Endpoint) {
    guard openCount < bounds.total else {
      counters.tooMany += 1
      Glibc.close(accepted)
      return
    }
    guard open[peer.address, default: 0] < bounds.ofOneAddress else {
      counters.tooManyOfAddress += 1
      Glibc.close(accepted)
      return
    }
    counters.accepted += 1
    openCount += 1
    open[peer.address, default: 0] += 1
    let address = peer.address
    let slot = Registration { [weak self] in self?.release(address) }
    onConnection(IncomingConnection(accepted, peer, slot))
  }

  private func release(_ address: IPAddress) {
    guard let count = open[address] else { return }
    open[address] = count > 1 ? count - 1 : nil
    openCount -= 1
  }

  /// Pauses accepting after descriptors or memory ran out, because the kernel would report the waiting connection
  /// repeatedly.
  private func pauseIfExhausted(_ code: Int32) {
    guard NetworkError(errno: code) == .exhausted else { return }
    counters.exhausted += 1
    watch = nil
    resumption = EventLoop.shared.schedule(after: Self.pause) { [weak self] in
      guard let self, descriptor >= 0 else { return }
      startWatching()
    }
  }
}
