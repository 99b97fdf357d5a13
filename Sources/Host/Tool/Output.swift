import CommandLine
import Glibc
import Terminal

/// Standard output and standard error, unbuffered: what is said is said at once.
public enum Output {
  public static let terminal = TerminalInfo.current()

  public static func write(_ text: String) {
    put(text, STDOUT_FILENO)
  }

  public static func line(_ text: String) {
    put(text + "\n", STDOUT_FILENO)
  }

  public static func json(_ value: JSONValue, pretty: Bool = true) {
    line(JSONWriter.write(value, pretty ? .pretty : .compact))
  }

  public static func complain(_ text: String) {
    put(text + "\n", STDERR_FILENO)
  }

  /// A line that the next one replaces; nothing where there is no terminal.
  public static func progress(_ text: String) {
    if terminal.isTerminal { put("\r\u{1B}[2K" + text, STDOUT_FILENO) }
  }

  private static func put(_ text: String, _ descriptor: Int32) {
    var rest = Array(text.utf8)[...]
    while !rest.isEmpty {
      let count = rest.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
      if count < 0, errno == EINTR { continue }
      guard count > 0 else { return }
      rest = rest.dropFirst(count)
    }
  }
}
