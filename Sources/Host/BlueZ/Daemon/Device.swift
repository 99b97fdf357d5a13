import Common
import DBus
import Radio

/// A peer as bluetoothd describes it.
struct Device: Hashable, Sendable {
  let path: ObjectPath
  var address: BluetoothAddress
  var isConnected = false
  /// When bluetoothd first reported the peer as connected; nil if it is not connected.
  var connectedSince: Instant?
  var isPaired = false
  var isTrusted = false
  /// Whether bluetoothd has discovered the peer's services, and exports them.
  var isResolved = false
  /// UUIDs that the peer advertised or serves; the list only grows.
  private(set) var serviceUUIDs: [BluetoothUUID] = []
  private(set) var localName: String?

  /// Whether the peer is neither connected, paired nor trusted.
  var isPassing: Bool { !isConnected && !isPaired && !isTrusted }

  /// Maximum services; further ones are ignored.
  static let serviceLimit = 64
  /// Maximum bytes of a name in GAP; a longer name is ignored.
  static let nameLimit = 248

  /// Creates a peer from its path, `/org/bluez/hci0/dev_00_AA_01_00_00_23`; nil for any other path.
  init?(_ path: ObjectPath) {
    let elements = path.elements
    guard elements.count == 4, path.isWithin(BlueZName.root), let name = elements.last, name.hasPrefix("dev_"),
      let address = BluetoothAddress(name.dropFirst(4).split(separator: "_").joined(separator: ":"))
    else { return nil }
    self.path = path
    self.address = address
  }

  /// The object path of a peer.
  static func path(of address: BluetoothAddress, at adapter: ObjectPath) -> ObjectPath {
    adapter.child("dev_" + address.description.split(separator: ":").joined(separator: "_"))
  }

  /// Applies properties of `Device1`.
  ///
  /// - Returns: number of properties with a wrong type.
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
    // bluetoothd does not signal that some links are up (docs/bluez.md, "Links"). It discovers services only while the
    // peer is connected.
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
