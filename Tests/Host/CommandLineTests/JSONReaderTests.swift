import CommandLine
import Testing

@Suite("The JSON reader")
struct JSONReaderTests {
  private static func read(_ text: String) -> Result<JSONValue, JSONReader.Problem> {
    do throws(JSONReader.Problem) { return .success(try JSONReader.read(Array(text.utf8))) } catch {
      return .failure(error)
    }
  }

  @Test(
    "A JSON value that was read is written unchanged",
    arguments: [
      "null", "true", "false", "0", "-0", "12", "1.50", "-1e10", "1E-7", "123456789012345678901234567890", "\"\"", "[]",
      "{}",
      "[1,[2,[]],{\"a\":{}}]", "{\"b\":1,\"a\":[true,null]}", "\"é中😀\"", #""\"\\\n\r\t\u0000\u001b""#,
    ])
  func roundTrip(text: String) {
    guard case .success(let value) = Self.read(" \n\(text)\t\r") else { return #expect(Bool(false), "\(text)") }
    #expect(JSONWriter.write(value) == text)
  }

  @Test("The JSON reader decodes escapes, including surrogate pairs")
  func escapes() {
    #expect(Self.read(#""\u0041\/\b\f\ud83d\ude00""#) == .success(.string("A/\u{8}\u{C}😀")))
  }

  @Test(
    "The JSON reader refuses malformed JSON",
    arguments: [
      "", " ", "nul", "nulL", "01", "+1", ".5", "1.", "1e", "-", "NaN", "Infinity", "'a'", "\"a", "\"\n\"", #""\x41""#,
      #""\u12g4""#,
      #""\ud83d""#, #""\ude00""#, #""\ud83dx""#, #""\ud83d\u0041""#, "[", "[1", "[1,]", "[,1]", "[1 2]", "{", "{\"a\"}",
      "{\"a\":}", "{\"a\":1,}",
      "{a:1}", "{1:1}", "]", "1 2", "{} {}", "// x\n1",
    ])
  func malformed(text: String) {
    guard case .failure(.malformed) = Self.read(text) else { return #expect(Bool(false), "\(text)") }
  }

  @Test("A JSON object with two members of the same name is refused, even if the names are escaped differently")
  func duplicates() {
    #expect(Self.read(#"{"a":1,"b":2,"\u0061":3}"#) == .failure(.duplicate))
    #expect(Self.read(#"[{"a":1},{"a":1}]"#) != .failure(.duplicate))
  }

  @Test("The JSON reader accepts 128 levels, and refuses 200,000 levels and bytes that are not UTF-8")
  func limits() {
    func nested(_ depth: Int) -> String { String(repeating: "[", count: depth) + String(repeating: "]", count: depth) }
    guard case .success = Self.read(nested(128)) else { return #expect(Bool(false), "128 levels") }
    #expect(Self.read(nested(130)) == .failure(.tooDeep))
    #expect(Self.read(nested(200_000)) == .failure(.tooDeep))
    #expect(throws: JSONReader.Problem.notUTF8) { try JSONReader.read([0x22, 0xC0, 0x80, 0x22]) }
  }

  @Test("The JSON writer writes Unicode noncharacters as escapes")
  func noncharacters() {
    let text = #""\ufffe\ufdd0\ud83f\udfff""#
    guard case .success(let value) = Self.read(text) else { return #expect(Bool(false), "they are not read") }
    #expect(JSONWriter.write(value) == text)
  }
}
