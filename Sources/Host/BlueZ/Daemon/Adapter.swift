import Common
import DBus
import Radio

/// An adapter as bluetoothd describes it.
struct Adapter: Hashable, Sendable {
  let path: ObjectPath
  var address: BluetoothAddress?
  var isPowered = false
  /// Whether bluetoothd reports that rfkill blocks the adapter. False for a bluetoothd without `PowerState` (5.66).
  var isBlocked = false
  /// What it is called for peers; nil where bluetoothd does not say.
  var alias: String?
  /// `central`, `peripheral`, …; nil where bluetoothd does not say.
  var roles: [String]?
  /// What it serves, whoever brought it: bluetoothd, this program, and others.
  var services: Set<BluetoothUUID> = []
  /// Whether applications and advertisements can be registered at it.
  var hasGATTManager = false
  var hasAdvertisingManager = false
  /// Advertisements that bluetoothd has on the air, those of the management socket not among them.
  var activeInstances = 0
  /// How many more bluetoothd takes; nil where it does not say.
  var supportedInstances: Int?

  init(_ path: ObjectPath) {
    self.path = path
  }

  /// `hci0`
  var name: String { path.lastElement }

  /// Whether it can advertise and serve, once it is on.
  var canBePeripheral: Bool { isComplete && roles?.contains("peripheral") != false }

  /// Whether all of its interfaces are on the bus. A bluetoothd that starts brings them one after the other; for an
  /// adapter without Bluetooth Low Energy it never brings all.
  var isComplete: Bool { hasGATTManager && hasAdvertisingManager }

  /// Whether a configuration means this adapter by `wanted`: a name or an address.
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
    if let value = properties["PowerState"] {
      if let state = value.asString { isBlocked = state == "off-blocked" } else { malformed += 1 }
    }
    if let value = properties["Alias"] {
      if let alias = value.asString { self.alias = alias } else { malformed += 1 }
    }
    if let value = properties["UUIDs"] {
      if let texts = value.asStrings {
        services = Set(texts.compactMap { BluetoothUUID($0) })
      } else {
        malformed += 1
      }
    }
    if let value = properties["Roles"] {
      if let roles = value.asStrings { self.roles = roles } else { malformed += 1 }
    }
    return malformed
  }

  /// Takes properties of LEAdvertisingManager1 over.
  ///
  /// - Returns: how many were not of their type.
  mutating func applyAdvertising(_ properties: [String: DBusValue]) -> UInt64 {
    var malformed: UInt64 = 0
    func count(_ name: String) -> Int? {
      guard let value = properties[name] else { return nil }
      let count = value.asInteger.flatMap { (0...255).contains($0) ? $0 : nil }
      if count == nil { malformed += 1 }
      return count
    }
    activeInstances = count("ActiveInstances") ?? activeInstances
    supportedInstances = count("SupportedInstances") ?? supportedInstances
    return malformed
  }
}
