import DBus
import Radio

/// A peer as bluetoothd describes it.
struct Device: Hashable, Sendable {
  let path: ObjectPath
  var address: BluetoothAddress
  var isConnected = false
  var isPaired = false

  /// A peer by its path, `/org/bluez/hci0/dev_00_AA_01_00_00_23`; nil for any other path.
  init?(_ path: ObjectPath) {
    let elements = path.elements
    guard elements.count == 4, path.isWithin(BlueZName.root), let name = elements.last, name.hasPrefix("dev_"),
      let address = BluetoothAddress(name.dropFirst(4).split(separator: "_").joined(separator: ":"))
    else { return nil }
    self.path = path
    self.address = address
  }

  /// Takes properties of Device1 over.
  ///
  /// - Returns: how many were not of their type.
  mutating func apply(_ properties: [String: DBusValue]) -> UInt64 {
    var malformed: UInt64 = 0
    if let value = properties["Address"] {
      if let address = value.asString.flatMap({ BluetoothAddress($0) }) {
        self.address = address
      } else {
        malformed += 1
      }
    }
    if let value = properties["Connected"] {
      if let isConnected = value.asBool { self.isConnected = isConnected } else { malformed += 1 }
    }
    if let value = properties["Paired"] {
      if let isPaired = value.asBool { self.isPaired = isPaired } else { malformed += 1 }
    }
    return malformed
  }
}
