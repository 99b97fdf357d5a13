import Common
import DBus
import Glibc

/// The text that a command sends, from its arguments or from standard input.
public enum StandardInput {
  /// The words with blanks between them; for a single `-` what standard input says, without the line ends at its end. White space is kept as
  /// it was written.
  ///
  /// - Throws: `usage` if the text has nothing but white space.
  public static func text(or words: [String]) throws(Failure) -> String {
    let text = words == ["-"] ? try all() : words.joined(separator: " ")
    guard !PastedText.trimmed(text).isEmpty else {
      throw Failure(.usage, "TEXT is missing: what is to be said, or - for standard input.")
    }
    guard words == ["-"], let last = text.lastIndex(where: { !$0.isNewline }) else { return text }
    return String(text[...last])
  }

  /// Standard input as text, without the blanks and line ends around it.
  public static func text() throws(Failure) -> String { PastedText.trimmed(try all()) }

  private static func all() throws(Failure) -> String {
    let file = FileDescriptor(owning: dup(STDIN_FILENO))
    return String(decoding: try FileOutput.readToEnd(file, "-"), as: UTF8.self)
  }
}
