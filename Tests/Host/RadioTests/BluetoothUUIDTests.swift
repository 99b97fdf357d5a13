import Common
import Testing

@Suite struct BluetoothUUIDTests {
  @Test(
    "A UUID is converted to and from text and to and from advertised bytes",
    arguments: [
      ("00000001-0000-1000-8000-00805f9b34fb", 0x0001, [0x01, 0x00]),
      ("0000ab29-0000-1000-8000-00805f9b34fb", 0xAB29, [0x29, 0xAB]),
      (
        "00000006-5026-444a-9e0e-d6f2450f3a77", nil,
        [0x77, 0x3A, 0x0F, 0x45, 0xF2, 0xD6, 0x0E, 0x9E, 0x4A, 0x44, 0x26, 0x50, 0x06, 0x00, 0x00, 0x00]
      ),
      (
        "00010000-0000-1000-8000-00805f9b34fb", nil,
        [0xFB, 0x34, 0x9B, 0x5F, 0x80, 0x00, 0x00, 0x80, 0x00, 0x10, 0x00, 0x00, 0x00, 0x00, 0x01, 0x00]
      ),
    ] as [(String, UInt16?, [UInt8])])
  func forms(text: String, short: UInt16?, bytes: [UInt8]) throws {
    let uuid = try #require(BluetoothUUID(text))
    #expect(uuid.description == text && BluetoothUUID(text.uppercased()) == uuid)
    #expect(uuid.short == short && uuid.advertisedBytes == bytes)
    if let short { #expect(BluetoothUUID(short: short) == uuid) }
  }

  @Test(
    "A text of four hex digits is parsed as a 16-bit UUID",
    arguments: [("AB29", 0xAB29), ("0001", 1), ("ffff", 0xFFFF)])
  func short(text: String, value: UInt16) {
    #expect(BluetoothUUID(text) == BluetoothUUID(short: value))
  }

  @Test(
    "A text that is neither a full UUID nor four hex digits is refused",
    arguments: [
      "", "AB2", "AB299", "+B29", "-B29", "GB29", "0000AB29", "00000006-5026-444a-9e0e-d6f2450f3a7",
      "00000006-5026-444a-9e0e-d6f2450f3a777", "00000006-5026-444a-9e0ed6f2450f3a77",
      "00000006x5026-444a-9e0e-d6f2450f3a77", "0000000g-5026-444a-9e0e-d6f2450f3a77",
      "+0000006-5026-444a-9e0e-d6f2450f3a77", "00000006-5026-444a-9e0e-+6f2450f3a77",
      "{00000006-5026-444a-9e0e-d6f2450f3a77}", "000000065026444a9e0ed6f2450f3a77",
    ])
  func nonsense(text: String) {
    #expect(BluetoothUUID(text) == nil)
  }
}
