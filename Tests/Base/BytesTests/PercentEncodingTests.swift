import Bytes
import Testing

@Suite("PercentEncoding")
struct PercentEncodingTests {
  @Test("Percent encoding leaves only unreserved characters unencoded, and decoding restores the text")
  func roundTrip() {
    for (text, encoded) in [
      ("", ""), ("aZ09-._~", "aZ09-._~"), ("a b+c", "a%20b%2Bc"), ("é%&=", "%C3%A9%25%26%3D"), ("\u{0}", "%00"),
    ] {
      #expect(PercentEncoding.encode(text) == encoded)
      #expect(PercentEncoding.decode(Array(encoded.utf8)[...]) == text)
    }
  }

  @Test(
    "Percent decoding accepts unencoded characters and hex digits of either case, and refuses an incomplete sequence")
  func decoding() {
    func decode(_ text: String) -> String? { PercentEncoding.decode(Array(text.utf8)[...]) }
    #expect(decode("a b+c") == "a b+c")
    #expect(decode("%c3%A9") == "é")
    for text in ["%", "%4", "%zz", "%C3", "%+1", "a%e9"] { #expect(decode(text) == nil) }
  }
}
