/// How a connection to the bus stands.
public enum BusState: Hashable, Sendable {
  /// Not there yet; also before `connect` was called.
  case connecting
  /// On the bus, with the name that was asked for, if one was.
  case connected(uniqueName: String)
  /// On the bus, but without the name: `Busy` when another program owns it (it is taken as soon as it is free),
  /// otherwise what the bus said.
  case nameUnavailable(DBusError)
  /// Cut off; the connection is tried again.
  case lost(DBusError)
  /// Closed by `close()`.
  case closed
}
