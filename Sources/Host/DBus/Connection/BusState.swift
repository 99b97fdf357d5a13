/// The state of a connection to the bus.
public enum BusState: Hashable, Sendable {
  /// Not established yet; also before `connect` is called.
  case connecting
  /// Established, and owner of the requested name, if any.
  case connected(uniqueName: String)
  /// Established, but without the name: `Busy` if another program owns it (it is requested again when it is free),
  /// otherwise the bus's error.
  case nameUnavailable(DBusError)
  /// Disconnected; the connection retries.
  case lost(DBusError)
  /// Closed by `close()`.
  case closed
}
