import CommandLine
import Glibc
import Terminal

/// Standard output and standard error, unbuffered.
///
/// If standard output cannot be written, the program exits immediately with a separate exit status, so that missing
/// output is not taken for success.
public enum Output {
  /// The terminal's present properties: a window may change its size.
  public static var terminal: TerminalInfo { TerminalInfo.current() }

  public static func write(_ text: String) {
    put(text, STDOUT_FILENO)
  }

  public static func line(_ text: String) {
    put(text + "\n", STDOUT_FILENO)
  }

  /// Writes bytes unchanged to standard output.
  public static func write(_ bytes: [UInt8]) {
    put(bytes, STDOUT_FILENO)
  }

  public static func json(_ value: JSONValue, pretty: Bool = true) {
    line(JSONWriter.write(value, pretty ? .pretty : .compact))
  }

  public static func complain(_ text: String) {
    put(text + "\n", STDERR_FILENO)
  }

  /// Shows a screen, replacing the previous one.
  ///
  /// - Parameter isFirst: scrolls the existing content up instead of overwriting it.
  public static func screen(_ screen: Screen, isFirst: Bool) {
    let terminal = terminal
    let lines = screen.lines(on: terminal).map { $0 + "\u{1B}[K\r\n" }
    let room = isFirst ? String(repeating: "\n", count: terminal.height) : ""
    write(room + "\u{1B}[H" + lines.joined() + "\u{1B}[J")
  }

  /// Shows a line that the next one replaces; no effect without a terminal.
  public static func progress(_ text: String) {
    if terminal.isTerminal { put("\r\u{1B}[2K" + text, STDOUT_FILENO) }
  }

  private static func put(_ text: String, _ descriptor: Int32) {
    put(Array(text.utf8), descriptor)
  }

  private static func put(_ bytes: [UInt8], _ descriptor: Int32) {
    var rest = bytes[...]
    while !rest.isEmpty {
      let count = rest.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
      if count < 0, errno == EINTR { continue }
      guard count > 0 else {
        if descriptor == STDOUT_FILENO { end(errno) }
        return
      }
      rest = rest.dropFirst(count)
    }
  }

  /// Exits after a failed write to standard output. The reason is reported, except for a closed pipe.
  private static func end(_ error: Int32) -> Never {
    if error != EPIPE { complain("Standard output cannot be written: \(String(cString: strerror(error)))") }
    exit(ExitCode.notWritten.rawValue)
  }
}
