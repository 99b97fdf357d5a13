import CNcurses
import Common
import Glibc
import Loop
import Terminal

/// Full-screen use of a terminal: drawing and keyboard input. ncurses supports one screen per process, which this
/// object owns.
///
/// Until `close` the terminal shows only frames, and keys send no signals (Ctrl-C is a key). `exit` closes it as well,
/// and a crash or SIGABRT restores the terminal. SIGTSTP suspends.
@LoopActor
public final class FullScreen {
  public enum Event: Sendable, Equatable {
    case key(Key)
    case resized
    /// The terminal was closed. No further event follows.
    case ended
  }

  public private(set) var columns = 80
  public private(set) var rows = 24
  private let output: Int32
  /// Whether the terminal supports colours and the user permits them (`NO_COLOR`).
  public let hasColour: Bool
  private let screen: OpaquePointer
  private let files: (UnsafeMutablePointer<FILE>, UnsafeMutablePointer<FILE>)
  private var decoder = KeyDecoder()
  private var registrations: [Registration] = []
  private var isClosed = false

  /// The descriptor of the terminal while it is in use, for its restoration.
  private nonisolated static let open = Locked<Int32?>(nil)
  private static let closesAtExit: Void = {
    atexit { FullScreen.restore() }
  }()

  /// Takes over the terminal. Call it before the process creates threads, because it blocks SIGWINCH.
  ///
  /// - Parameters:
  ///   - input: descriptor of the terminal for reading.
  ///   - output: descriptor of the terminal for drawing.
  ///   - name: the terminal type; nil for `$TERM`.
  public init(
    input: Int32 = STDIN_FILENO, output: Int32 = STDOUT_FILENO, name: String? = nil,
    onEvent: @escaping @LoopActor (Event) -> Void
  ) throws(FullScreenError) {
    _ = DisplayText.isUTF8
    let kind = name ?? getenv("TERM").map { String(cString: $0) } ?? ""
    guard Self.open.withLock({ $0 == nil }) else { throw FullScreenError(reason: .inUse, terminal: kind) }
    var settings = termios()
    let hasSettings = tcgetattr(input, &settings) == 0
    guard let out = fdopen(dup(output), "w"), let into = fdopen(dup(input), "r"), let screen = newterm(kind, out, into)
    else { throw FullScreenError(reason: .notUnderstood, terminal: kind) }
    (self.screen, self.output) = (screen, output)
    files = (out, into)
    hasColour = has_colors() && (getenv("NO_COLOR").map { $0.pointee == 0 } ?? true)
    earshot_prepare_screen()
    if hasColour {
      start_color()
      use_default_colors()
      for colour in Style.Colour.allCases where colour != .plain { init_pair(colour.rawValue, colour.rawValue, -1) }
      // Terminal themes redefine only the first 16 colours.
      let isLarge = earshot_colours() >= 256
      init_pair(Self.blackOnWhite, isLarge ? 16 : Int16(COLOR_BLACK), isLarge ? 231 : Int16(COLOR_WHITE))
    }
    if hasSettings { earshot_guard_crashes(output, &settings) }
    Self.open.withLock { $0 = output }
    _ = Self.closesAtExit
    Self.say(Self.pasteOn, output)
    fit()
    registrations = [
      EventLoop.shared.on(signal: SIGWINCH) { [weak self] in
        self?.fit()
        onEvent(.resized)
      },
      EventLoop.shared.on(signal: SIGTSTP) { [weak self] in
        self?.suspend()
        onEvent(.resized)
      },
      EventLoop.shared.watch(input, for: .readable) { [weak self] ready in self?.read(ready, onEvent) },
    ]
  }

  /// Restores the terminal.
  public func close() {
    guard !isClosed else { return }
    isClosed = true
    registrations = []
    Self.restore()
    delscreen(screen)
    fclose(files.0)
    fclose(files.1)
  }

  /// Shows a frame; parts outside of the terminal are cut off.
  public func draw(_ frame: Frame) {
    guard !isClosed else { return }
    earshot_begin_drawing()
    for (row, runs) in frame.rows.enumerated() where row < rows {
      var column = 0
      for run in runs {
        let attributes = attributes(run.style)
        let pair = !hasColour ? 0 : run.style.isBlackOnWhite ? Self.blackOnWhite : run.style.colour.rawValue
        for cell in Cell.cells(of: run.text) where column + cell.width <= columns {
          earshot_draw_cell(Int32(row), Int32(column), cell.scalars, attributes, pair)
          column += cell.width
        }
      }
    }
    let cursor = frame.cursor.flatMap { $0.row < rows && $0.column < columns ? $0 : nil }
    earshot_end_drawing(Int32(cursor?.row ?? -1), Int32(cursor?.column ?? -1))
  }

  /// Redraws the complete screen with the next frame, because another program may have changed it.
  public func redrawAll() {
    guard !isClosed else { return }
    earshot_redraw_all()
  }

  /// Restores the terminal, stops the process like Ctrl-Z, and takes over the terminal again when the process
  /// continues. The caller then draws a frame.
  public func suspend() {
    guard !isClosed, Self.open.withLock({ $0 }) != nil else { return }
    Self.say(Self.pasteOff, output)
    endwin()
    kill(getpid(), SIGSTOP)
    Self.say(Self.pasteOn, output)
    fit()
    redrawAll()
  }

  /// The curses colour pair after those of `Style.Colour`.
  private static let blackOnWhite: Int16 = 8

  private func attributes(_ style: Style) -> UInt32 {
    earshot_attributes(
      style.isBold ? 1 : 0, style.isDim ? 1 : 0, style.isReverse ? 1 : 0, style.isUnderlined ? 1 : 0)
  }

  // MARK: Size and keys

  private func fit() {
    let terminal = TerminalInfo.current(output)
    (columns, rows) = (terminal.width, terminal.height)
    resizeterm(Int32(rows), Int32(columns))
  }

  private func read(_ ready: Readiness, _ onEvent: @LoopActor (Event) -> Void) {
    var isEmpty = true
    // The handler of a key may close the terminal.
    while !isClosed {
      var value: UInt32 = 0
      let kind = earshot_next_key(&value)
      guard kind >= 0 else { break }
      isEmpty = false
      if kind == 1, Int32(bitPattern: value) == KEY_RESIZE { continue }
      let piece = kind == 1 ? KeyDecoder.Piece.function(Int32(bitPattern: value)) : .character(value)
      if let key = decoder.take(piece) { onEvent(.key(key)) }
    }
    if !isClosed, let key = decoder.end() { onEvent(.key(key)) }
    guard isEmpty, !isClosed, !ready.isDisjoint(with: [.hungUp, .failed]) else { return }
    registrations = []
    onEvent(.ended)
  }

  // MARK: The terminal's own state

  private nonisolated static let pasteOn = "\u{1B}[?2004h"
  private nonisolated static let pasteOff = "\u{1B}[?2004l"

  private nonisolated static func restore() {
    guard let output = open.withLock({ $0.take() }) else { return }
    earshot_release_crashes()
    say(pasteOff, output)
    curs_set(1)
    endwin()
  }

  private nonisolated static func say(_ text: String, _ output: Int32) {
    let bytes = Array(text.utf8)
    _ = write(output, bytes, bytes.count)
  }
}

/// The reason why a terminal cannot be used.
public struct FullScreenError: CodedError, Equatable {
  enum Reason: String, Sendable {
    case notUnderstood, inUse
  }

  let reason: Reason
  let terminal: String

  /// The stable name.
  public var code: String { reason.rawValue }

  /// The cause, for a person.
  public var sentence: String {
    switch reason {
    case .notUnderstood: "This machine has no description of the terminal \(terminal) (TERM)."
    case .inUse: "This program already uses the terminal."
    }
  }
}

/// One ncurses cell: a character with its combining marks.
struct Cell {
  /// The code points, terminated by 0.
  let scalars: [Int32]
  let width: Int

  /// Maximum code points of an ncurses cell.
  private static let mostScalars = 5

  /// The cells of a settled text. A character whose code points have separate columns occupies several cells.
  static func cells(of text: String) -> [Cell] {
    var cells: [Cell] = []
    var current: [Int32] = []
    var width = 0
    func end() {
      if width > 0 { cells.append(Cell(scalars: current.prefix(mostScalars) + [0], width: width)) }
      (current, width) = ([], 0)
    }
    for scalar in text.unicodeScalars {
      let wide = DisplayText.width(of: Character(scalar))
      if wide > 0 { end() }
      width += wide
      current.append(Int32(bitPattern: scalar.value))
    }
    end()
    return cells
  }
}
