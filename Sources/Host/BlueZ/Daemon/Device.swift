import Common
import DBus
import Radio

/// A peer as bluetoothd describes it.
struct Device: Hashable, Sendable {
  let path: ObjectPath
  var address: BluetoothAddress
  var isConnected = false
  /// When bluetoothd said or showed that the peer is connected; nil while it is not.
  var connectedSince: Instant?
  var isPaired = false
  var isTrusted = false
  /// Whether bluetoothd has read what the peer serves, and shows it.
  var isResolved = false
  /// What it advertised so far and serves; the list only grows.
  private(set) var serviceUUIDs: [BluetoothUUID] = []
  private(set) var localName: String?

  /// Whether it was only heard, or was only connected once.
  var isPassing: Bool { !isConnected && !isPaired && !isTrusted }

  /// Services beyond these are passed over.
  static let serviceLimit = 64
  /// The longest name that GAP allows, in bytes; a longer one is none.
  static let nameLimit = 248

  /// A peer by its path, `/org/bluez/hci0/dev_00_AA_01_00_00_23`; nil for any other path.
  init?(_ path: ObjectPath) {
    let elements = path.elements
    guard elements.count == 4, path.isWithin(BlueZName.root), let name = elements.last, name.hasPrefix("dev_"),
      let address = BluetoothAddress(name.dropFirst(4).split(separator: "_").joined(separator: ":"))
    else { return nil }
    self.path = path
    self.address = address
  }

  /// Where bluetoothd has a peer.
  static func path(of address: BluetoothAddress, at adapter: ObjectPath) -> ObjectPath {
    adapter.child("dev_" + address.description.split(separator: ":").joined(separator: "_"))
  }

  /// Takes properties of Device1 over.
  ///
  /// - Returns: how many were not of their type.
  mutating func apply(_ properties: [String: DBusValue]) -> UInt64 {
    var malformed: UInt64 = 0
    func read<Value>(_ name: String, _ convert: (DBusValue) -> Value?) -> Value? {
      guard let value = properties[name] else { return nil }
      let converted = convert(value)
      if converted == nil { malformed += 1 }
      return converted
    }
    address = read("Address") { $0.asString.flatMap { BluetoothAddress($0) } } ?? address
    isPaired = read("Paired", \.asBool) ?? isPaired
    isTrusted = read("Trusted", \.asBool) ?? isTrusted
    let hasResolved = read("ServicesResolved", \.asBool)
    isResolved = hasResolved ?? isResolved
    // bluetoothd does not signal of some links that they are up (docs/bluez.md, "Links"). What a peer serves it reads only while it is
    // connected.
    isConnected = read("Connected", \.asBool) ?? (hasResolved == true || isConnected)
    localName = read("Name") { $0.asString.flatMap { $0.utf8.count <= Self.nameLimit ? $0 : nil } } ?? localName
    if let texts = read("UUIDs", \.asStrings) {
      let uuids = texts.prefix(Self.serviceLimit).map { BluetoothUUID($0) }
      malformed += UInt64(uuids.count(where: { $0 == nil }))
      serviceUUIDs = uuids.compactMap { $0 }
    }
    return malformed
  }
}
