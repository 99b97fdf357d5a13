import Common
import DBus
import Glibc

/// The text that a command sends, from its arguments or from standard input.
public enum StandardInput {
  /// The words joined by blanks; for a single `-` the standard input, without trailing line ends. White space is
  /// otherwise preserved.
  ///
  /// - Throws: `usage` if the text contains only white space.
  public static func text(or words: [String]) throws(Failure) -> String {
    let text = words == ["-"] ? try all() : words.joined(separator: " ")
    guard !PastedText.trimmed(text).isEmpty else {
      throw Failure(.usage, "TEXT is missing. Give the message, or - to read it from standard input.")
    }
    guard words == ["-"], let last = text.lastIndex(where: { !$0.isNewline }) else { return text }
    return String(text[...last])
  }

  /// Standard input as text, without surrounding blanks and line ends.
  public static func text() throws(Failure) -> String { PastedText.trimmed(try all()) }

  private static func all() throws(Failure) -> String {
    let file = FileDescriptor(owning: dup(STDIN_FILENO))
    return String(decoding: try FileOutput.readToEnd(file, "-"), as: UTF8.self)
  }
}
