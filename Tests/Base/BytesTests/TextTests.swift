import Bytes
import Testing

@Suite("Hex and Base64URL")
struct TextTests {
  @Test(
    "Hex decoding accepts upper and lower case, and encoding writes lower case",
    arguments: [
      ("", []), ("00", [0]), ("0f", [15]), ("f0", [0xF0]), ("ff", [255]), ("09af", [9, 0xAF]),
      ("0123456789abcdef", [0x01, 0x23, 0x45, 0x67, 0x89, 0xAB, 0xCD, 0xEF]),
    ] as [(String, [UInt8])])
  func hex(text: String, bytes: [UInt8]) throws {
    #expect(Hex.encode(bytes) == text)
    #expect(try Hex.decode(text) == bytes)
    #expect(try Hex.decode(text.uppercased()) == bytes)
  }

  @Test("Hex encoding and decoding restore each of the 256 byte values")
  func everyByte() throws {
    let bytes = Array(UInt8.min...UInt8.max)
    #expect(try Hex.decode(Hex.encode(bytes)) == bytes)
  }

  @Test(
    "Hex decoding refuses a text that does not consist of pairs of hex digits",
    arguments: [
      "0", "000", "0g", "g0", " 00", "00 ", "0x", "-1", "+1", "/0", ":0", "@0", "G0", "`0", "０0", "é", "0\u{0}",
    ])
  func badHex(_ text: String) {
    #expect(throws: WireError.badValue("hex")) { try Hex.decode(text) }
  }

  @Test(
    "Base64URL decoding accepts a text with or without padding",
    arguments: [
      ("", "", []), ("Zg", "==", [0x66]), ("Zm8", "=", [0x66, 0x6F]), ("Zm9v", "", [0x66, 0x6F, 0x6F]),
      ("Zm9vYg", "==", Array("foob".utf8)), ("Zm9vYmE", "=", Array("fooba".utf8)),
      ("Zm9vYmFy", "", Array("foobar".utf8)), ("-_8", "=", [0xFB, 0xFF]), ("____", "", [255, 255, 255]),
      ("AAAA", "", [0, 0, 0]), ("_w", "==", [255]),
    ] as [(String, String, [UInt8])])
  func base64(text: String, padding: String, bytes: [UInt8]) throws {
    #expect(Base64URL.encode(bytes) == text)
    #expect(try Base64URL.decode(text) == bytes)
    #expect(try Base64URL.decode(text + padding) == bytes)
  }

  @Test("Base64URL encoding and decoding restore byte arrays of every length up to 256")
  func everyLength() throws {
    for count in 0...256 {
      let bytes = (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 37) }
      #expect(try Base64URL.decode(Base64URL.encode(bytes)) == bytes)
    }
  }

  @Test(
    "Base64URL decoding refuses a non-canonical text",
    arguments: [
      "A", "AAAAA", "Zh", "Zm9", "_x", "=", "==", "===", "====", "Zg=", "Zg===", "Zm8==", "Zm9v=", "Zm9v====", "Z=g=",
      "A===", "Zg==Zg==", "+/8", "Zm 9", "Zm9\n", " Zg", "Zé", "Z\u{0}AA",
    ])
  func badBase64(_ text: String) {
    #expect(throws: WireError.badValue("base64url")) { try Base64URL.decode(text) }
  }
}
