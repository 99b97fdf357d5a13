import Common
import DBus
import Loop
import Radio

/// An advertisement on the bus, as `LEAdvertisement1`, and its registration.
///
/// bluetoothd decides on the order of the structures, puts the local name into the scan response wherever it was asked
/// for, and writes 0x06 for any flags that make discoverable. Facts: bluez.md section 6.
@LoopActor
final class AdvertisedObject: KeptAdvertisement {
  let shortfall: String?
  private let registration: KeptRegistration
  private let object: ExportedObject

  /// Milliseconds; beyond these the controller refuses.
  private static let intervals = 20...10_240

  /// - Parameter management: why there is no management socket to do it better; nil where nobody wanted one.
  init(
    _ advertisement: Advertisement, at path: ObjectPath, on tree: ObjectTree, registration: KeptRegistration,
    version: BlueZVersion?, management: String? = nil, isOwner: @escaping @LoopActor (MethodCall) -> Bool
  ) {
    self.registration = registration
    shortfall = Self.shortfall(advertisement, version, management)
    let release = Method(
      "Release",
      returning: { [weak registration] (call) throws(DBusError) in
        guard isOwner(call) else { throw .denied("Only bluetoothd may call this.") }
        registration?.released()
        return []
      })
    object = tree.export(
      path,
      interfaces: [
        Interface(
          BlueZName.advertisement, methods: [release],
          properties: Self.values(advertisement).map { name, value in
            Property(name, value.signature, emits: .const, get: { value })
          })
      ])
  }

  var path: ObjectPath? { registration.path }
  var problem: String? { registration.problem }

  func aim(at place: Place?) { registration.aim(at: place) }

  func renew() { registration.renew() }

  func close() {
    registration.close()
    object.cancel()
  }

  /// The scan response that bluetoothd will make of it: with the local name.
  static func scanResponse(of advertisement: Advertisement) -> AdvertisingData {
    var scanResponse = advertisement.scanResponse
    scanResponse.localName = scanResponse.localName ?? advertisement.data.localName
    return scanResponse
  }

  /// The properties of `LEAdvertisement1`; one that says nothing is left out.
  static func values(_ advertisement: Advertisement) -> [(String, DBusValue)] {
    let (data, scanResponse) = (advertisement.data, scanResponse(of: advertisement))
    var values: [(String, DBusValue)] = [("Type", .string("peripheral"))]
    func add(_ prefix: String, _ data: AdvertisingData) {
      if !data.serviceUUIDs.isEmpty {
        values.append((prefix + "ServiceUUIDs", .strings(data.serviceUUIDs.map(\.advertisedText))))
      }
      if !data.serviceData.isEmpty {
        let entries = data.serviceData.map {
          DBusEntry(.string($0.service.advertisedText), .variant(.bytes($0.bytes)))
        }
        values.append((prefix + "ServiceData", .dictionary(key: "s", value: "v", entries)))
      }
    }
    add("", data)
    add("ScanResponse", scanResponse)
    if let name = scanResponse.localName { values.append(("LocalName", .string(name))) }
    // Limited and general discoverable: bits 0 and 1.
    if let flags = data.flags { values.append(("Discoverable", .bool(flags & 0x03 != 0))) }
    let asked = Int(clamping: advertisement.interval.wholeNanoseconds / 1_000_000)
    let interval = UInt32(min(max(asked, intervals.lowerBound), intervals.upperBound))
    values.append(("MinInterval", .uint32(interval)))
    values.append(("MaxInterval", .uint32(interval)))
    return values
  }

  private static func shortfall(
    _ advertisement: Advertisement, _ version: BlueZVersion?, _ management: String?
  ) -> String? {
    let scanResponse = advertisement.scanResponse
    guard let version, version < BlueZLimit.scanResponses,
      !scanResponse.serviceUUIDs.isEmpty || !scanResponse.serviceData.isEmpty
    else { return nil }
    let why = management.map { " (\($0))" } ?? ""
    return "BlueZ \(version) puts no key into the scan response\(why). \(KernelDoors.remedy("CAP_NET_ADMIN")),"
      + " or install BlueZ \(BlueZLimit.scanResponses) or newer."
  }
}

extension BluetoothUUID {
  /// Four digits where they will do, so that bluetoothd sends two bytes.
  fileprivate var advertisedText: String {
    guard let short else { return description }
    let digits = String(short, radix: 16)
    return String(repeating: "0", count: 4 - digits.count) + digits
  }
}
