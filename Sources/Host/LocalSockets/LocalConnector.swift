import Loop

/// An event of a connection to a program on this machine.
public enum LocalStreamEvent: Sendable, Equatable {
  /// The program sent these bytes, at least one.
  case received([UInt8])
  /// The program has ended its output or the connection.
  case ended
  /// The connection failed, for this reason. This is the last event.
  case failed(LocalStreamError)
}

/// The reason why a connection to a program on this machine failed.
public enum LocalStreamError: Error, Hashable, Sendable {
  /// The path does not exist, or no program listens on its socket.
  case missing
  /// This process lacks permission to connect.
  case denied
  /// The program accepts no further connections now.
  case busy
  /// Any other reason, in the system's words.
  case other(String)
}

/// Connects to programs on this machine that answer one request per connection. It is a port: tests use a simulated
/// program in virtual time.
@LoopActor
public protocol LocalConnector: Sendable {
  /// Connects to the Unix stream socket at `path`, sends `request`, and shuts down the sending direction. It never
  /// blocks.
  ///
  /// - Parameter onEvent: called on the loop, never from within this call. The last event is `ended` or `failed`.
  /// - Returns: the connection, which ends with the registration.
  func connect(
    to path: String, sending request: [UInt8], onEvent: @escaping @LoopActor (LocalStreamEvent) -> Void
  ) -> Registration

  /// Whether a socket exists at `path`; a program may or may not listen on it.
  func hasSocket(at path: String) -> Bool
}
