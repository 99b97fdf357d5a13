import Common
import DBus
import Loop
import Radio

/// One slot: an advertisement on the bus, as `LEAdvertisement1`, and its registration with bluetoothd.
///
/// bluetoothd determines the order of the AD structures, always puts the local name into the scan response, and writes
/// 0x06 for all discoverable flags. Facts: bluez.md section 6.
@LoopActor
final class RegisteredSlot {
  let registration: KeptRegistration
  private(set) var advertisement: Advertisement
  private let tree: ObjectTree
  private let isFromBluetoothd: @LoopActor (MethodCall) -> Bool
  private var object: ExportedObject?

  /// The range of intervals that controllers accept, in milliseconds.
  private nonisolated static let intervals = 20...10_240
  /// AD types that have their own properties in `LEAdvertisement1`, which refuses them in `Data`.
  nonisolated static let ownTypes: Set<UInt8> = [
    0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x09, 0x0A, 0x14, 0x15, 0x16, 0x19, 0x1F, 0x20, 0x21, 0xFF,
  ]

  init(
    _ advertisement: Advertisement, on tree: ObjectTree, registration: KeptRegistration,
    isFromBluetoothd: @escaping @LoopActor (MethodCall) -> Bool
  ) {
    self.advertisement = advertisement
    self.registration = registration
    self.tree = tree
    self.isFromBluetoothd = isFromBluetoothd
    export()
  }

  /// Replaces the advertisement. bluetoothd reads the properties only at registration, so the object is registered
  /// again.
  func show(_ advertisement: Advertisement) {
    guard advertisement != self.advertisement else { return }
    self.advertisement = advertisement
    object?.cancel()
    export()
    registration.renew()
  }

  func close(then: @escaping @LoopActor () -> Void) {
    registration.close(then: then)
    object?.cancel()
  }

  private func export() {
    let release = Method(
      "Release",
      returning: { [weak registration, isFromBluetoothd] (call) throws(DBusError) in
        guard isFromBluetoothd(call) else { throw .denied("Only bluetoothd may call this.") }
        registration?.released()
        return []
      })
    object = tree.export(
      registration.path,
      interfaces: [
        Interface(
          BlueZName.advertisement, methods: [release],
          properties: Self.values(advertisement).map { name, value in
            Property(name, value.signature, emits: .const, get: { value })
          })
      ])
  }

  // MARK: The properties

  /// The local name; nil for a connectable advertisement whose scan response has no space for it.
  nonisolated static func name(of advertisement: Advertisement) -> String? {
    let scanResponse = advertisement.scanResponse
    guard advertisement.isConnectable else { return advertisement.data.localName }
    if let name = scanResponse.localName { return name }
    guard let name = advertisement.data.localName else { return nil }
    return (try? AdvertisingData(scanResponse.structures + [.localName(name)]).encoded()) == nil ? nil : name
  }

  /// The properties of `LEAdvertisement1`, without empty ones.
  nonisolated static func values(_ advertisement: Advertisement) -> [(String, DBusValue)] {
    let data = advertisement.data
    let name = name(of: advertisement)
    // bluetoothd accepts no name for a broadcast.
    let isPeripheral = advertisement.isConnectable || name != nil
    var values: [(String, DBusValue)] = [("Type", .string(isPeripheral ? "peripheral" : "broadcast"))]
    values += payload(data, prefix: "")
    if isPeripheral {
      values += payload(advertisement.scanResponse, prefix: "ScanResponse")
      // Limited and general discoverable: bits 0 and 1.
      if let flags = data.flags { values.append(("Discoverable", .bool(flags & 0x03 != 0))) }
    }
    if let name { values.append(("LocalName", .string(name))) }
    let asked = Int(clamping: advertisement.interval.wholeNanoseconds / 1_000_000)
    let interval = UInt32(min(max(asked, intervals.lowerBound), intervals.upperBound))
    values.append(("MinInterval", .uint32(interval)))
    values.append(("MaxInterval", .uint32(interval)))
    return values
  }

  private nonisolated static func payload(_ data: AdvertisingData, prefix: String) -> [(String, DBusValue)] {
    var values: [(String, DBusValue)] = []
    if !data.serviceUUIDs.isEmpty {
      values.append((prefix + "ServiceUUIDs", .strings(data.serviceUUIDs.map(\.advertisedText))))
    }
    if !data.serviceData.isEmpty {
      let entries = data.serviceData.map { DBusEntry(.string($0.service.advertisedText), .variant(.bytes($0.bytes))) }
      values.append((prefix + "ServiceData", .dictionary(key: "s", value: "v", entries)))
    }
    if !data.manufacturerData.isEmpty {
      let entries = data.manufacturerData.map { DBusEntry(.uint16($0.company), .variant(.bytes($0.bytes))) }
      values.append((prefix + "ManufacturerData", .dictionary(key: "q", value: "v", entries)))
    }
    let others = data.structures.compactMap { structure -> DBusEntry? in
      guard case .other(let type, let bytes) = structure, !ownTypes.contains(type) else { return nil }
      return DBusEntry(.byte(type), .variant(.bytes(bytes)))
    }
    if !others.isEmpty { values.append((prefix + "Data", .dictionary(key: "y", value: "v", others))) }
    return values
  }
}

extension BluetoothUUID {
  /// Four hex digits for a 16-bit UUID, so that bluetoothd sends two bytes.
  fileprivate var advertisedText: String {
    guard let short else { return description }
    let digits = String(short, radix: 16)
    return String(repeating: "0", count: 4 - digits.count) + digits
  }
}
