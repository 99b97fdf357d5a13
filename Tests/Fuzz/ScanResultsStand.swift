import Common
import DBus
import Radio

@testable import BlueZ
@testable import Sharing

/// Scan results from bluetoothd on their way to the scans: merged reports, and the table of all scans.
struct ScanResultsStand {
  private(set) var reached: Set<String> = []

  private var scanResults = ScanResults()
  private var table = ScanResultTable()
  private var now = Instant.zero
  private var devices: [ObjectPath: Device] = [:]
  private var malformed: UInt64 = 0
  /// The advertisers reported to each scan that were not reported as lost.
  private var told: [ScanResultTable.ScanID: Set<BluetoothAddress>] = [:]
  private var scans: [ScanResultTable.ScanID: Set<BluetoothUUID>] = [:]

  private static let adapter: ObjectPath = "/org/bluez/hci0"
  private static let services = (1...20).map { BluetoothUUID(short: 0xFE00 + UInt16($0)) }
  private static let words = services.map(\.description) + ["fe01", "", "00:AA", "0001"]

  static let goals: Set<String> = [
    "data is put together", "data is replaced", "16 entries", "512 bytes", "both tables are full",
    "something is malformed",
    "an advertiser is lost", "two scans are told", "a long name is none", "64 services",
  ]

  /// Steps; the first byte of each is its kind.
  static let seeds: [[UInt8]] = {
    let scan: [UInt8] = [4, 0, 0]
    let second: [UInt8] = [4, 1, 3]
    func heard(_ number: UInt8, _ properties: [[UInt8]]) -> [UInt8] {
      [0, number, UInt8(properties.count)] + properties.flatMap(\.self)
    }
    func data(_ entries: [(word: UInt8, bytes: [UInt8])]) -> [UInt8] {
      [1, 0, UInt8(entries.count)] + entries.flatMap { [$0.word, 0, UInt8($0.bytes.count)] + $0.bytes }
    }
    let rssi: [UInt8] = [0, 0, 0xFF, 0xC5]
    let long: [(UInt8, [UInt8])] = (0..<3).map { ($0, [UInt8](repeating: $0, count: 250)) }
    let many: [(UInt8, [UInt8])] = (0..<20).map { ($0, [$0]) }
    let name: [UInt8] = [3, 0, 255, 250] + [UInt8](repeating: 0x61, count: 250)
    let companies: [UInt8] = [2, 0, 2, 0, 1, 0, 1, 9, 0, 2, 0, 0]
    let uuids: [UInt8] = [4, 0, 70]
    let wrong: [UInt8] = [0, 0xFF, 1, 1]
    let forBoth: [UInt8] = [4, 0, 2]
    let forOne: [UInt8] = [4, 0, 1]
    let together = heard(1, [rssi, data([(0, [1])])]) + heard(1, [data([(1, [2])])]) + heard(1, [data([(0, [3])])])
    let large = heard(1, [data(many)]) + heard(1, [data(Array(long))])
    let late: [UInt8] = [2, 255, 0, 0, 2, 255, 1, 0, 3, 255, 255]
    let strange = heard(3, [wrong, data([(0, [1])])])
    let back = heard(1, [forBoth, rssi]) + [7] + heard(1, [forOne, rssi]) + [7]
    // The sums are short, because Swift 6.0 cannot type-check long ones.
    var several = scan + second
    several += heard(1, [companies, data([(2, [2])])])
    return [
      scan + together,
      scan + large + [3, 255, 255] + heard(2, [name, uuids, rssi]),
      several + late,
      scan + strange + [6, 3, 5, 0, 7],
      scan + [2, 40, 0, 0] + second + [7],
      [4, 0, 1] + second + back,
    ]
  }()

  mutating func step(_ script: inout Script) {
    switch script.byte() % 8 {
    case 0, 1: hear(UInt64(script.byte()), script.properties(Self.properties))
    case 2:
      let count = UInt64(script.byte())
      let first = UInt64(script.u16())
      for number in first...first + count { hear(number, ["RSSI": .int16(-60)]) }
    case 3: pass(.milliseconds(script.u16()))
    case 4: add(ScanResultTable.ScanID(number: Int(script.byte() % 4)), services: script.byte() % 4)
    case 5: remove(ScanResultTable.ScanID(number: Int(script.byte() % 4)))
    case 6:
      let path = Device.path(of: BluetoothAddress(UInt64(script.byte())), at: Self.adapter)
      scanResults.forget(path)
      devices[path] = nil
    default:
      scanResults.removeAll()
      take(table.loseAll())
      promise(told.values.allSatisfy(\.isEmpty), "a radio that hears nothing has no advertisers")
    }
  }

  private static let properties: [(String, ValueMaker)] = [
    ("RSSI", { .int16(Int16(truncatingIfNeeded: $0.u16())) }),
    (
      "ServiceData",
      { script in
        .dictionary(
          key: "s", value: "v",
          (0..<script.byte() % 32).map { _ in
            let key = script.word(of: words)
            return DBusEntry(.string(key), .variant(script.mostly { .bytes($0.value()) }))
          })
      }
    ),
    (
      "ManufacturerData",
      { script in
        .dictionary(
          key: "q", value: "v",
          (0..<script.byte() % 32).map { _ in
            let key = UInt16(script.u16())
            return DBusEntry(.uint16(key), .variant(script.mostly { .bytes($0.value()) }))
          })
      }
    ),
    ("Name", { .string($0.word(of: ["phone", ""])) }),
    (
      "UUIDs",
      { script in
        let count = Int(script.byte())
        return .strings((0..<count).map { words[$0 % services.count] })
      }
    ),
    ("Connected", { .bool($0.flag()) }), ("Address", { .string($0.word(of: ["00:AA:03:00:00:01", "0"])) }),
  ]

  // MARK: What is heard

  private mutating func hear(_ number: UInt64, _ properties: [String: DBusValue]) {
    let path = Device.path(of: BluetoothAddress(number), at: Self.adapter)
    guard var device = devices[path] ?? Device(path) else { return promise(false, "a path is a device's") }
    malformed += device.apply(properties)
    devices[path] = device
    promise(device.serviceUUIDs.count <= Device.serviceLimit, "services have a limit")
    promise(device.localName.map { $0.utf8.count <= Device.nameLimit } ?? true, "a name has a limit")
    let report = DeviceReport(properties, malformed: &malformed)
    if malformed > 0 { reached.insert("something is malformed") }
    if device.serviceUUIDs.count == Device.serviceLimit { reached.insert("64 services") }
    guard let report else { return }
    check(
      report.serviceData, entries: DeviceReport.entryLimit, bytes: DeviceReport.entryLimit * DeviceReport.bytesLimit)
    promise(report.serviceData.allSatisfy { $0.bytes.count <= DeviceReport.bytesLimit }, "a structure has a limit")
    promise(report.rssi != 127, "127 is no strength")
    let scanResult = scanResults.hear(report, of: device, at: now)
    promise(scanResults.count <= ScanResults.limit, "advertisers have a limit")
    check(scanResult.serviceData, entries: ScanResults.entryLimit, bytes: ScanResults.bytesLimit)
    check(scanResult.manufacturerData, entries: ScanResults.entryLimit, bytes: ScanResults.bytesLimit)
    note(scanResult, report, properties)
    take(table.hear(scanResult, at: now))
  }

  private func check<Data: KeyedBytes>(_ data: [Data], entries: Int, bytes: Int) {
    promise(data.count <= entries, "entries have a limit")
    promise(data.reduce(0) { $0 + $1.bytes.count } <= bytes, "bytes have a limit")
    guard entries == ScanResults.entryLimit, bytes == ScanResults.bytesLimit else { return }
    for (index, entry) in data.enumerated() {
      promise(!data[..<index].contains { $0.key == entry.key }, "a key stands there once")
    }
  }

  private mutating func note(_ scanResult: ScanResult, _ report: DeviceReport, _ properties: [String: DBusValue]) {
    let (count, new) = (scanResult.serviceData.count, report.serviceData)
    if !new.isEmpty, count > new.count { reached.insert("data is put together") }
    if new.count == 1, count == 1, new[0].bytes == [3] { reached.insert("data is replaced") }
    if count == ScanResults.entryLimit { reached.insert("16 entries") }
    let bytes = new.reduce(0) { $0 + $1.bytes.count }
    if bytes > ScanResults.bytesLimit, count < new.count { reached.insert("512 bytes") }
    if case .string(let name)? = properties["Name"], scanResult.localName != name {
      reached.insert("a long name is none")
    }
  }

  // MARK: What scans are told

  private mutating func add(_ scan: ScanResultTable.ScanID, services: UInt8) {
    // A scan has one number for its lifetime.
    guard scans[scan] == nil else { return }
    scans[scan] = services == 3 ? [] : services == 0 ? [] : [Self.services[Int(services)]]
    told[scan] = []
    take(table.add(scan, for: scans[scan] ?? [], at: now))
  }

  private mutating func remove(_ scan: ScanResultTable.ScanID) {
    table.remove(scan)
    scans[scan] = nil
    told[scan] = nil
  }

  private mutating func pass(_ duration: Duration) {
    now = now.advanced(by: duration)
    take(table.expire(at: now))
    promise(table.deadline.map { $0 > now } ?? true, "what was not heard for long enough is lost")
  }

  private mutating func take(_ reports: [ScanResultTable.Report]) {
    var hearers: Set<ScanResultTable.ScanID> = []
    for report in reports {
      guard let services = scans[report.scan] else { return promise(false, "a scan that is over is told nothing") }
      switch report.event {
      case .sighted(let scanResult):
        let isWanted = services.isEmpty || !services.isDisjoint(with: scanResult.services)
        promise(isWanted, "a scan is told of what it asked for")
        told[report.scan]?.insert(scanResult.address)
        hearers.insert(report.scan)
      case .lost(let address):
        promise(told[report.scan]?.remove(address) != nil, "what is lost was told of, once")
        reached.insert("an advertiser is lost")
      }
    }
    if hearers.count > 1 { reached.insert("two scans are told") }
    promise(told.values.allSatisfy { $0.count <= ScanResultTable.limit }, "the table has a limit")
    if scanResults.count == ScanResults.limit, told.values.contains(where: { $0.count == ScanResultTable.limit }) {
      reached.insert("both tables are full")
    }
  }
}
