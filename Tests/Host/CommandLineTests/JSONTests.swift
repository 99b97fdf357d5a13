import CommandLine
import Foundation
import Testing

@Suite struct JSONTests {
  @Test(
    "The JSON writer writes values as RFC 8259 specifies",
    arguments: [
      (nil, "null"), (true, "true"), (false, "false"), (0, "0"), (-7, "-7"), (.int(.min), "-9223372036854775808"),
      (.unsigned(.max), "18446744073709551615"),
      (0.5, "0.5"), (1e300, "1e+300"), (.double(.infinity), "null"), (.double(.nan), "null"), ("", "\"\""),
      ([], "[]"), ([:], "{}"), ([1, "a", nil], "[1,\"a\",null]"), (["b": 1, "a": [true]], "{\"b\":1,\"a\":[true]}"),
      (.optional(nil), "null"), (.optional("x"), "\"x\""),
    ] as [(JSONValue, String)])
  func values(value: JSONValue, expected: String) throws {
    #expect(JSONWriter.write(value) == expected)
    _ = try JSONSerialization.jsonObject(with: Data(expected.utf8), options: .fragmentsAllowed)
  }

  @Test(
    "Strings in JSON are escaped, contain no terminal control characters, and are restored by a reader",
    arguments: [
      ("a\"b\\c/", #""a\"b\\c/""#), ("\n\r\t\u{8}\0", #""\n\r\t\u0008\u0000""#), ("\u{1B}[31m", #""\u001b[31m""#),
      ("\u{202E}\u{2028}\u{9B}", #""\u202e\u2028\u009b""#), ("\u{E0041}", #""\udb40\udc41""#), ("é中😀", "\"é中😀\""),
    ])
  func strings(text: String, expected: String) throws {
    #expect(JSONWriter.write(.string(text)) == expected)
    #expect(JSONWriter.write(.object([.init(text, nil)])) == "{\(expected):null}")
    let read = try JSONSerialization.jsonObject(with: Data(expected.utf8), options: .fragmentsAllowed)
    #expect(read as? String == text)
  }

  @Test("With the style `pretty` the JSON writer puts each member on a line of its own")
  func pretty() {
    let value: JSONValue = ["name": "Kiosk", "dialects": ["0.5", "0.4"], "none": [], "radio": ["ready": true]]
    #expect(
      JSONWriter.write(value, .pretty) == """
        {
          "name": "Kiosk",
          "dialects": [
            "0.5",
            "0.4"
          ],
          "none": [],
          "radio": {
            "ready": true
          }
        }
        """)
  }
}
