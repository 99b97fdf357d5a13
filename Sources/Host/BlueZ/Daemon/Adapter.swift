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
  /// The adapter's roles: `central`, `peripheral`, …; nil if bluetoothd does not report them.
  var roles: [String]?
  /// UUIDs of the adapter's services: those of bluetoothd, of this program, and of others.
  var services: Set<BluetoothUUID> = []
  /// Whether bluetoothd accepts GATT applications for the adapter.
  var hasGATTManager = false
  /// Whether bluetoothd accepts advertisements for the adapter.
  var hasAdvertisingManager = false
  /// Number of bluetoothd's active advertisements, without those of the management socket.
  var activeInstances = 0
  /// Number of additional advertisements that bluetoothd accepts; nil if it reports none.
  var supportedInstances: Int?

  init(_ path: ObjectPath) {
    self.path = path
  }

  /// The name, for example `hci0`.
  var name: String { path.lastElement }

  /// Whether the adapter can advertise and serve once it is on.
  var canBePeripheral: Bool { isComplete && roles?.contains("peripheral") != false }

  /// Whether all interfaces of the adapter are on the bus. A starting bluetoothd exports them one after the other; for
  /// an adapter without Bluetooth Low Energy it never exports all.
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

/// An adapter during one run of bluetoothd, as the target of registrations.
struct Place: Hashable, Sendable {
  /// bluetoothd's unique name on the bus, which changes with each run.
  let owner: String
  let adapter: ObjectPath

  /// The kernel's index of the adapter: 0 for `hci0`.
  var index: UInt16? {
    let name = adapter.lastElement
    return name.hasPrefix("hci") ? UInt16(name.dropFirst(3)) : nil
  }
}

/// The choice of the adapter to use.
enum AdapterChoice: Equatable {
  /// bluetoothd lists no adapter.
  case none
  /// The configured adapter does not exist.
  case missing
  case switchedOff(Adapter)
  /// The adapter is on, but can neither advertise nor serve.
  case unfit(Adapter)
  case usable(Adapter)

  /// - Parameters:
  ///   - wanted: a name or an address; nil for the first usable adapter.
  ///   - current: the adapter in use, which is preferred while it is usable.
  init(among adapters: some Collection<Adapter>, wanted: String?, current: ObjectPath?) {
    guard !adapters.isEmpty else {
      self = .none
      return
    }
    let candidates = adapters.filter { wanted.map($0.isNamed) ?? true }
      .sorted { ($0.path == current ? 0 : 1, $0.path.string) < ($1.path == current ? 0 : 1, $1.path.string) }
    let choices = candidates.map(Self.init(judging:))
    self = choices.first { $0.adapterInUse != nil } ?? choices.first ?? .missing
  }

  private init(judging adapter: Adapter) {
    if !adapter.isPowered {
      self = .switchedOff(adapter)
    } else {
      self = adapter.canBePeripheral ? .usable(adapter) : .unfit(adapter)
    }
  }

  var adapterInUse: Adapter? {
    if case .usable(let adapter) = self { adapter } else { nil }
  }
}

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
