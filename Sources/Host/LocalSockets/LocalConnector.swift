import Loop

/// What happens on a connection to a program on this machine.
public enum LocalStreamEvent: Sendable, Equatable {
  /// The program sent these bytes, at least one.
  case received([UInt8])
  /// The program sends no more, or is gone.
  case ended
  /// There is no connection.
  case failed(LocalStreamError)
}

/// Why there is no connection to a program on this machine.
public enum LocalStreamError: Error, Hashable, Sendable {
  /// Nothing listens at the path.
  case missing
  /// This process may not connect.
  case denied
  /// The program accepts no more connections at the moment.
  case busy
  /// The system's words for any other reason.
  case other(String)
}

/// Connects to programs on this machine that answer one request per connection. It is a port: tests have a program in virtual time.
@LoopActor
public protocol LocalConnector: Sendable {
  /// Connects to the Unix stream socket at `path`, sends `request`, and shuts down the sending side. It never blocks.
  ///
  /// - Parameter onEvent: called on the loop, never from within this call. The last event is `ended` or `failed`.
  /// - Returns: the connection, which lasts as long as the registration.
  func connect(
    to path: String, sending request: [UInt8], onEvent: @escaping @LoopActor (LocalStreamEvent) -> Void
  ) -> Registration

  /// Whether there is a socket at `path`; a program may or may not listen on it.
  func hasSocket(at path: String) -> Bool
}
