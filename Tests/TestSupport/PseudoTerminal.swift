import Glibc
import Loop

/// A terminal without a window: a program writes to it, and the test inspects the screen.
@LoopActor
public final class PseudoTerminal {
  public private(set) var grid: TerminalGrid
  /// The error that ended the interpretation of the output, if any.
  public private(set) var error: TerminalGrid.NotUnderstood?
  /// The program's end of the terminal.
  public let end: Int32
  private let master: Int32
  private let changed = Mailbox<Void>()
  private var watch: Registration?

  public init(columns: Int, rows: Int, measure: TerminalGrid.Measure = .clusters) throws {
    grid = TerminalGrid(columns: columns, rows: rows, measure: measure)
    master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC)
    var lock: CInt = 0
    // The kernel's numbers, because Swift does not have Glibc's functions for them.
    let (setLock, getPeer): (UInt, UInt) = (0x4004_5431, 0x5441)
    guard master >= 0, ioctl(master, setLock, &lock) == 0 else {
      throw Program.NotStarted(description: "there is no pseudo terminal")
    }
    end = ioctl(master, getPeer, O_RDWR | O_NOCTTY | O_CLOEXEC)
    var size = winsize(ws_row: UInt16(rows), ws_col: UInt16(columns), ws_xpixel: 0, ws_ypixel: 0)
    guard end >= 0, ioctl(master, UInt(TIOCSWINSZ), &size) == 0 else {
      throw Program.NotStarted(description: "there is no pseudo terminal")
    }
    watch = EventLoop.shared.watch(master, for: .readable) { [weak self] _ in self?.read() }
  }

  public func close() {
    watch = nil
    Glibc.close(end)
    Glibc.close(master)
  }

  /// Writes text to the terminal as if a user had typed it.
  public func type(_ text: String) {
    let bytes = Array(text.utf8)
    _ = write(master, bytes, bytes.count)
  }

  /// Changes the size of the window. A program whose controlling terminal this is not gets its signal from the test.
  public func resize(columns: Int, rows: Int) {
    var size = winsize(ws_row: UInt16(rows), ws_col: UInt16(columns), ws_xpixel: 0, ws_ypixel: 0)
    _ = ioctl(master, UInt(TIOCSWINSZ), &size)
    grid.resize(columns: columns, rows: rows)
  }

  /// Whether keys are echoed and lines collected, as in a shell.
  public var isCooked: Bool {
    var settings = termios()
    guard tcgetattr(end, &settings) == 0 else { return false }
    return settings.c_lflag & tcflag_t(ECHO | ICANON | ISIG) == tcflag_t(ECHO | ICANON | ISIG)
  }

  /// The text of the screen in one line, without drawings.
  public var words: String {
    grid.text.map { String($0.filter { !"█▀▄".contains($0) }) }.joined(separator: " ").split(separator: " ")
      .joined(separator: " ")
  }

  /// Waits until the screen fulfils a condition.
  ///
  /// - Throws: the first error of `isWanted`, at once.
  public func await(_ isWanted: @LoopActor (PseudoTerminal) throws -> Bool) async throws {
    while try !isWanted(self) {
      if let error { throw error }
      try await changed.next()
    }
  }

  private func read() {
    var buffer = [UInt8](repeating: 0, count: 1 << 16)
    let count = Glibc.read(master, &buffer, buffer.count)
    guard count > 0 else {
      watch = nil
      return
    }
    do throws(TerminalGrid.NotUnderstood) {
      try grid.write(Array(buffer[..<count]))
    } catch {
      self.error = error
    }
    changed.put(())
  }
}
