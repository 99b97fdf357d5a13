import Common
import DBus
import Glibc

/// What a person says to a command, on its line or on standard input.
public enum StandardInput {
  /// The words with blanks between them; for a single `-` what standard input says.
  ///
  /// - Throws: `usage` where that is nothing.
  public static func text(or words: [String]) throws(Failure) -> String {
    let text = words == ["-"] ? try text() : PastedText.trimmed(words.joined(separator: " "))
    guard !text.isEmpty else { throw Failure(.usage, "TEXT is missing: what is to be said, or - for standard input.") }
    return text
  }

  /// Standard input as text, without the blanks and line ends around it.
  public static func text() throws(Failure) -> String {
    let file = FileDescriptor(owning: dup(STDIN_FILENO))
    return PastedText.trimmed(String(decoding: try FileOutput.readToEnd(file, "-"), as: UTF8.self))
  }
}
