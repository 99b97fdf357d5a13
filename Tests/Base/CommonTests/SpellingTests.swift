import Common
import Testing

@Suite struct SpellingTests {
  @Test(
    "A mistyped word with one or two errors is matched to the intended word, and an unrelated word to none",
    arguments: [
      ("Nmae", "Name"), ("name", "Name"), ("IdleTimout", "IdleTimeout"), ("Dialect", "Dialects"), ("Enable", "Enabled"),
      ("Colour", nil), ("", nil), (String(repeating: "Name", count: 1000), nil),
    ])
  func nearest(word: String, expected: String?) {
    let keys = ["Enabled", "Name", "Dialects", "IdleTimeout", "IdentifyTimeout"]
    #expect(Spelling.nearest(to: word, among: keys) == expected)
    #expect(Spelling.nearest(to: word, among: []) == nil)
  }
}
