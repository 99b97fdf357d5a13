import CommandLine
import Hall
import Testing

@testable import Checking

@Suite("Replies of the credential checker")
struct CheckReplyTests {
  private static func line(_ text: String) -> [UInt8] { Array((text + "\n").utf8) }

  private static func failure(_ bytes: [UInt8]) -> String? {
    do throws(CheckVerdict.Failure) {
      _ = try CheckReply.verdict(bytes)
      return nil
    } catch {
      return error.code
    }
  }

  @Test("A reply with each verdict word is parsed with its reasons, issuer, type and claims")
  func words() throws {
    for word in CheckVerdict.Word.allCases {
      let text = StandInChecker.verdict(
        word.rawValue, reasons: ["expired", "claimsOmitted"], claims: "{\"name\": \"Asha\", \"age\": 1.50}")
      let verdict = try CheckReply.verdict(Self.line(text))
      #expect(verdict.word == word && verdict.issuer == "Residents Office" && verdict.type == "ResidentCredential")
      #expect(verdict.reasons.map(\.code) == ["expired", "claimsOmitted"])
      #expect(verdict.reasons.first?.sentence == "Because of expired.")
      // Numbers keep the digits that were signed.
      #expect(verdict.claims == "{\"name\":\"Asha\",\"age\":1.50}")
      #expect(verdict.failure == nil)
    }
  }

  @Test("A checker's verdict that is stored and read again is equal to the original")
  func stored() throws {
    let verdict = try CheckReply.verdict(
      Self.line(StandInChecker.verdict("revoked", reasons: ["revoked"], claims: "{\"a\": [1, \"\\u202e\", null]}")))
    #expect(try CheckReply.verdict(inDocument: verdict.document) == verdict)
  }

  static let valid = StandInChecker.verdict("valid")

  /// A description of each reply, the reply, and the code of the failure.
  static let replies: [(String, String, String)] = [
    ("nothing", "", "checkerFailed"),
    ("a verdict without the end of its line", valid, "checkerFailed"),
    ("half of a verdict", String(valid.prefix(40)), "checkerFailed"),
    ("half of a verdict with the end of a line", String(valid.prefix(40)) + "\n", "checkerReply"),
    ("two verdicts", valid + "\n" + valid + "\n", "checkerReply"),
    ("an empty line after it", valid + "\n\n", "checkerReply"),
    ("text after it", valid + " valid\n", "checkerReply"),
    ("a word before it", "valid " + valid + "\n", "checkerReply"),
    ("no JSON", "Traceback (most recent call last):\n", "checkerReply"),
    ("an array", "[" + valid + "]\n", "checkerReply"),
    ("a string", "\"valid\"\n", "checkerReply"),
    ("an unknown word", StandInChecker.verdict("VALID") + "\n", "checkerReply"),
    ("no word", "{\"reasons\": []}\n", "checkerReply"),
    ("a word that is a number", "{\"verdict\": 1, \"reasons\": []}\n", "checkerReply"),
    ("two words", "{\"verdict\": \"invalid\", \"verdict\": \"valid\", \"reasons\": []}\n", "checkerReply"),
    (
      "the word twice, written in two ways",
      "{\"verdict\": \"invalid\", \"\\u0076erdict\": \"valid\", \"reasons\": []}\n", "checkerReply"
    ),
    ("no reasons", "{\"verdict\": \"valid\"}\n", "checkerReply"),
    ("a reason without a code", "{\"verdict\": \"valid\", \"reasons\": [{\"sentence\": \"\"}]}\n", "checkerReply"),
    (
      "a code with a blank", "{\"verdict\": \"valid\", \"reasons\": [{\"code\": \"a b\", \"sentence\": \"\"}]}\n",
      "checkerReply"
    ),
    ("an issuer that is an object", "{\"verdict\": \"valid\", \"reasons\": [], \"issuer\": {}}\n", "checkerReply"),
  ]

  @Test("A checker's reply that is not exactly one complete verdict is refused with an error code", arguments: replies)
  func others(name: String, text: String, code: String) {
    #expect(Self.failure(Array(text.utf8)) == code, "\(name)")
  }

  @Test("A checker's reply of 256 KiB is accepted, and one byte more is refused")
  func limit() {
    func text(_ count: Int) -> String {
      let verdict = StandInChecker.verdict("valid", claims: "{\"x\": \"\"}")
      let filler = String(repeating: "y", count: count - verdict.utf8.count)
      return StandInChecker.verdict("valid", claims: "{\"x\": \"\(filler)\"}")
    }
    #expect(Self.failure(Self.line(text(CheckReply.limit))) == nil)
    #expect(Self.failure(Self.line(text(CheckReply.limit + 1))) == "checkerReply")
    #expect(Self.failure([UInt8](repeating: 0x78, count: 300 << 10)) == "checkerReply")
  }

  @Test("A checker's reply with invalid UTF-8, deep nesting or 65 reasons is refused")
  func hostile() {
    #expect(
      Self.failure(Array("{\"verdict\": \"valid\", \"reasons\": [], \"issuer\": \"".utf8) + [0xFF, 0x22, 0x7D, 0x0A])
        == "checkerReply")
    let deep = String(repeating: "[", count: 100_000)
    #expect(Self.failure(Self.line("{\"verdict\": \"valid\", \"reasons\": [], \"claims\": \(deep)")) == "checkerReply")
    let many = StandInChecker.verdict("expired", reasons: Array(repeating: "expired", count: 65))
    #expect(Self.failure(Self.line(many)) == "checkerReply")
  }

  @Test("Texts of a checker's verdict are cut at their limits, and control characters are replaced")
  func texts() throws {
    let evil = "\\u001b[2J\\u202eoffice" + String(repeating: "x", count: 5000)
    let text =
      "{\"verdict\": \"untrusted\", \"issuer\": \"\(evil)\", \"type\": \"\(evil)\", \"reasons\": "
      + "[{\"code\": \"issuerUnknown\", \"sentence\": \"\(evil)\"}], \"claims\": {\"\\ufffe\": \"\(evil)\"}}"
    let verdict = try CheckReply.verdict(Self.line(text))
    for (text, limit) in [(verdict.issuer, 200), (verdict.type, 200), (verdict.reasons[0].sentence, 400)] {
      #expect(text.unicodeScalars.count <= limit + 1 && text.hasPrefix("\u{FFFD}[2J\u{FFFD}office"))
    }
    let claims = try #require(verdict.claims)
    #expect(!claims.unicodeScalars.contains { $0.value < 0x20 || $0 == "\u{202E}" || $0.value == 0xFFFE })
  }

  @Test("The printed form of a checker's verdict contains no claims")
  func printed() throws {
    let verdict = try CheckReply.verdict(
      Self.line(StandInChecker.verdict("expired", reasons: ["expired"], claims: "{\"n\": \"Asha\"}")))
    var dumped = ""
    dump(verdict, to: &dumped)
    for text in ["\(verdict)", String(reflecting: verdict), dumped] {
      #expect(!text.contains("Asha") && text.contains("expired"))
    }
  }
}
