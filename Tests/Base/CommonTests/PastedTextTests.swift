import Common
import Testing

@Suite("Pasted and scanned texts")
struct PastedTextTests {
  static let blanks = [
    " ", "\r\n", "\n", "\r", "\t", "\u{FEFF}", "\u{A0}", "\u{2003}", "\u{202F}", "\u{3000}", "\u{2028}", "\u{85}",
    "\u{200B}", "\u{2060}", " \t\r\n\u{FEFF} ",
  ]

  @Test("Surrounding blanks are removed, inner blanks stay", arguments: blanks)
  func trimmed(blank: String) {
    for text in ["a", "a b", "a\u{A0}\u{FEFF}b", "👩‍👩‍👧 é", "\u{301}"] {
      for pasted in [blank + text, text + blank, blank + text + blank] {
        #expect(PastedText.trimmed(pasted) == text, "\(pasted.debugDescription)")
      }
    }
    #expect(PastedText.trimmed(blank) == "" && PastedText.trimmed("") == "")
  }

  @Test("Blanks inside a code are removed, so that a code that was broken over lines is complete", arguments: blanks)
  func unbroken(blank: String) {
    #expect(PastedText.unbroken(blank + "abc" + blank + "def" + blank) == "abcdef")
  }
}
