import Common
import Radio
import Testing

@Suite struct BluetoothAddressTests {
  @Test(
    "A Bluetooth address is parsed from text and written as text",
    arguments: [
      ("00:AA:01:00:00:23", 0x00AA_0100_0023), ("00:00:00:00:00:00", 0), ("FF:FF:FF:FF:FF:FF", 0xFFFF_FFFF_FFFF),
      ("C0:00:00:00:00:01", 0xC000_0000_0001),
    ] as [(String, UInt64)])
  func text(text: String, value: UInt64) throws {
    #expect(BluetoothAddress(text)?.value == value)
    #expect(BluetoothAddress(text.lowercased())?.value == value)
    #expect(BluetoothAddress(value).description == text)
  }

  @Test(
    "A text that is not six pairs of hex digits is refused as a Bluetooth address",
    arguments: [
      "", "00:AA:01:00:00", "00:AA:01:00:00:23:45", "00:AA:01:00:00:2", "00:AA:01:00:00:+2", "00:AA:01:00:00:-2",
      "00:AA:01:00:00:-0", "-0:AA:01:00:00:23", "00:AA:01:00:00:+f",
      "00-AA-01-00-00-23", "00:AA:01:00:00:G3", "00:AA:01:00::23", "000:A:01:00:00:23", " 00:AA:01:00:00:23",
      "00:AA:01:00:00:٣٣", "00AA01000023",
    ])
  func nonsense(text: String) {
    #expect(BluetoothAddress(text) == nil)
  }

  @Test("The bits above the 48 of a Bluetooth address are dropped")
  func width() {
    #expect(BluetoothAddress(0xFFFF_00AA_0100_0023) == BluetoothAddress(0x00AA_0100_0023))
  }
}
