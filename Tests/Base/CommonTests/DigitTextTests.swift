import Common
import Testing

@Suite("Numbers in text")
struct DigitTextTests {
  @Test("Digits are parsed in the radix, in either case")
  func digits() {
    #expect(UInt8(digits: "0") == 0 && UInt8(digits: "255") == 255 && Int(digits: "007") == 7)
    #expect(UInt8(digits: "fF", radix: 16) == 255 && UInt64(digits: "ffffffffffffffff", radix: 16) == .max)
    #expect(UInt16(digits: "x65535".dropFirst()) == 65_535)
  }

  @Test(
    "A sign, another character, an empty text or a number out of range is not parsed",
    arguments: ["", "+", "-", "+5", "-5", "-0", "+0", "1-2", " 5", "5 ", "0x5", "٣", "５", "256", "g"])
  func nonsense(text: String) {
    #expect(UInt8(digits: text) == nil && UInt8(digits: text, radix: 10) == nil)
  }

  @Test("A sign before hexadecimal digits is not parsed", arguments: ["+f", "-0", "-00", "+ff"])
  func signs(text: String) {
    #expect(UInt8(digits: text, radix: 16) == nil && Int(digits: text, radix: 16) == nil)
  }
}
