import DBus
import Radio

/// Error texts of failed connections: bluetoothd's own messages, and their meanings.
enum CentralWords {
  static func connecting(to address: BluetoothAddress, within time: Duration, _ error: DBusError) -> String {
    if error.is(.timeout) { return "\(address) was not connected to within \(time.components.seconds) s." }
    if isOfGoneObject(error) || error.name == BlueZName.Failure.doesNotExist {
      return "bluetoothd has forgotten \(address): it was not heard for some time."
    }
    if error.is(.accessDenied) {
      return "The bus does not let this program connect: is its D-Bus policy installed? (\(error.message))"
    }
    switch error.name {
    case BlueZName.Failure.inProgress: return "Another program is connecting to \(address) just now."
    case BlueZName.Failure.notReady:
      return "The Bluetooth adapter is switched off or blocked: earshot status says what to do."
    default: return "\(address) cannot be connected to (\(error.message))."
    }
  }

  static func changed(_ address: BluetoothAddress) -> String {
    "bluetoothd no longer has what \(address) served: the peer serves something else now, or bluetoothd lost track of it."
  }

  /// Whether the called object no longer exists: the peer was removed, or its database was read again.
  static func isOfGoneObject(_ error: DBusError) -> Bool { error.is(.unknownObject) || error.is(.unknownMethod) }

  /// Whether a handle that bluetoothd remembers no longer matches the peer's database: a characteristic that bluetoothd considers writable
  /// is not (Invalid Handle, Write Not Permitted; Core 5.4 Vol 3 Part F 3.4.1.1).
  static func isOfOldHandle(_ error: DBusError) -> Bool {
    if error.name == BlueZName.Failure.notPermitted { return error.message.lowercased().holds("write not permitted") }
    return error.name == BlueZName.Failure.failed && ATTError.code(in: error.message.lowercased()) == 0x01
  }

  /// Whether a link failed before it was established, so that another attempt may succeed. bluetoothd's messages are
  /// `le-connection-abort-by-local` and, in older versions, `Software caused connection abort`.
  static func isPassing(_ error: DBusError) -> Bool {
    error.name == BlueZName.Failure.failed
      && (error.message.holds("connection-abort") || error.message.holds("connection abort"))
  }
}
