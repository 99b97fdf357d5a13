@testable import CommandLine

extension Command {
  /// A manual page about the command and its verbs, in the format of man(7) for section 1.
  ///
  /// - Parameters:
  ///   - program: the words before the command's own name: `earshot`.
  ///   - see: the pages that the page refers to, as `NAME(SECTION)`.
  func manual(program: [String], see: [String]) -> String {
    let path = program + [name]
    var lines = [
      ".TH \(path.joined(separator: "-").uppercased()) 1", ".SH NAME",
      "\(Self.escaped(path.joined(separator: "-"))) \\- \(Self.escaped(summary))", ".SH SYNOPSIS",
      ".B \(Self.escaped(path.joined(separator: " ")))",
      commands.isEmpty ? "[OPTION...]" : "COMMAND [OPTION...] [ARGUMENT...]",
    ]
    if !details.isEmpty {
      lines.append(".SH DESCRIPTION")
      for paragraph in details { lines += [".PP", Self.escaped(paragraph)] }
    }
    lines += Self.list("OPTIONS", options.map { (Self.spelling($0), $0.summary) }, level: ".SH")
    lines.append(".SH COMMANDS")
    for (path, command, _) in places.dropFirst() where command.commands.isEmpty {
      lines += command.section(path: program + path)
    }
    if !see.isEmpty { lines += [".SH SEE ALSO", see.map(Self.escaped).joined(separator: ", ")] }
    return lines.joined(separator: "\n") + "\n"
  }

  private func section(path: [String]) -> [String] {
    let words = arguments.map { argument in
      switch argument.count {
      case .one: argument.name
      case .optional: "[\(argument.name)]"
      case .any: "[\(argument.name)...]"
      }
    }
    let usage = (path + (options.isEmpty ? [] : ["[OPTION...]"]) + words).joined(separator: " ")
    return [".SS \"\(Self.escaped(usage))\"", Self.escaped(summary)]
      + Self.list("", arguments.map { ($0.name, $0.summary) }, level: "")
      + Self.list("", options.map { (Self.spelling($0), $0.summary) }, level: "")
  }

  private static func list(_ title: String, _ rows: [(String, String)], level: String) -> [String] {
    guard !rows.isEmpty else { return [] }
    return (title.isEmpty ? [] : ["\(level) \(title)"])
      + rows.flatMap { [".TP", ".B \(escaped($0.0))", escaped($0.1)] }
  }

  private static func spelling(_ option: Option) -> String {
    (option.short.map { "-\($0), " } ?? "") + "--\(option.long)" + (option.value.map { "=\($0.name)" } ?? "")
  }

  /// Escapes a text so that roff reads nothing in it as a request.
  private static func escaped(_ text: String) -> String {
    let plain = text.map { character in
      switch character {
      case "\\": "\\e"
      case "-": "\\-"
      case "\"": "\\(dq"
      default: String(character)
      }
    }.joined()
    return plain.hasPrefix(".") || plain.hasPrefix("'") ? "\\&" + plain : plain
  }
}
