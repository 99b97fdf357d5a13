import Common
import Loop
import Network

/// A request that a server has received. A body is not read.
public struct HTTPServerRequest: Hashable, Sendable {
  public let method: String
  /// The path without its query, with percent-encoding decoded.
  public let path: String
  /// Address of the client; nil if the connection did not come from a network.
  public let peer: Endpoint?

  public init(method: String, path: String, peer: Endpoint?) {
    (self.method, self.path, self.peer) = (method, path, peer)
  }
}

/// The answer of a server. The server adds `Content-Length` and `Connection: close`, and no `Date`.
public struct HTTPServerResponse: Hashable, Sendable {
  public let status: Int
  public let headers: [(name: String, value: String)]
  public let body: [UInt8]

  public init(status: Int, headers: [(name: String, value: String)] = [], body: [UInt8] = []) {
    (self.status, self.headers, self.body) = (status, headers, body)
  }

  public static func == (left: Self, right: Self) -> Bool {
    left.status == right.status && left.body == right.body
      && left.headers.elementsEqual(right.headers) { $0.name == $1.name && $0.value == $1.value }
  }

  public func hash(into hasher: inout Hasher) {
    hasher.combine(status)
    hasher.combine(body)
  }
}

/// The limits of a server.
public struct HTTPServerLimits: Hashable, Sendable {
  /// Maximum length of a request's head with its empty line, in bytes.
  public var headSize = 2048
  /// Maximum duration of one connection, from its start to the end of the response.
  public var time = Duration.seconds(5)
  /// Maximum number of connections at a time.
  public var connections = 64
  /// Number of connections at which a further one ends the oldest, so that slow clients do not exclude others. The
  /// difference to `connections` is for connections that are being ended.
  public var connectionsBeforeEviction = 60

  public init() {}
}

/// Event counters of a server.
public struct HTTPServerCounters: Hashable, Sendable {
  /// Requests that were answered, by status.
  public internal(set) var answered: [Int: UInt64] = [:]
  /// Connections that exceeded the time limit.
  public internal(set) var timedOut: UInt64 = 0
  /// Requests whose head was too long, as far as libmicrohttpd reported it.
  public internal(set) var headsTooLong: UInt64 = 0
  /// Connections that ended without a readable request. libmicrohttpd answers some of them with 400 or 431.
  public internal(set) var unreadable: UInt64 = 0
  /// Connections that were closed because the maximum number was open.
  public internal(set) var tooMany: UInt64 = 0
  /// Connections that were ended for a further one.
  public internal(set) var evicted: UInt64 = 0

  public init() {}

  public var tallies: [Tally] {
    [
      Tally("AnsweredRequests", answered.values.reduce(0, +)), Tally("RequestTimeouts", timedOut),
      Tally("RequestHeadsTooLong", headsTooLong), Tally("UnreadableRequests", unreadable),
      Tally("TooManyRequests", tooMany), Tally("EvictedRequests", evicted),
    ]
  }
}

/// An HTTP/1.1 server over libmicrohttpd, driven by the event loop. Each connection carries one request.
///
/// The server has no listening socket: its owner passes connections to it, from a `TCPListener` with limits of its own,
/// or one end of a pair of sockets.
@LoopActor
public final class HTTPServer {
  private let core: HTTPServerCore
  private let registration: Registration

  /// - Parameter answer: called on the loop for each request.
  /// - Throws: `exhausted` if no descriptors or no memory are left.
  public init(
    limits: HTTPServerLimits = HTTPServerLimits(), on scheduler: any Scheduler = EventLoop.shared,
    answer: @escaping @LoopActor (HTTPServerRequest) -> HTTPServerResponse
  ) throws(NetworkError) {
    let core = HTTPServerCore(limits, scheduler, answer)
    guard core.start() else { throw .exhausted }
    self.core = core
    registration = Registration { core.stop() }
  }

  /// Serves a connection that a listener has accepted.
  public func serve(_ connection: IncomingConnection) {
    let peer = connection.peer
    let (descriptor, slot) = connection.take()
    core.serve(descriptor, from: peer, slot)
  }

  /// Serves a stream socket, which the server owns from now on.
  public func serve(owning descriptor: Int32) { core.serve(descriptor, from: nil, nil) }

  public var counters: HTTPServerCounters { core.counters }
  /// Number of open connections.
  public var connectionCount: Int { core.connectionCount }

  /// Closes all connections. Further ones are not served.
  public func close() { registration.cancel() }
}
