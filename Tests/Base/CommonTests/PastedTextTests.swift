import Common
import Testing

@Suite("Texts that a user pasted or scanned")
struct PastedTextTests {
  static let blanks = [
    " ", "\r\n", "\n", "\r", "\t", "\u{FEFF}", "\u{A0}", "\u{2003}", "\u{202F}", "\u{3000}", "\u{2028}", "\u{85}",
    "\u{200B}", "\u{2060}", " \t\r\n\u{FEFF} ",
  ]

  @Test("White space around a pasted text is removed, white space inside it is preserved", arguments: blanks)
  func trimmed(blank: String) {
    for text in ["a", "a b", "a\u{A0}\u{FEFF}b", "👩‍👩‍👧 é", "\u{301}"] {
      for pasted in [blank + text, text + blank, blank + text + blank] {
        #expect(PastedText.trimmed(pasted) == text, "\(pasted.debugDescription)")
      }
    }
    #expect(PastedText.trimmed(blank) == "" && PastedText.trimmed("") == "")
  }

  @Test(
    "White space inside a pasted code is removed, so that a code wrapped over several lines is accepted",
    arguments: blanks)
  func unbroken(blank: String) {
    #expect(PastedText.unbroken(blank + "abc" + blank + "def" + blank) == "abcdef")
  }
}
