import Bytes
import Testing

@Suite("UTF-8 validation of bytes")
struct UTF8TextTests {
  @Test("UTF-8 validation accepts every Unicode character at any position of a text")
  func characters() {
    let far = Array(stride(from: UInt32(0x1000), through: 0x10FFFF, by: 61))
    let values: [UInt32] = Array(0..<0x1000) + far + [0x10FFFF]
    for (number, scalar) in values.compactMap(Unicode.Scalar.init).enumerated() {
      let before = [UInt8](repeating: 0x41, count: number % 9)
      let text = before + Array(String(scalar).utf8) + Array("and longer than a word".utf8)
      let isValid = UTF8Text.isValid(text)
      #expect(isValid, "\(scalar.value)")
    }
  }

  @Test("UTF-8 validation agrees with Swift's for all 1 and 2 byte sequences, and at the bounds of longer ones")
  func exhaustive() {
    var wrong = 0
    func compare(_ bytes: [UInt8]) {
      if UTF8Text.isValid(bytes) != (String(validating: bytes, as: UTF8.self) != nil) { wrong += 1 }
    }
    for first in UInt8.min...UInt8.max {
      compare([first])
      for second in UInt8.min...UInt8.max {
        compare([first, second])
        guard first >= 0xC0 else { continue }
        for third in Self.bounds {
          compare([first, second, third])
          guard first >= 0xEF else { continue }
          for fourth in Self.bounds { compare([first, second, third, fourth]) }
        }
      }
    }
    #expect(wrong == 0)
  }

  /// Bytes on both sides of each boundary in the definition of UTF-8.
  private static let bounds: [UInt8] = [0x00, 0x41, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xC2, 0xFF]

  @Test("UTF-8 validation refuses a text that ends within a character or contains an invalid byte")
  func broken() {
    let text = Array("Grüße, 東京, 🎫 und noch etwas".utf8)
    for count in 0...text.count {
      let part = Array(text.prefix(count))
      #expect(UTF8Text.isValid(part) == (String(validating: part, as: UTF8.self) != nil))
    }
    for index in text.indices {
      var wrong = text
      wrong[index] = 0xFF
      #expect(!UTF8Text.isValid(wrong))
    }
  }

  @Test("`wholeCharacters` returns the text before a character that is truncated at the end")
  func cut() {
    let text = "Grüße, 東京, 🎫 und é"
    let bytes = Array(text.utf8)
    for count in 0...bytes.count {
      var whole = 0
      for scalar in text.unicodeScalars where whole + String(scalar).utf8.count <= count {
        guard String(decoding: bytes[whole...], as: UTF8.self).unicodeScalars.first == scalar else { break }
        whole += String(scalar).utf8.count
      }
      let found = UTF8Text.wholeCharacters(in: bytes[..<count])
      #expect(found == whole)
    }
  }

  @Test(
    "`wholeCharacters` does not treat an invalid byte sequence at the end as a truncated character",
    arguments: [
      [0xF0, 0x28], [0xF0, 0x9F, 0x28], [0xE0, 0x80], [0xED, 0xA0], [0xC0], [0xF5], [0xF4, 0x90], [0x80],
    ])
  func notCut(bytes: [UInt8]) {
    let found = UTF8Text.wholeCharacters(in: [0x61, 0x62] + bytes[...])
    #expect(found == nil)
  }
}
