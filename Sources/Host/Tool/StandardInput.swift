import DBus
import Glibc

/// What stands on standard input.
public enum StandardInput {
  /// All of it as text, without the newline at its end.
  public static func text() throws(Failure) -> String {
    let file = FileDescriptor(owning: dup(STDIN_FILENO))
    let text = String(decoding: try FileOutput.readToEnd(file, "-"), as: UTF8.self)
    return text.hasSuffix("\n") ? String(text.dropLast()) : text
  }
}
