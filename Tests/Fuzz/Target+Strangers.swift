import Bytes
import Common
import DBus
import Radio

@testable import BlueZ
@testable import HCI
@testable import Sharing

/// Data of strangers that bluetoothd and the kernel pass on: advertisements, served attributes, and writes.
extension Target {
  static let strangers = [
    Target(
      name: "advertising-report",
      seeds: {
        let address = BluetoothAddress(0x00AA_0300_0001)
        let data: [[UInt8]] = [
          [], [2, 1, 6, 3, 3, 1, 0, 5, 0x16, 1, 0, 7, 8], [3, 0x09, 0x61, 0xC3, 5, 0xFF, 1, 2, 3, 4, 0, 9],
          [UInt8](repeating: 0, count: AdvertisingReport.limit), Array((0..<1650).map { UInt8($0 % 31) }),
        ]
        var reports: [[UInt8]] = data.enumerated().map { number, data in
          let kinds: [AddressKind] = [.publicAddress, .randomAddress, .classic]
          var writer = ByteWriter()
          AdvertisingReport(
            address: address, kind: kinds[number % 3], rssi: number == 0 ? nil : -59, flags: UInt32(number), data: data
          ).write(to: &writer)
          return writer.bytes
        }
        // One byte more than the maximum, after the valid length.
        var long = reports[3] + [0]
        long[12] += 1
        reports.append(long)
        return reports
      },
      goals: ["a report without strength", "a report of 1650 bytes", "a scan is told", "a name is mended"],
      play: hear),
    Target(
      name: "sightings", seeds: { ScanResultsStand.seeds }, goals: ScanResultsStand.goals,
      play: { bytes in
        var stand = ScanResultsStand()
        var script = Script(bytes)
        while !script.isAtEnd { stand.step(&script) }
        return stand.reached
      }),
    Target(
      name: "remote-database",
      seeds: {
        // A service, its characteristics, others with that UUID, more than the maximum, and an object that is not
        // one.
        let service: [UInt8] = [0, 0x10, 1, 0, 0, 0]
        let characteristic: [UInt8] = [1, 0x10, 0x11, 4, 0, 0, 1, 1, 0, 2, 0, 3, 1, 2, 3, 3, 0, 2, 5]
        return [
          service + characteristic, service + [0, 0x20, 1, 0, 0, 0] + characteristic + characteristic,
          service + [2, 0x10, 255, 2, 0x10, 255, 2, 0x10, 255, 2, 0x10, 255, 2, 0x10, 255], [3, 200],
          [4, 0x10] + [13, 2, 1, 0x61, 8, 0, 0, 4] + service, service + [1, 0x10, 0x11, 1, 0, 0xFF, 1, 1],
        ]
      },
      goals: [
        "a characteristic is read", "128 services", "1024 characteristics", "something is malformed", "an MTU is told",
      ],
      play: serve),
    Target(
      name: "write-options",
      seeds: {
        [
          [4, 0, 0, 1, 0, 2, 5, 2, 0, 0, 7, 3, 0, 1], [2, 1, 0, 0, 22, 2, 0xFF, 2, 0x80, 0], [1, 4, 1, 0x78, 1, 1],
          [3, 0, 0xFF, 5, 0, 0, 0, 0, 1, 0, 255, 255, 3, 0xFF, 3, 1, 0],
        ]
      },
      goals: ["a device", "an MTU", "an offset", "an offset that is none", "a question", "something is malformed"],
      play: options),
  ]

  // MARK: Advertisements

  private static func hear(_ bytes: UnsafeRawBufferPointer) -> Set<String> {
    var reached: Set<String> = []
    var reader = ByteReader(Array(bytes))
    guard let report = taken({ try AdvertisingReport(reading: &reader) }) else { return [] }
    promise(
      reader.isAtEnd && report.data.count <= AdvertisingReport.limit, "a report is read to its end, and no further")
    var writer = ByteWriter()
    report.write(to: &writer)
    promise(writer.bytes.elementsEqual(bytes), "a report is written as it was read")
    if report.rssi == nil { reached.insert("a report without strength") }
    if report.data.count == AdvertisingReport.limit { reached.insert("a report of 1650 bytes") }
    let data = AdvertisingData(decoding: report.data)
    // Each structure has a length and a type.
    promise(data.structures.count <= report.data.count / 2, "there are no more structures than bytes for them")
    let held =
      data.serviceData.reduce(0) { $0 + $1.bytes.count + 4 }
      + data.manufacturerData.reduce(0) { $0 + $1.bytes.count + 4 }
    promise(held <= report.data.count, "no more is read than was sent")
    if data.localName?.unicodeScalars.contains("\u{FFFD}") == true { reached.insert("a name is mended") }
    var table = ScanResultTable()
    let scan = ScanResultTable.ScanID(number: 1)
    _ = table.add(scan, for: [], at: .zero)
    let scanResult = ScanResult(
      address: report.address, serviceUUIDs: data.serviceUUIDs, serviceData: data.serviceData,
      manufacturerData: data.manufacturerData, localName: data.localName, rssi: report.rssi.map(Int.init))
    let told = table.hear(scanResult, at: .zero)
    promise(told == [.init(scan: scan, event: .sighted(scanResult))], "a scan is told of a new advertiser")
    promise(table.hear(scanResult, at: .zero).isEmpty, "and told once")
    reached.insert("a scan is told")
    return reached
  }

  // MARK: Servers

  private static let device: ObjectPath = "/org/bluez/hci0/dev_00_AA_03_00_00_01"
  private static let uuids = (1...4).map { BluetoothUUID(short: 0xFE00 + UInt16($0)).description } + ["fe01", "x"]
  private static let flags = ["read", "write", "write-without-response", "notify", "indicate", "authorize"]

  private static func path(_ service: UInt8) -> ObjectPath { device.child("service00" + Hex.encode([service])) }

  private static func object(_ interface: String, _ properties: [String: DBusValue]) -> DBusValue {
    .dictionary(key: "s", value: "a{sv}", [DBusEntry(.string(interface), .options(properties))])
  }

  /// A peer's database as bluetoothd shows it, object by object.
  private static func objects(_ script: inout Script) -> [String: DBusValue] {
    var objects: [String: DBusValue] = [:]
    while !script.isAtEnd {
      switch script.byte() % 5 {
      case 0:
        let path = path(script.byte())
        objects[path.string] = object(
          BlueZName.gattService,
          script.properties([("UUID", { .string($0.word(of: uuids)) }), ("Primary", { .bool($0.flag()) })]))
      case 1:
        let service = path(script.byte())
        let path = service.child("char00" + Hex.encode([script.byte()]))
        objects[path.string] = object(BlueZName.gattCharacteristic, script.properties(characteristic(of: service)))
      case 2:
        let service = path(script.byte())
        let properties: [String: DBusValue] = [
          "UUID": .string(uuids[0]), "Service": .objectPath(service), "Flags": .strings(flags), "MTU": .uint16(185),
        ]
        let first = objects.count
        for number in first...first + Int(script.byte()) {
          objects[service.child("char\(number)").string] = object(BlueZName.gattCharacteristic, properties)
        }
      case 3:
        for number in 0...script.byte() {
          objects[path(number).string] = object(BlueZName.gattService, ["UUID": .string(uuids[0])])
        }
      default: objects[path(script.byte()).string] = script.anyValue()
      }
    }
    return objects
  }

  private static func characteristic(of service: ObjectPath) -> [(String, ValueMaker)] {
    [
      ("UUID", { .string($0.word(of: uuids)) }), ("Service", { _ in .objectPath(service) }),
      (
        "Flags",
        { script in
          let count = Int(script.byte() % 8)
          return .strings((0..<count).map { _ in script.word(of: flags) })
        }
      ), ("MTU", { .uint16(UInt16($0.u16())) }),
    ]
  }

  private static func serve(_ bytes: UnsafeRawBufferPointer) -> Set<String> {
    var reached: Set<String> = []
    var script = Script(bytes)
    let database = RemoteDatabase(objects(&script), of: device)
    let characteristics = database.services.flatMap { service in
      service.characteristics.map { CharacteristicID(service: service.uuid, characteristic: $0.uuid) }
    }
    promise(database.services.count <= RemoteDatabase.serviceLimit, "services have a limit")
    promise(characteristics.count <= RemoteDatabase.characteristicLimit, "characteristics have a limit")
    promise(Set(characteristics) == Set(database.paths.keys), "each characteristic has a place")
    promise(database.paths.values.allSatisfy { $0.isWithin(device) }, "each place is the peer's")
    promise(database.mtu.map { (ATT.firstMTU...0xFFFF).contains($0) } ?? true, "an MTU is one")
    if !characteristics.isEmpty { reached.insert("a characteristic is read") }
    if database.services.count == RemoteDatabase.serviceLimit { reached.insert("128 services") }
    if characteristics.count == RemoteDatabase.characteristicLimit { reached.insert("1024 characteristics") }
    if database.malformed > 0 { reached.insert("something is malformed") }
    if database.mtu != nil { reached.insert("an MTU is told") }
    return reached
  }

  // MARK: Writes

  private static let option: [(String, ValueMaker)] = [
    ("device", { _ in .objectPath(device) }), ("mtu", { .uint16(UInt16($0.u16())) }),
    ("offset", { .uint16(UInt16($0.u16())) }), ("prepare-authorize", { .bool($0.flag()) }),
  ]

  private static func options(_ bytes: UnsafeRawBufferPointer) -> Set<String> {
    var reached: Set<String> = []
    var script = Script(bytes)
    let properties = script.properties(option)
    let options = ServedCharacteristic.CallOptions(.options(properties))
    promise(options.device == properties["device"]?.asObjectPath, "the client is the one that is named")
    promise(options.mtu.map { (ATT.firstMTU...0xFFFF).contains($0) } ?? true, "an MTU is one")
    promise(options.offset.map { $0 >= 0 } ?? true, "an offset is one")
    promise(options.offset == 0 || properties["offset"] != nil, "what is not said is 0")
    promise(options.isQuestion == (properties["prepare-authorize"]?.asBool == true), "a question is one")
    promise(options.malformed <= 1, "what is malformed is counted once")
    if options.device != nil { reached.insert("a device") }
    if options.mtu != nil { reached.insert("an MTU") }
    if let offset = options.offset, offset > 0 { reached.insert("an offset") }
    if options.offset == nil { reached.insert("an offset that is none") }
    if options.isQuestion { reached.insert("a question") }
    if options.malformed > 0 { reached.insert("something is malformed") }
    // Options of a wrong type are ignored.
    let other = ServedCharacteristic.CallOptions(script.anyValue())
    promise(other.offset.map { $0 >= 0 } ?? true, "an offset is one")
    return reached
  }
}
