import Loop

/// An event of a connection that carries bytes in both directions.
public enum StreamEvent: Sendable, Equatable {
  /// The peer sent these bytes, at least one.
  case received([UInt8])
  /// The transport accepted this number of bytes, in the order in which they were sent.
  case written(Int)
  /// The peer answered a ping. Only transports with pings report it.
  case pong
  /// The peer sends no more bytes, or is gone. This is the last event.
  case ended
}

/// A connection that carries bytes in both directions. It is a protocol, so that tests can simulate a peer in virtual
/// time.
@LoopActor
public protocol StreamConnection: AnyObject, Sendable {
  /// Called on the loop, never from within a call of this type, and not after `close`.
  var onEvent: @LoopActor (StreamEvent) -> Void { get set }
  /// Whether bytes of the peer are read. Unread bytes wait at the peer.
  var isReading: Bool { get set }

  /// Sends bytes after earlier ones. It never blocks; the caller bounds the waiting bytes by the events `written`.
  func send(_ bytes: [UInt8])
  /// Sends a ping to the peer. It has no effect on a transport without pings.
  func ping()
  /// Sends the bytes that wait, for at most 10 s, and then closes the connection. No event follows.
  func close()
  /// Closes the connection now, and drops waiting bytes.
  func abort()
}

extension StreamConnection {
  public func ping() {}
  public func abort() { close() }
}

/// Reason why a listener cannot use an address.
public enum ListenError: Error, Hashable, Sendable, CustomStringConvertible {
  /// The path is empty, too long, or not absolute.
  case badPath(String)
  /// The host is not a numeric IP address.
  case badAddress(String)
  /// The address is used by another program, or the path is not a socket.
  case inUse(String)
  /// Any other reason, in the system's words.
  case failed(String, reason: String)

  public var description: String {
    switch self {
    case .badPath(let path):
      "\(path) cannot be the path of a socket: it has to begin with / and have at most 107 bytes."
    case .badAddress(let host): "\(host) is not a numeric IPv4 or IPv6 address."
    case .inUse(let path): "\(path) is used by another program. Stop that program, or choose another address."
    case .failed(let path, let reason): "\(path) cannot be listened at: \(reason)."
    }
  }
}

/// Listens for connections of programs on this machine. It is a protocol, so that tests can simulate programs in
/// virtual time.
@LoopActor
public protocol LocalListening: Sendable {
  /// Listens at the Unix stream socket `path`, for the lifetime of the registration.
  ///
  /// - Parameters:
  ///   - mode: the permissions of the socket; users with write permission may connect.
  ///   - onConnection: called on the loop with each connection and the user ID of its peer.
  func listen(
    at path: String, mode: UInt32, onConnection: @escaping @LoopActor (any StreamConnection, UInt32) -> Void
  ) throws(ListenError) -> Registration

  /// Listens at a TCP port, for the lifetime of the registration.
  ///
  /// - Parameters:
  ///   - host: a numeric IPv4 or IPv6 address; `::` is all addresses, of IPv4 too.
  ///   - onConnection: called on the loop with each connection and its peer.
  func listen(
    atHost host: String, port: UInt16, onConnection: @escaping @LoopActor (any StreamConnection, StreamPeer) -> Void
  ) throws(ListenError) -> Registration
}
