import Bytes
import Common
import Radio
import Testing

@Suite struct AdvertisingDataTests {
  static let key = "e7228c13ac"
  static let scanKey = "e70a0fd63200f49ac2c314df33a2c5e393e0cc9c6bd8ad28544769"

  /// Profile (the UUIDs of both service data), name, AD bytes; from the published test vectors of Tuvali.
  static let cases: [(UInt16, UInt16, String, String, String)] = [
    (
      0x0001, 0x0002, "OVPMOSIP", "02010203030100111601004f56504d4f5349505fe7228c13ac",
      "1e160200e70a0fd63200f49ac2c314df33a2c5e393e0cc9c6bd8ad28544769"
    ),
    (
      0x0001, 0x0002, "STADONENTRY", "0201020303010014160100535441444f4e454e5452595fe7228c13ac",
      "1e160200e70a0fd63200f49ac2c314df33a2c5e393e0cc9c6bd8ad28544769"
    ),
    (
      0x0001, 0x0002, "OVPSTADONENTRY", "02010203030100171601004f5650535441444f4e454e5452595fe7228c13ac",
      "1e160200e70a0fd63200f49ac2c314df33a2c5e393e0cc9c6bd8ad28544769"
    ),
    (
      0xAB29, 0xAB2A, "OVPMOSIP", "020102030329ab111629ab4f56504d4f5349505fe7228c13ac",
      "1e162aabe70a0fd63200f49ac2c314df33a2c5e393e0cc9c6bd8ad28544769"
    ),
    (
      0xAB29, 0xAB2A, "OVPSTADONENTRY", "020102030329ab171629ab4f5650535441444f4e454e5452595fe7228c13ac",
      "1e162aabe70a0fd63200f49ac2c314df33a2c5e393e0cc9c6bd8ad28544769"
    ),
  ]

  private func data(_ service: UInt16, name: String) throws -> AdvertisingData {
    let service = BluetoothUUID(short: service)
    let bytes = try Array((name + "_").utf8) + Hex.decode(Self.key)
    return AdvertisingData(flags: 2, serviceUUIDs: [service], serviceData: [.init(service: service, bytes: bytes)])
  }

  @Test("Advertising data and scan response of a verifier are encoded to the expected bytes", arguments: cases)
  func tuvali(service: UInt16, scanService: UInt16, name: String, expected: String, expectedScan: String) throws {
    #expect(Hex.encode(try data(service, name: name).encoded()) == expected)
    let response = AdvertisingData(serviceData: [
      .init(service: BluetoothUUID(short: scanService), bytes: try Hex.decode(Self.scanKey))
    ])
    #expect(Hex.encode(try response.encoded()) == expectedScan)
  }

  @Test("A local name of 14 bytes fits exactly; one of 15 bytes is refused with the needed length")
  func limit() throws {
    #expect(try data(1, name: "OVPSTADONENTRY").encoded().count == 31)
    let tooLong = try data(1, name: "FIFTEENBYTENAME")
    #expect(throws: RadioError.advertisementTooLong(bytes: 32, limit: 31)) { try tooLong.encoded() }
  }

  @Test("Each advertising field has its AD type and a fixed position, and UUIDs have the shortest form")
  func structures() throws {
    let long = try #require(BluetoothUUID("00000006-5026-444a-9e0e-d6f2450f3a77"))
    let cases: [(AdvertisingData, String)] = [
      (AdvertisingData(), ""),
      (AdvertisingData(flags: 6), "020106"),
      (AdvertisingData(serviceUUIDs: [.init(short: 0x180D), .init(short: 1)]), "05030d180100"),
      (AdvertisingData(serviceUUIDs: [long]), "1107773a0f45f2d60e9e4a44265006000000"),
      (
        AdvertisingData(serviceUUIDs: [long, .init(short: 1)]), "03030100" + "1107773a0f45f2d60e9e4a44265006000000"
      ),
      (AdvertisingData(serviceData: [.init(service: .init(short: 1), bytes: [])]), "03160100"),
      (AdvertisingData(serviceData: [.init(service: long, bytes: [7])]), "1221773a0f45f2d60e9e4a4426500600000007"),
      (AdvertisingData(localName: "Zoë"), "05095a6fc3ab"),
      (
        AdvertisingData(
          flags: 6, serviceUUIDs: [.init(short: 1)], serviceData: [.init(service: .init(short: 2), bytes: [3])],
          localName: "n"), "020106" + "03030100" + "0416020003" + "02096e"
      ),
    ]
    for (data, hex) in cases { #expect(Hex.encode(try data.encoded()) == hex) }
  }

  @Test("`serviceData(for:)` returns the service data of the requested service")
  func scanResult() {
    let scanResult = ScanResult(
      address: BluetoothAddress(1), serviceUUIDs: [],
      serviceData: [.init(service: .init(short: 1), bytes: [1]), .init(service: .init(short: 2), bytes: [2])])
    #expect(scanResult.serviceData(for: .init(short: 2)) == [2])
    #expect(scanResult.serviceData(for: .init(short: 3)) == nil)
  }
}
