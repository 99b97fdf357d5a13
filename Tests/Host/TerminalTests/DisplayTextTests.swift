import Testing

@testable import Terminal

@Suite("Width of texts in terminal columns")
struct DisplayTextTests {
  @Test("A subdivision flag is one character of 2 columns, and an unknown emoji has 2 columns")
  func emoji() throws {
    try #require(DisplayText.isUTF8)
    let wales = "\u{1F3F4}\u{E0067}\u{E0062}\u{E0077}\u{E006C}\u{E0073}\u{E007F}"
    #expect(DisplayText.settled(wales) == "\u{1F3F4}")
    #expect(DisplayText.width(wales) == 2 && DisplayText.width("\u{1FACD}") == 2)
  }

  @Test("Invisible characters are removed for display, and a combining mark without a letter becomes U+FFFD")
  func invisible() throws {
    try #require(DisplayText.isUTF8)
    #expect(DisplayText.settled("\u{200C}a\u{200D}").unicodeScalars.contains("\u{FFFD}") == false)
    #expect(DisplayText.settled("\u{301}") == "\u{FFFD}")
  }
}
