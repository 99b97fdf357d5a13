import DBus
import Radio

/// An adapter as bluetoothd describes it.
struct Adapter: Hashable, Sendable {
  let path: ObjectPath
  var address: BluetoothAddress?
  var isPowered = false
  /// `central`, `peripheral`, …; nil where bluetoothd does not say.
  var roles: [String]?
  /// Whether applications and advertisements can be registered at it.
  var hasGATTManager = false
  var hasAdvertisingManager = false
  /// Advertisements that bluetoothd has on the air, not counting those of the management socket.
  var activeInstances = 0

  init(_ path: ObjectPath) {
    self.path = path
  }

  /// `hci0`
  var name: String { path.lastElement }

  /// Whether it can advertise and serve, once it is on.
  var canBePeripheral: Bool { isComplete && roles?.contains("peripheral") != false }

  /// Whether everything there is to it is on the bus. A bluetoothd that starts brings it bit by bit; for an adapter
  /// without Bluetooth Low Energy it never does.
  var isComplete: Bool { hasGATTManager && hasAdvertisingManager }

  /// Whether it is the one that a configuration means by `wanted`: a name or an address.
  func isNamed(_ wanted: String) -> Bool {
    name == wanted || address != nil && address == BluetoothAddress(wanted)
  }

  /// Takes properties of Adapter1 over.
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
    if let value = properties["Powered"] {
      if let isPowered = value.asBool { self.isPowered = isPowered } else { malformed += 1 }
    }
    if let value = properties["Roles"] {
      if let roles = value.asStrings { self.roles = roles } else { malformed += 1 }
    }
    return malformed
  }

  /// The same for those of LEAdvertisingManager1.
  mutating func applyAdvertising(_ properties: [String: DBusValue]) -> UInt64 {
    guard let value = properties["ActiveInstances"] else { return 0 }
    guard let count = value.asInteger, (0...255).contains(count) else { return 1 }
    activeInstances = count
    return 0
  }
}
