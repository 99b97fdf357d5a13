import Glibc
import Loop

/// A connected stream socket on the process's event loop. It owns its descriptor.
@LoopActor
public final class SocketStream: StreamConnection {
  /// Maximum number of bytes that are read or written in one loop iteration.
  private static let slice = 64 << 10
  private static let closingTime = Duration.seconds(10)

  public var onEvent: @LoopActor (StreamEvent) -> Void = { _ in }
  public var isReading = true {
    didSet { if isReading != oldValue { update() } }
  }

  private var descriptor: Int32
  private var unsent: [UInt8] = []
  /// Number of bytes at the beginning of `unsent` that the kernel has accepted.
  private var start = 0
  private var isClosing = false
  private var isGone = false
  /// Whether the peer hung up while reading was paused. The descriptor is then not watched, because the kernel would
  /// report the hang-up repeatedly.
  private var hasHungUp = false
  private var watch: Registration?
  private var watched: Readiness?
  private var closingTimer: Registration?

  /// - Parameter descriptor: a connected socket that does not block.
  public init(_ descriptor: Int32) {
    self.descriptor = descriptor
    update()
  }

  /// Connects to a Unix stream socket. It never blocks: such a socket is connected at once, or not at all.
  public convenience init(connectingTo path: String) throws(LocalStreamError) {
    self.init(try SocketConnector.connected(to: path))
  }

  /// Connects to a TCP port. It never blocks: the connection is established later, or ends with the event `ended`.
  ///
  /// - Parameter host: a numeric IPv4 or IPv6 address.
  public convenience init(connectingToHost host: String, port: UInt16) throws(LocalStreamError) {
    guard let address = InternetAddress(host: host, port: port) else {
      throw .other("\(host) is not a numeric IPv4 or IPv6 address")
    }
    let kind = Int32(SOCK_STREAM.rawValue | SOCK_NONBLOCK.rawValue | SOCK_CLOEXEC.rawValue)
    let descriptor = socket(address.family, kind, 0)
    guard descriptor >= 0 else { throw .other(String(cString: strerror(errno))) }
    guard address.withPointer({ connect(descriptor, $0, $1) }) == 0 || errno == EINPROGRESS else {
      let reason = String(cString: strerror(errno))
      Glibc.close(descriptor)
      throw .other(reason)
    }
    self.init(descriptor)
  }

  deinit {
    watch = nil
    if descriptor >= 0 { Glibc.close(descriptor) }
  }

  public func send(_ bytes: [UInt8]) {
    guard descriptor >= 0, !isClosing, !bytes.isEmpty else { return }
    unsent += bytes
    update()
  }

  public func close() {
    guard descriptor >= 0, !isClosing else { return }
    isClosing = true
    onEvent = { _ in }
    if start == unsent.count || isGone { return end() }
    // The timer retains the stream until it is closed, even if the owner releases it.
    closingTimer = EventLoop.shared.schedule(at: EventLoop.shared.now.advanced(by: Self.closingTime)) { self.end() }
    update()
  }

  public func abort() {
    (isClosing, onEvent) = (true, { _ in })
    end()
  }

  private func end() {
    (watch, watched, closingTimer) = (nil, nil, nil)
    (unsent, start) = ([], 0)
    if descriptor >= 0 { Glibc.close(descriptor) }
    descriptor = -1
  }

  /// Watches the descriptor for the events that are needed now.
  private func update() {
    guard descriptor >= 0 else { return }
    var wanted: Readiness = []
    if isReading, !isClosing, !isGone { wanted.insert(.readable) }
    if start < unsent.count { wanted.insert(.writable) }
    if wanted.contains(.readable) { hasHungUp = false }
    guard wanted != watched else { return }
    (watch, watched) = (nil, nil)
    if isGone || (hasHungUp && wanted.isEmpty) { return }
    watched = wanted
    watch = EventLoop.shared.watch(descriptor, for: wanted) { [weak self] in self?.isReady($0) }
  }

  private func isReady(_ ready: Readiness) {
    if ready.contains(.writable) { write() }
    guard descriptor >= 0, !ready.isDisjoint(with: [.readable, .hungUp, .failed]) else { return }
    if isReading, !isClosing { return read() }
    guard ready.contains(.hungUp) || ready.contains(.failed) else { return }
    if isClosing { return end() }
    hasHungUp = true
    if watched?.isEmpty == true { (watch, watched) = (nil, nil) }
  }

  private func write() {
    let count = unsent[start...].prefix(Self.slice).withUnsafeBytes {
      Glibc.send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
    }
    if count < 0, errno == EINTR || errno == EAGAIN || errno == ENOTCONN { return }
    guard count > 0 else { return isClosing ? end() : goAway() }
    start += count
    if start == unsent.count {
      unsent.removeAll(keepingCapacity: unsent.capacity <= Self.slice)
      start = 0
    } else if start > 16 * Self.slice {
      unsent.removeFirst(start)
      start = 0
    }
    if isClosing, unsent.isEmpty { return end() }
    update()
    onEvent(.written(count))
  }

  private func read() {
    var received = 0
    let bytes = [UInt8](unsafeUninitializedCapacity: Self.slice) { buffer, count in
      received = recv(descriptor, buffer.baseAddress, buffer.count, 0)
      count = max(0, received)
    }
    if received > 0 { return onEvent(.received(bytes)) }
    if received < 0, errno == EAGAIN || errno == EINTR { return }
    goAway()
  }

  private func goAway() {
    guard !isGone else { return }
    isGone = true
    (watch, watched) = (nil, nil)
    onEvent(.ended)
  }
}
