import Bytes
import Common
import Crypto
import Foundation
import Radio
import Testing
import Transfers
import Tuvali

/// The data that phones see of the verifier before they write: the advertisement bytes, and the GATT service.
@Suite("Advertisements and GATT service of a verifier")
struct ServedTests {
  /// Advertisements in the protocol's vectors.
  struct Vectors: Decodable {
    struct Keys: Decodable { let verifierPublicHex: String }
    struct Advertising: Decodable { let cases: [Case] }
    struct Case: Decodable {
      let profile, name: String
      let advDataHex, scanResponseHex: String
      let advFits31: Bool
      let advLen: Int
    }
    let keys: Keys
    let advertising: Advertising

    static func read() throws -> Vectors {
      let tests = URL(filePath: #filePath).appending(path: "../../../..").standardizedFileURL
      let decoder = JSONDecoder()
      decoder.keyDecodingStrategy = .convertFromSnakeCase
      let file = tests.appending(path: "Protocols/TuvaliTests/Vectors/tuvali.json")
      return try decoder.decode(Vectors.self, from: Data(contentsOf: file))
    }
  }

  private static let dialects: [String: [Dialect]] = [
    "tuvali_0_5": [.v05], "tuvali_0_2_4_to_0_4_9": [.v04, .v03],
  ]

  @Test("Advertisement and scan response equal the Tuvali vectors, except for the flag `no BR/EDR`")
  func advertisement() throws {
    let vectors = try Vectors.read()
    let key = try X25519.PublicKey(try Hex.decode(vectors.keys.verifierPublicHex))
    var seen: Set<Dialect.Name> = []
    for row in vectors.advertising.cases where row.advFits31 {
      var data = try Hex.decode(row.advDataHex)
      // The platform of the originals sends the flags 0x02.
      #expect(data.prefix(3) == [2, 1, 2] && data.count == row.advLen)
      data[2] |= 0x04
      let scanResponse = try Hex.decode(row.scanResponseHex)
      for dialect in try #require(Self.dialects[row.profile]) {
        let shown = dialect.advertisement(for: try Invitation(name: row.name, key: key))
        let bytes = [try shown.data.encoded(), try shown.scanResponse.encoded()]
        #expect(bytes == [data, scanResponse], "\(dialect.name) \(row.name)")
        #expect(shown.isConnectable)
        seen.insert(dialect.name)
      }
    }
    #expect(seen.count == 3)
  }

  /// Facts: tuvali.md section 3.
  private static let table: [(v05: String, v04: UInt16, properties: GATTCharacteristic.Properties)] = [
    ("00000004-5026-444A-9E0E-D6F2450F3A77", 0x2031, [.read, .indicate]),
    ("00000005-5026-444A-9E0E-D6F2450F3A77", 0x2032, [.read, .indicate]),
    ("00000006-5026-444A-9E0E-D6F2450F3A77", 0x2030, [.write, .writeWithoutResponse]),
    ("00000007-5026-444A-9E0E-D6F2450F3A77", 0x2033, [.write, .writeWithoutResponse]),
    ("00000008-5026-444A-9E0E-D6F2450F3A77", 0x2034, [.write, .writeWithoutResponse]),
    ("00000009-5026-444A-9E0E-D6F2450F3A77", 0x2035, [.write, .writeWithoutResponse]),
    ("0000000A-5026-444A-9E0E-D6F2450F3A77", 0x2036, [.notify, .indicate]),
    ("00002037-0000-1000-8000-00805F9B34FB", 0x2037, [.notify, .indicate]),
    ("0000000B-5026-444A-9E0E-D6F2450F3A77", 0x2038, [.notify, .indicate]),
  ]

  @Test(
    "Each characteristic has the properties of tuvali.md section 3, and notifies exactly one client",
    arguments: [Dialect.v05, .v04, .v03])
  func characteristics(dialect: Dialect) throws {
    let isNew = dialect == .v05
    let service = dialect.gattService
    #expect(service.uuid == BluetoothUUID(short: isNew ? 0x0001 : 0xAB29))
    let found = Dictionary(service.characteristics.map { ($0.uuid, $0) }, uniquingKeysWith: { first, _ in first })
    #expect(service.characteristics.count == Self.table.count && found.count == Self.table.count)
    for row in Self.table {
      let new = try #require(BluetoothUUID(row.v05))
      let uuid = isNew ? new : BluetoothUUID(short: row.v04)
      let characteristic = try #require(found[uuid], "\(row.v05)")
      #expect(characteristic.properties == row.properties, "\(row.v05)")
      // The Android wallet never subscribes, and a wallet must not see another wallet's value.
      let reach: GATTCharacteristic.Reach = row.properties.contains(.notify) ? .exact : .subscribers
      #expect(characteristic.reach == reach, "\(row.v05)")
    }
  }
}
