import Radio

/// Commands that an operator types to change the state of one adapter.
///
/// `bluetoothctl COMMAND` acts on the adapter that bluetoothd lists first. If there are several, the adapter must be
/// selected first, which is only possible interactively. Facts: bluez.md section 13.
struct AdapterCommands: Hashable, Sendable {
  /// The adapter's name, for example `hci0`.
  let name: String
  let address: BluetoothAddress?
  /// Whether this is the only adapter that bluetoothd has.
  let isOnly: Bool

  init(_ adapter: Adapter, isOnly: Bool) {
    (name, address) = (adapter.name, adapter.address)
    self.isOnly = isOnly
  }

  var switchOn: String { bluetoothctl("power on") }

  var hide: String { bluetoothctl("discoverable off") }

  var rename: String { bluetoothctl("system-alias NAME") }

  /// The command that makes the adapter not connectable; bluetoothctl has no such command. Without an index `btmgmt`
  /// acts on `hci0`.
  var closeToAll: String {
    name == "hci0" ? "btmgmt connectable off" : "btmgmt --index \(name) connectable off"
  }

  private func bluetoothctl(_ command: String) -> String {
    guard !isOnly, let address else { return "bluetoothctl \(command)" }
    return "in bluetoothctl, select \(address), then \(command)"
  }
}
