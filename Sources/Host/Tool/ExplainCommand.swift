import CommandLine
import Common
import Terminal

/// `earshot explain CODE`: the meaning of a code, and what to do. Without a code, all codes with where they occur.
struct ExplainCommand {
  private let meanings: [CodeMeaning]

  /// - Parameter services: the parts of the tool, whose codes and counters are explained.
  init(_ services: [ToolPart]) {
    let counters = [CounterMeanings.house] + services.compactMap(\.counters)
    meanings = CodeMeaning.house + services.flatMap(\.codes) + counters.flatMap(\.codes)
  }

  func run(_ line: ParsedCommand) throws(Failure) -> ExitCode {
    guard let word = line.argument("CODE").map(PastedText.trimmed), !word.isEmpty else {
      if line.flag("json") { Output.json(.array(meanings.map(\.json))) } else { Output.write(list()) }
      return .ok
    }
    let found = try find(word)
    if line.flag("json") {
      Output.json(.array(found.map(\.json)))
    } else {
      let terminal = Output.terminal
      Output.write(Self.text(found, width: terminal.isTerminal ? terminal.width : nil))
    }
    return .ok
  }

  /// The meanings of a code; several if it occurs in several parts of the service.
  ///
  /// - Throws: `failed` for an unknown code, with the nearest one.
  func find(_ word: String) throws(Failure) -> [CodeMeaning] {
    let found = meanings.filter { $0.isNamed(word) }
    guard found.isEmpty else { return found }
    // Swift 6.0.3 selects the other `flatMap` unless the result type is declared.
    let names: [String] = meanings.flatMap { meaning -> [String] in [meaning.code] + meaning.aliases }
    let meant = Spelling.nearest(to: word, among: names).map { " Did you mean \($0)?" } ?? ""
    let shown = PrintableText.clean(word, limit: 60)
    throw Failure(.failed, "There is no code \(shown).\(meant) `earshot explain` lists all codes.")
  }

  /// The meanings as paragraphs, wrapped to `width`.
  static func text(_ meanings: [CodeMeaning], width: Int?) -> String {
    meanings.map { meaning in
      let paragraphs = [meaning.meaning] + (meaning.remedy.isEmpty ? [] : ["What to do: " + meaning.remedy])
      let lines: [String] = paragraphs.flatMap { text -> [String] in
        width.map { DisplayText.wrap(text, to: max(20, $0 - 2)) } ?? [text]
      }
      return (["\(meaning.code) (\(meaning.kind))"] + lines.map { "  \($0)" }).map { $0 + "\n" }.joined()
    }.joined(separator: "\n")
  }

  private func list() -> String {
    var table = TextTable([.init("CODE"), .init("WHERE IT OCCURS")])
    for meaning in meanings { table.append([meaning.code, meaning.kind]) }
    return table.text()
  }
}
