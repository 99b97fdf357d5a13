import Common
import Journal
import Testing

@Suite struct LogTextTests {
  private struct Loud: CodedError {
    let code = "TVV_TRA_002"
    let sentence = "The wallet\nleft."
  }

  private struct Label: Loggable {
    let logText = "label\u{202E}"
  }

  private final class Arbitrary {}

  @Test("Numbers, booleans, durations, errors and loggable values are formatted readably in log texts")
  func interpolations() {
    let cases: [(LogText, String)] = [
      ("Nothing to add.", "Nothing to add."),
      ("\(1) \(UInt8(255)) \(Int64.min)", "1 255 -9223372036854775808"),
      ("\(true) \(false)", "true false"),
      ("\(LinkID(7))", "link 7"),
      ("\(Loud())", "The wallet\u{FFFD}left. [TVV_TRA_002]"),
      ("\(Loud() as any CodedError)", "The wallet\u{FFFD}left. [TVV_TRA_002]"),
      ("\(Label())", "label\u{FFFD}"),
    ]
    for (text, expected) in cases { #expect(text.text == expected) }
  }

  @Test(
    "A duration in a log text is shown in a readable unit",
    arguments: [
      (Duration.zero, "0 ns"), (.nanoseconds(999), "999 ns"), (.microseconds(250), "250 µs"),
      (.milliseconds(40), "40 ms"), (.milliseconds(1_500), "1.5 s"), (.seconds(119), "119 s"),
      (.seconds(150), "2.5 min"), (.milliseconds(-40), "-40 ms"), (.nanoseconds(Int64.max), "153722867.2 min"),
    ])
  func durations(duration: Duration, expected: String) {
    let text: LogText = "\(duration)"
    #expect(text.text == expected)
  }

  @Test(
    "A foreign string in a log text cannot move the cursor, reverse the direction or be invisible",
    arguments: [
      ("plain, äöü 中文 👩‍👩‍👧", "plain, äöü 中文 👩‍👩‍👧"),
      ("two\nlines\r\n", "two\u{FFFD}lines\u{FFFD}"),
      ("\u{1B}[31mred\u{7}", "\u{FFFD}[31mred\u{FFFD}"),
      ("\u{9B}31m \u{85}", "\u{FFFD}31m \u{FFFD}"),
      ("a\u{202E}b\u{2066}c\u{200F}d\u{061C}", "a\u{FFFD}b\u{FFFD}cd"),
      ("\u{2028}\u{2029}\u{FEFF}\u{200B}\u{E0041}\0", "\u{FFFD}"),
    ])
  func hostileStrings(text: String, expected: String) {
    let line: LogText = "\(text)"
    #expect(line.text == expected)
  }

  @Test("A foreign string in a log text is cut at 200 Unicode scalars, even within a character")
  func cut() {
    let exact = String(repeating: "x", count: 200)
    #expect(PrintableText.clean(exact) == exact)
    #expect(PrintableText.clean(exact + "y") == exact + "…")
    let zalgo = "a" + String(repeating: "\u{301}", count: 100_000)
    #expect(zalgo.count == 1)
    #expect(PrintableText.clean(zalgo).unicodeScalars.count == 201)
    #expect(PrintableText.clean("abc", limit: 0) == "…")
  }

  @Test("Byte arrays, objects, fractions, dictionaries and errors without a code cannot be put in a log text")
  func refusals() {
    struct Plain: Error {}
    // The overload below is chosen only where Journal has none: in other code these lines would not compile.
    let refused: [LogText] = [
      "\([UInt8(1)])", "\([UInt8(1)][...])", "\(Arbitrary())", "\(Plain())", "\(1.5)", "\(["a": 1])",
    ]
    for text in refused { #expect(text.text == "refused") }
    let accepted: LogText = "\(1)"
    #expect(accepted.text == "1")
  }
}

extension LogText.StringInterpolation {
  /// Records the interpolation of a type that `LogText` does not accept, where other code would not compile.
  @_disfavoredOverload
  fileprivate mutating func appendInterpolation<T>(_ value: T) {
    appendLiteral("refused")
  }
}
