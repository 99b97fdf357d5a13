internal import CMicroHTTPD
import Common
import Glibc
import Loop
import Network

/// The server and its connections, as libmicrohttpd calls it. It outlives `HTTPServer` until libmicrohttpd has stopped.
@LoopActor
final class HTTPServerCore {
  private struct Connection {
    /// The number of the connection, in the order in which they arrived.
    let number: UInt64
    let peer: Endpoint?
    /// The listener's slot, which is released when the connection closes.
    let slot: Registration?
    let timer: Registration
    /// Whether libmicrohttpd has started to serve the connection.
    var isStarted = false
    var isAnswered = false
    /// Whether the server has ended the connection: at the time limit, or for a further one.
    var isEnded = false
  }

  /// Memory of one connection, in bytes: for the head, libmicrohttpd's data about it, and the head of the response.
  /// With 8 KiB, libmicrohttpd 0.9.75 does not refuse a longer head, and waits for the time limit instead.
  private static let memory = 4 << 10

  private let limits: HTTPServerLimits
  private let scheduler: any Scheduler
  private let answer: @LoopActor (HTTPServerRequest) -> HTTPServerResponse
  private var server: OpaquePointer?
  private var watch: Registration?
  private var timer: Registration?
  private var willRun = false
  private var isRunning = false
  /// Whether an answer has stopped the server, which can be done only after libmicrohttpd has returned.
  private var mustStop = false
  /// Connections by descriptor.
  private var connections: [Int32: Connection] = [:]
  private var lastNumber: UInt64 = 0
  private(set) var counters = HTTPServerCounters()

  init(
    _ limits: HTTPServerLimits, _ scheduler: any Scheduler,
    _ answer: @escaping @LoopActor (HTTPServerRequest) -> HTTPServerResponse
  ) {
    (self.limits, self.scheduler, self.answer) = (limits, scheduler, answer)
  }

  var connectionCount: Int { connections.count }

  func start() -> Bool {
    let owner = Unmanaged.passUnretained(self).toOpaque()
    server = earshot_http_start(
      requestCame, connectionChanged, owner, UInt32(clamping: limits.connections), Self.memory)
    guard let server else { return false }
    let descriptor = earshot_http_descriptor(server)
    guard descriptor >= 0 else {
      stop()
      return false
    }
    watch = EventLoop.shared.watch(descriptor, for: .readable) { [weak self] _ in self?.run() }
    return true
  }

  func stop() {
    (watch, timer) = (nil, nil)
    mustStop = isRunning
    guard let server, !isRunning else { return }
    self.server = nil
    MHD_stop_daemon(server)
    connections = [:]
  }

  func serve(_ descriptor: Int32, from peer: Endpoint?, _ slot: Registration?) {
    guard descriptor >= 0 else { return }
    guard let server, !mustStop, connections.count < limits.connections else {
      counters.tooMany += 1
      Glibc.close(descriptor)
      return
    }
    makeRoom()
    lastNumber += 1
    let timer = scheduler.schedule(after: limits.time) { [weak self] in self?.timeOut(descriptor) }
    connections[descriptor] = Connection(number: lastNumber, peer: peer, slot: slot, timer: timer)
    // libmicrohttpd wants an address and uses it for limits of its own, which are off.
    var address = sockaddr()
    address.sa_family = sa_family_t(AF_UNIX)
    let isAdded = MHD_add_connection(server, descriptor, &address, socklen_t(MemoryLayout<sockaddr>.size))
    // libmicrohttpd has closed the descriptor if it refuses the connection.
    if isAdded.rawValue == 0 { connections[descriptor] = nil }
    runSoon()
  }

  private func runSoon() {
    guard !willRun else { return }
    willRun = true
    EventLoop.shared.soon { [weak self] in
      self?.willRun = false
      self?.run()
    }
  }

  private func run() {
    guard let server else { return }
    isRunning = true
    MHD_run(server)
    isRunning = false
    if mustStop { return stop() }
    let milliseconds = earshot_http_timeout(server)
    if milliseconds == 0 {
      runSoon()
    } else {
      timer =
        milliseconds < 0
        ? nil : EventLoop.shared.schedule(after: .milliseconds(milliseconds)) { [weak self] in self?.run() }
    }
  }

  /// Ends the oldest connection if there are many.
  private func makeRoom() {
    guard connections.count >= limits.connectionsBeforeEviction else { return }
    let open = connections.filter { $0.value.isStarted && !$0.value.isEnded }
    guard let oldest = open.min(by: { $0.value.number < $1.value.number }) else { return }
    counters.evicted += 1
    end(oldest.key)
  }

  private func timeOut(_ descriptor: Int32) {
    guard let connection = connections[descriptor], !connection.isEnded else { return }
    counters.timedOut += 1
    guard connection.isStarted else {
      // libmicrohttpd has already closed the connection, without a notice.
      connections[descriptor] = nil
      return
    }
    end(descriptor)
  }

  private func end(_ descriptor: Int32) {
    connections[descriptor]?.isEnded = true
    // libmicrohttpd owns the descriptor, and closes it when it reads the end.
    shutdown(descriptor, Int32(SHUT_RDWR))
    runSoon()
  }

  // MARK: What libmicrohttpd calls

  fileprivate func change(_ descriptor: Int32, isStarted: Bool) {
    guard isStarted else {
      guard let connection = connections.removeValue(forKey: descriptor) else { return }
      if !connection.isAnswered, !connection.isEnded { counters.unreadable += 1 }
      return
    }
    connections[descriptor]?.isStarted = true
  }

  /// Returns the response to a request; nil closes the connection without a response.
  fileprivate func respond(
    to method: String?, _ path: String?, headSize: Int, on descriptor: Int32
  ) -> HTTPServerResponse? {
    guard let connection = connections[descriptor], !connection.isAnswered else { return nil }
    connections[descriptor]?.isAnswered = true
    let response: HTTPServerResponse
    if headSize > limits.headSize {
      counters.headsTooLong += 1
      response = HTTPServerResponse(status: 431)
    } else if let method, let path {
      response = answer(HTTPServerRequest(method: method, path: path, peer: connection.peer))
    } else {
      response = HTTPServerResponse(status: 400)
    }
    counters.answered[response.status, default: 0] += 1
    return response
  }
}

private func connectionChanged(
  _ owner: UnsafeMutableRawPointer?, _ connection: OpaquePointer?, _: UnsafeMutablePointer<UnsafeMutableRawPointer?>?,
  _ code: MHD_ConnectionNotificationCode
) {
  guard let owner, let connection else { return }
  let core = Unmanaged<HTTPServerCore>.fromOpaque(owner).takeUnretainedValue()
  let descriptor = earshot_http_socket(connection)
  // MHD_CONNECTION_NOTIFY_STARTED is 0.
  let isStarted = code.rawValue == 0
  LoopActor.assumeIsolated { core.change(descriptor, isStarted: isStarted) }
}

private func requestCame(
  _ owner: UnsafeMutableRawPointer?, _ connection: OpaquePointer?, _ url: UnsafePointer<CChar>?,
  _ method: UnsafePointer<CChar>?, _ version: UnsafePointer<CChar>?, _: UnsafePointer<CChar>?,
  _: UnsafeMutablePointer<Int>?, _: UnsafeMutablePointer<UnsafeMutableRawPointer?>?
) -> MHD_Result {
  guard let owner, let connection else { return earshot_http_result(0) }
  let core = Unmanaged<HTTPServerCore>.fromOpaque(owner).takeUnretainedValue()
  let descriptor = earshot_http_socket(connection)
  let headSize = earshot_http_head_size(connection)
  let needsHost = version.flatMap { String(validatingCString: $0) } != "HTTP/1.0"
  let isComplete = !needsHost || earshot_http_has_host(connection) != 0
  let path = isComplete ? url.flatMap { String(validatingCString: $0) } : nil
  let word = method.flatMap { String(validatingCString: $0) }
  let response = LoopActor.assumeIsolated { core.respond(to: word, path, headSize: headSize, on: descriptor) }
  return response.map { queue($0, on: connection) } ?? earshot_http_result(0)
}

/// Passes a response to libmicrohttpd. It is sent before a body of the request is read.
private func queue(_ response: HTTPServerResponse, on connection: OpaquePointer) -> MHD_Result {
  let made = response.body.withUnsafeBytes { earshot_http_response($0.baseAddress, $0.count) }
  guard let made else { return earshot_http_result(0) }
  defer { MHD_destroy_response(made) }
  for header in response.headers {
    guard MHD_add_response_header(made, header.name, header.value).rawValue == 1 else { return earshot_http_result(0) }
  }
  guard MHD_add_response_header(made, "Connection", "close").rawValue == 1 else { return earshot_http_result(0) }
  return MHD_queue_response(connection, UInt32(clamping: response.status), made)
}
