import Testing

@testable import Chat

@Suite("The input line of `earshot chat`")
struct InputLineTests {
  @Test("Editing keys act on whole characters, even if they consist of several code points")
  func editing() {
    var line = InputLine()
    line.insert("ne")
    line.insert("\u{301}")
    line.insert("👩‍👩‍👧x")
    #expect(line.characters.count == 4 && line.cursor == 4)
    line.move(by: -1)
    line.backspace()
    #expect(line.text == "ne\u{301}x" && line.cursor == 2)
    line.backspace()
    #expect(line.text == "nx")
    line.delete()
    line.delete()
    #expect(line.text == "n")
    line.insert("ow or  never ")
    line.deleteWord()
    #expect(line.text == "now or  ")
    line.moveToBegin()
    line.backspace()
    line.move(by: -5)
    line.insert("> ")
    line.deleteTail()
    #expect(line.text == "> " && line.cursor == 2)
    line.deleteHead()
    #expect(line.isEmpty && line.cursor == 0)
  }

  @Test("Pasted control characters are removed, line breaks stay, and a text above the limit is refused")
  func bounds() {
    var line = InputLine()
    line.insert("a\u{1B}[2J\tb\nc")
    #expect(line.text == "a[2J b\nc")
    #expect(line.window(20).text == "a[2J b⏎c")
    let isTaken = line.insert(String(repeating: "x", count: InputLine.longest))
    #expect(!isTaken && line.text == "a[2J b\nc")
  }

  @Test("The visible part of the input line contains the cursor and fits its columns", arguments: 2...30)
  func window(columns: Int) {
    var line = InputLine("ab漢字é👍🏽🇩🇪 longer than the window")
    line.moveToBegin()
    var last = -1
    for step in 0...line.characters.count {
      let (text, cursor) = line.window(columns)
      #expect(cursor < columns && cursor >= 0)
      #expect(text.reduce(0) { $0 + ("漢字👍".contains($1) ? 2 : $1.isASCII || $1 == "é" ? 1 : 2) } <= columns)
      if step > 0, cursor < columns - 2 { #expect(cursor > last) }
      last = cursor
      line.move(by: 1)
    }
  }
}
