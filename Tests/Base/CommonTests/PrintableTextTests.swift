import Common
import Testing

@Suite("Printable text")
struct PrintableTextTests {
  @Test("Printable text preserves visible characters and their joiners")
  func shown() {
    for text in [
      "שלום (שלום)", "می\u{200C}خواهم", "👨\u{200D}👩\u{200D}👧", "❤\u{FE0F}", "1\u{FE0F}\u{20E3}",
      "\u{0600}\u{0661}\u{0662}",
      "\u{1F3F4}\u{E0067}\u{E0062}\u{E0077}\u{E006C}\u{E0073}\u{E007F}", "so tired \u{1FAE9}", "\u{1FACD}", "e\u{301}",
      "受信", "",
    ] {
      #expect(PrintableText.clean(text) == text && PrintableText.isHarmless(text), "\(text)")
    }
  }

  @Test("Printable text removes invisible marks without a replacement character")
  func dropped() {
    for (text, shown) in [
      ("Donau\u{AD}dampf\u{AD}schiff", "Donaudampfschiff"), ("a\u{200E}b\u{200F}c\u{061C}", "abc"),
      ("a\u{2060}b", "ab"),
      ("\u{FEFF}hello\u{200B}", "hello"), ("a\u{E0067}\u{E007F}b", "ab"), ("a\u{180E}b\u{2063}", "ab"),
    ] {
      #expect(PrintableText.clean(text).unicodeScalars.elementsEqual(shown.unicodeScalars), "\(shown)")
      #expect(PrintableText.isHarmless(text))
    }
  }

  @Test("Printable text replaces each run of control, direction or unassigned characters by one U+FFFD")
  func replaced() {
    for (text, shown) in [
      ("a\u{1B}[2J", "a\u{FFFD}[2J"), ("\u{202E}abc\u{202C}", "\u{FFFD}abc\u{FFFD}"), ("a\r\n\u{2028}b", "a\u{FFFD}b"),
      ("\u{2066}x\u{2069}", "\u{FFFD}x\u{FFFD}"), ("a\u{E000}\u{E001}\u{7}b", "a\u{FFFD}b"),
      ("a\u{0378}b", "a\u{FFFD}b"),
      ("a\u{7}\u{200B}\u{7}b", "a\u{FFFD}b"), ("\u{10FFFF}", "\u{FFFD}"),
    ] {
      #expect(PrintableText.clean(text).unicodeScalars.elementsEqual(shown.unicodeScalars), "\(shown)")
      #expect(!PrintableText.isHarmless(text))
    }
  }

  @Test("Printable text is cut at its length limit, and the text beyond the limit is not processed")
  func limit() {
    #expect(PrintableText.clean("abcdef", limit: 3) == "abc…")
    #expect(PrintableText.clean("abc", limit: 3) == "abc")
    #expect(PrintableText.clean(String(repeating: "\u{301}", count: 100_000)).unicodeScalars.count == 201)
  }
}
