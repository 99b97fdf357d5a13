import CNcurses
import Testing

@testable import FullScreen

@Suite("Decoding of terminal keys")
struct KeyDecoderTests {
  private func keys(_ pieces: [KeyDecoder.Piece]) -> [Key] {
    var decoder = KeyDecoder()
    return pieces.compactMap { decoder.take($0) } + [decoder.end()].compactMap { $0 }
  }

  private func characters(_ text: String) -> [KeyDecoder.Piece] { text.unicodeScalars.map { .character($0.value) } }

  @Test("Characters, Control keys and Alt keys are decoded to different keys")
  func characters() {
    #expect(keys(characters("aé漢")) == [.character("a"), .character("é"), .character("漢")])
    #expect(
      keys(characters("\u{3}\u{E}\t\r\n\u{7F}\u{8}\0\u{1C}")) == [
        .control("c"), .control("n"), .tab, .enter, .enter, .backspace, .backspace,
      ])
    #expect(keys(characters("\u{1B}n\u{1B}")) == [.alt("n"), .escape])
    #expect(keys([.character(27), .function(KEY_UP), .function(KEY_UP)]) == [.altUp, .up])
    #expect(keys([.function(KEY_PPAGE), .function(KEY_F0), .function(KEY_BTAB)]) == [.pageUp, .backTab])
    #expect(keys([.character(0xD800), .character(0x110000)]) == [])
  }

  @Test("A pasted text is decoded as one key with any content, up to the size limit")
  func paste() {
    let begin = KeyDecoder.Piece.function(Int32(EARSHOT_PASTE_BEGIN))
    let end = KeyDecoder.Piece.function(Int32(EARSHOT_PASTE_END))
    #expect(
      keys([begin] + characters("a\rb\u{3}\t") + [end] + characters("x")) == [.paste("a\nb\u{3}\t"), .character("x")])
    let long = [begin] + Array(repeating: KeyDecoder.Piece.character(0x61), count: KeyDecoder.longestPaste + 5) + [end]
    guard case .paste(let text)? = keys(long).first else {
      Issue.record("no paste")
      return
    }
    #expect(text.utf8.count == KeyDecoder.longestPaste)
  }
}
