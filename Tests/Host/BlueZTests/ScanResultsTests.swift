import Common
import DBus
import Radio
import Testing

@testable import BlueZ

@Suite("Merging of reports about an advertiser")
struct ScanResultsTests {
  private typealias Data = AdvertisingData.ServiceData

  private static func data(_ entries: (UInt16, [UInt8])...) -> [AdvertisingData.ServiceData] {
    entries.map { Data(service: BluetoothUUID(short: $0.0), bytes: $0.1) }
  }

  private static func device(_ number: Int = 1) -> Device {
    Device(path: Device.path(of: BluetoothAddress(UInt64(number)), at: "/org/bluez/hci0"))
  }

  struct Merge: Sendable, CustomTestStringConvertible {
    var testDescription: String
    var known: [AdvertisingData.ServiceData]
    var report: [AdvertisingData.ServiceData]
    var together: [AdvertisingData.ServiceData]
  }

  private static let merges = [
    Merge(testDescription: "the first", known: [], report: data((1, [1])), together: data((1, [1]))),
    Merge(
      testDescription: "the scan response by itself", known: data((1, [1])), report: data((2, [2])),
      together: data((1, [1]), (2, [2]))),
    Merge(
      testDescription: "the advertising data again", known: data((1, [1]), (2, [2])), report: data((1, [1])),
      together: data((1, [1]), (2, [2]))),
    Merge(
      testDescription: "nothing", known: data((1, [1]), (2, [2])), report: [], together: data((1, [1]), (2, [2]))),
    Merge(
      testDescription: "new data, whose other half is not there yet", known: data((1, [1]), (2, [2])),
      report: data((1, [7])), together: data((1, [7]))),
    Merge(
      testDescription: "new data, its other half first", known: data((1, [1]), (2, [2])), report: data((2, [8])),
      together: data((2, [8]))),
    Merge(
      testDescription: "new data in one piece", known: data((1, [1]), (2, [2])), report: data((1, [7]), (2, [8])),
      together: data((1, [7]), (2, [8]))),
    Merge(
      testDescription: "another service beside it", known: data((1, [1]), (2, [2])),
      report: data((0xAB29, [3]), (0xAB2A, [4])), together: data((1, [1]), (2, [2]), (0xAB29, [3]), (0xAB2A, [4]))),
  ]

  @Test(
    "Service data missing from a scan report stays in the scan result, unless the advertisement changed",
    arguments: merges)
  func together(merge: Merge) {
    #expect(ScanResults.together(merge.known, merge.report) == merge.together)
  }

  @Test("Of too much service data in a scan report, at most 512 bytes and 16 entries are stored")
  func bounded() {
    let much = (0..<100).map { Data(service: BluetoothUUID(short: UInt16($0)), bytes: [0]) }
    #expect(ScanResults.together([], much).count == 16)
    let large = (0..<10).map { Data(service: BluetoothUUID(short: UInt16($0)), bytes: Array(repeating: 0, count: 250)) }
    #expect(ScanResults.together([], large).count == 2)
    #expect(ScanResults.together(Array(large.prefix(2)), Array(large.suffix(2))).count == 2)
  }

  @Test("Other fields missing from a scan report keep their values in the scan result")
  func kept() {
    var scanResults = ScanResults()
    let device = Self.device()
    _ = scanResults.hear(DeviceReport(serviceData: Self.data((1, [1])), rssi: -40), of: device, at: .zero)
    let same = scanResults.hear(DeviceReport(serviceData: Self.data((1, [1])), rssi: -70), of: device, at: .zero)
    #expect(same.rssi == -70)
    let more = scanResults.hear(DeviceReport(serviceData: Self.data((2, [2]))), of: device, at: .zero)
    #expect(more.serviceData == Self.data((1, [1]), (2, [2])))
    #expect(more.rssi == -70)
  }

  @Test("An advertiser that was not received for 30 s is forgotten")
  func age() {
    var scanResults = ScanResults()
    let device = Self.device()
    _ = scanResults.hear(DeviceReport(serviceData: Self.data((1, [1]))), of: device, at: .zero)
    let late = Instant.zero.advanced(by: .milliseconds(29_999))
    #expect(scanResults.hear(DeviceReport(serviceData: []), of: device, at: late).serviceData == Self.data((1, [1])))
    let later = late.advanced(by: .seconds(30))
    let again = scanResults.hear(DeviceReport(serviceData: Self.data((2, [2]))), of: device, at: later)
    #expect(again.serviceData == Self.data((2, [2])))
  }

  @Test("If there are too many advertisers, the one that was received least recently is forgotten")
  func crowd() {
    var scanResults = ScanResults()
    for number in 0..<1000 {
      _ = scanResults.hear(
        DeviceReport(serviceData: []), of: Self.device(number),
        at: Instant.zero.advanced(by: .milliseconds(number)))
    }
    #expect(scanResults.count == ScanResults.limit)
    #expect(!scanResults.holds(Self.device(743).path) && scanResults.holds(Self.device(744).path))
  }

  struct Heard: Sendable, CustomTestStringConvertible {
    var testDescription: String
    var properties: [String: DBusValue]
    var report: DeviceReport?
    var malformed: UInt64 = 0
  }

  private static func dictionary(_ entries: [(String, DBusValue)]) -> DBusValue {
    .dictionary(key: "s", value: "v", entries.map { DBusEntry(.string($0.0), .variant($0.1)) })
  }

  private static func companies(_ entries: [(UInt16, DBusValue)]) -> DBusValue {
    .dictionary(key: "q", value: "v", entries.map { DBusEntry(.uint16($0.0), .variant($0.1)) })
  }

  private static let reports = [
    Heard(testDescription: "nothing", properties: [:], report: nil),
    Heard(
      testDescription: "a connection", properties: ["Connected": .bool(true), "UUIDs": .strings(["1800"])],
      report: nil),
    Heard(testDescription: "a signal", properties: ["RSSI": .int16(-60)], report: .init(serviceData: [], rssi: -60)),
    Heard(testDescription: "no strength", properties: ["RSSI": .int16(127)], report: .init(serviceData: [])),
    Heard(
      testDescription: "a strength that is none", properties: ["RSSI": .string("loud")],
      report: .init(serviceData: []), malformed: 1),
    Heard(
      testDescription: "service data",
      properties: [
        "ServiceData": dictionary([
          ("00000002-0000-1000-8000-00805f9b34fb", .bytes([2])), ("00000001-0000-1000-8000-00805f9b34fb", .bytes([1])),
        ])
      ], report: .init(serviceData: data((1, [1]), (2, [2])))),
    Heard(
      testDescription: "service data of all sorts",
      properties: [
        "ServiceData": dictionary([
          ("0001", .bytes([1])), ("two", .bytes([2])), ("0003", .string("3")),
          ("0004", .bytes(Array(repeating: 0, count: 255))),
        ])
      ], report: .init(serviceData: data((1, [1]))), malformed: 3),
    Heard(
      testDescription: "manufacturer data, in the order of the companies",
      properties: ["ManufacturerData": companies([(2, .bytes([2])), (1, .bytes([1]))])],
      report: .init(serviceData: [], manufacturerData: [.init(company: 1, bytes: [1]), .init(company: 2, bytes: [2])])),
    Heard(
      testDescription: "manufacturer data of all sorts",
      properties: [
        "ManufacturerData": companies([
          (1, .bytes([1])), (2, .string("2")), (3, .bytes(Array(repeating: 0, count: 255))),
        ])
      ], report: .init(serviceData: [], manufacturerData: [.init(company: 1, bytes: [1])]), malformed: 2),
    Heard(
      testDescription: "manufacturer data that is none", properties: ["ManufacturerData": .options(["1": .bytes([])])],
      report: .init(serviceData: []), malformed: 1),
    Heard(
      testDescription: "service data that is none", properties: ["ServiceData": .uint32(1)],
      report: .init(serviceData: []), malformed: 1),
  ]

  @Test(
    "A scan report is read from the changed properties of a device, and malformed ones are counted", arguments: reports)
  func report(heard: Heard) {
    var malformed: UInt64 = 0
    #expect(DeviceReport(heard.properties, malformed: &malformed) == heard.report)
    #expect(malformed == heard.malformed)
  }
}

extension Device {
  /// Makes a path from a valid string.
  fileprivate init(path: ObjectPath) {
    guard let device = Device(path) else { preconditionFailure("no path of a device: \(path)") }
    self = device
  }
}
