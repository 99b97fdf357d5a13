import CommandLine
import Common
import Loop
import Terminal
import Tool

/// What `earshot verifier watch` shows: a screen where there is a terminal, else lines.
@LoopActor
final class WatchDisplay {
  /// How it is shown.
  private enum Form {
    case screen, lines, json
  }

  private let form: Form
  private let isQuiet: Bool
  private var screen = Screen()
  private var isDrawn = false
  private var shownURI = ""
  private var shownTroubles: [String] = []

  /// More than the largest terminal shows.
  private static let newsLimit = 200

  /// - Parameter note: stays at the bottom of the screen.
  init(isJSON: Bool, isQuiet: Bool, note: String) {
    form = isJSON ? .json : Output.terminal.canRedraw && !isQuiet ? .screen : .lines
    self.isQuiet = isQuiet
    screen.note = note
  }

  /// The verifier stands otherwise than before.
  func show(_ verifier: VerifierView) throws(Failure) {
    let (uri, troubles) = (verifier.uri, verifier.troubles)
    guard uri != shownURI || troubles != shownTroubles else { return }
    let isNewCode = uri != shownURI
    let news = troubles.filter { !shownTroubles.contains($0) }
    shownURI = uri
    shownTroubles = troubles
    switch form {
    case .screen:
      screen.code = uri.isEmpty ? nil : try VerifierCommand.code(uri)
      screen.invitation = VerifierCommand.invitation(verifier)
      screen.heading = troubles
      draw()
    case .lines:
      for trouble in news { say(trouble) }
      if isNewCode, !uri.isEmpty, !isQuiet { say(uri) }
    case .json:
      if !news.isEmpty {
        Output.json(.object([.init("troubles", .array(troubles.map { .string($0) }))]), pretty: false)
      }
    }
  }

  /// Transfers under way, in the order in which they came.
  func show(_ transfers: [TransferView]) {
    switch form {
    case .screen:
      screen.bars = transfers.map { $0.bar($0.name) }
      draw()
    case .lines:
      guard Output.terminal.canRedraw else { return }
      if transfers.count < 2 { return Output.progress(transfers.first?.progress("Receiving") ?? "") }
      let shares = transfers.map { transfer in
        transfer.bar("").fraction.map { "\(Int($0 * 100))%" } ?? "…"
      }
      Output.progress("Receiving from \(transfers.count): " + shares.joined(separator: ", "))
    case .json: break
    }
  }

  /// Something happened.
  ///
  /// - Parameter more: lines below it.
  func say(_ sentence: String, more: [UInt8]? = nil) {
    switch form {
    case .screen:
      screen.news += [sentence] + (more.map { [Excerpt.line($0, limit: 120)] } ?? [])
      screen.news.removeFirst(max(0, screen.news.count - Self.newsLimit))
      draw()
    case .lines:
      if Output.terminal.canRedraw { Output.progress("") }
      Output.line(sentence + (more.map { "\n" + Excerpt.paragraph($0) } ?? ""))
    case .json: break
    }
  }

  /// The same for a program that reads.
  func say(_ members: [JSONValue.Member]) {
    if form == .json { Output.json(.object(members), pretty: false) }
  }

  /// Something did not work.
  func complain(_ sentence: String) {
    form == .screen ? say(sentence) : Output.complain(sentence)
  }

  /// Draws it again, in a window of another size.
  func draw() {
    guard form == .screen else { return }
    Output.screen(screen, isFirst: !isDrawn)
    isDrawn = true
  }
}
