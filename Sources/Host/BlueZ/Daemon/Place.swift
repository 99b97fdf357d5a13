import DBus

/// Where something can be registered: an adapter of one run of bluetoothd.
struct Place: Hashable, Sendable {
  /// bluetoothd's unique name.
  let owner: String
  let adapter: ObjectPath
}
