import Calendar
import CommandLine
import Common
import FullScreen
import Glibc
import Loop
import Terminal
import Tool

/// Display of `earshot verifier watch`: a screen with keys if input and output are a terminal, a screen without keys if
/// only the output is one, otherwise lines or JSON.
@LoopActor
final class WatchDisplay {
  private enum Form {
    case keys, screen, lines, json
  }

  private let form: Form
  private let isQuiet: Bool
  private let clock = SystemWallClock()
  private var counter: CounterScreen
  private var terminal: FullScreen?
  private var isDrawn = false

  /// - Parameter note: text at the bottom of the screen.
  init(isJSON: Bool, isQuiet: Bool, note: String) {
    form = isJSON ? .json : !Output.terminal.canRedraw ? .lines : Self.hasKeys ? .keys : isQuiet ? .lines : .screen
    self.isQuiet = isQuiet
    counter = CounterScreen(note: note, showsCode: !isQuiet, hasKeys: form == .keys)
  }

  /// Whether the display fills the terminal, so that nothing else may write to it.
  var isScreen: Bool { form == .keys || form == .screen }

  /// Whether standard input is a terminal and this process is in its foreground. A background job must not use it.
  private static var hasKeys: Bool {
    let group = tcgetpgrp(STDIN_FILENO)
    return isatty(STDIN_FILENO) == 1 && (group < 0 || group == getpgrp())
  }

  /// Opens the terminal for a screen with keys, if that is the form of display.
  func open(onEvent: @escaping @LoopActor (FullScreen.Event) -> Void) throws(Failure) {
    guard form == .keys else { return }
    do throws(FullScreenError) {
      terminal = try FullScreen(onEvent: onEvent)
    } catch {
      throw Failure(.failed, "\(error.sentence) Try: earshot verifier watch | cat")
    }
  }

  /// Restores the terminal, and prints the reports on it.
  func close() {
    guard let terminal else { return }
    terminal.close()
    self.terminal = nil
    for line in counter.log { Output.line(line) }
  }

  // MARK: Input and output

  func press(_ key: Key) -> CounterScreen.Choice? {
    guard let choice = counter.press(key, at: EventLoop.shared.now) else { return nil }
    switch choice {
    case .redraw: terminal?.redrawAll()
    case .suspend: terminal?.suspend()
    case .judge, .leave: return choice
    }
    return nil
  }

  func say(_ report: WatchReport) {
    let date = UInt64(clamping: clock.milliseconds)
    switch form {
    case .keys, .screen: if !report.sentence.isEmpty { counter.add(report, date: date) }
    case .json:
      if report.isComplaint { Output.complain(report.sentence) }
      guard !report.members.isEmpty else { return }
      Output.json(report.json(at: date), pretty: false)
    case .lines:
      guard !report.sentence.isEmpty else { return }
      if Output.terminal.canRedraw { Output.progress("") }
      let text = "\(LocalTime.clock(date)) \(report.sentence)" + (report.hint.isEmpty ? "" : " \(report.hint)")
      if report.isComplaint { Output.complain(text) } else { Output.line(text) }
      if let shown = report.shown { Output.line(Excerpt.paragraph(shown)) }
    }
  }

  /// Prints the text of a new QR code.
  func say(code: String) {
    if form == .lines, !isQuiet { Output.line(code) }
  }

  /// Draws the screen, or the progress bar, for the state of the model.
  func draw(_ model: WatchModel) {
    let now = EventLoop.shared.now
    switch form {
    case .keys:
      guard let terminal else { return }
      counter.update(model.waiting, at: now)
      let info = TerminalInfo(columns: terminal.columns, rows: terminal.rows, hasColour: terminal.hasColour)
      let rows = screen(model, now).rows(on: info)
      terminal.draw(
        Frame(rows: rows.map { row in row.map { Frame.Run(DisplayText.settled($0.text), Style($0.look)) } }))
    case .screen:
      counter.update(model.waiting, at: now)
      Output.screen(screen(model, now), isFirst: !isDrawn)
      isDrawn = true
    case .lines:
      guard Output.terminal.canRedraw else { return }
      let bars = model.underWay.map { $0.view.bar("Receiving", after: $0.seen.duration(to: now)) }
      if bars.count < 2 { return Output.progress(bars.first?.line(width: Output.terminal.width - 1) ?? "") }
      let shares = bars.map { bar in bar.fraction.map { "\(Int($0 * 100))%" } ?? "…" }
      Output.progress("Receiving from \(bars.count): " + shares.joined(separator: ", "))
    case .json: break
    }
  }

  private func screen(_ model: WatchModel, _ now: Instant) -> Screen {
    counter.screen(model, at: now, date: UInt64(clamping: clock.milliseconds))
  }
}
