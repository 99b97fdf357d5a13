import DBus

/// A target of registrations: an adapter of one run of bluetoothd.
struct Place: Hashable, Sendable {
  /// bluetoothd's unique name.
  let owner: String
  let adapter: ObjectPath

  /// The kernel's index of the adapter: 0 for `hci0`.
  var index: UInt16? {
    let name = adapter.lastElement
    return name.hasPrefix("hci") ? UInt16(name.dropFirst(3)) : nil
  }
}
