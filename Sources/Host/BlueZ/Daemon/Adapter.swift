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
  /// The adapter's name for peers; nil if bluetoothd does not report one.
  var alias: String?
  /// `central`, `peripheral`, …; nil if bluetoothd does not report roles.
  var roles: [String]?
  /// UUIDs of the adapter's services: those of bluetoothd, of this program, and of others.
  var services: Set<BluetoothUUID> = []
  /// Whether bluetoothd accepts applications and advertisements for it.
  var hasGATTManager = false
  var hasAdvertisingManager = false
  /// Number of bluetoothd's active advertisements, without those of the management socket.
  var activeInstances = 0
  /// Number of further advertisements that bluetoothd accepts; nil if it does not report one.
  var supportedInstances: Int?

  init(_ path: ObjectPath) {
    self.path = path
  }

  /// The name, for example `hci0`.
  var name: String { path.lastElement }

  /// Whether it can advertise and serve once it is on.
  var canBePeripheral: Bool { isComplete && roles?.contains("peripheral") != false }

  /// Whether all of its interfaces are on the bus. A starting bluetoothd exports them one after the other; for an
  /// adapter without Bluetooth Low Energy it never exports all.
  var isComplete: Bool { hasGATTManager && hasAdvertisingManager }

  /// Whether `wanted` is the adapter's name or address.
  func isNamed(_ wanted: String) -> Bool {
    name == wanted || address != nil && address == BluetoothAddress(wanted)
  }

  /// Applies properties of `Adapter1`.
  ///
  /// - Returns: number of properties with a wrong type.
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

  /// Applies properties of `LEAdvertisingManager1`.
  ///
  /// - Returns: number of properties with a wrong type.
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
