extension Command {
  /// The completion file of this program for a shell.
  ///
  /// All three files follow the words on the command line to find the command, then offer its verbs, options and
  /// values.
  public func completion(for shell: Shell) -> String {
    switch shell {
    case .bash: bashCompletion
    case .zsh: zshCompletion
    case .fish: fishCompletion
    }
  }

  /// The name of the shell function, from a program name that may contain a dash.
  private var function: String { "_" + name.map { $0 == "-" ? "_" : String($0) }.joined() }

  /// Entries of the form `place word` for each verb.
  private var verbs: [String] {
    places.dropFirst().map { $0.path.joined(separator: " ") }
  }

  /// Patterns of the form `place --option` and `place -o` for the options with a value, whose next word is not a
  /// command.
  private func valueOptions(_ shell: Shell) -> [(patterns: [String], value: ValueShape)] {
    places.flatMap { place in
      place.options.compactMap { option in
        option.value.map { value in
          (option.spellings.map { shell.quoted("\(place.path.joined(separator: " ")) \($0)") }, value)
        }
      }
    }
  }

  private var bashCompletion: String {
    var lines = [
      "# bash completion for \(name)", "", "\(function)() {",
      "  local place=\(name) index word words='' options=''",
      "  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]}",
      "  # bash takes --name=value for three words.",
      "  if [[ $current == = ]]; then current=''; elif [[ $previous == = ]]; then previous=${COMP_WORDS[COMP_CWORD-2]}; fi",
      "  for ((index = 1; index < COMP_CWORD; index++)); do",
      "    word=${COMP_WORDS[index]}",
      "    case \"$place $word\" in",
    ]
    lines += valueOptions(.bash).map { "      \($0.patterns.joined(separator: "|"))) ((index++)) ;;" }
    lines += verbs.map { "      '\($0)') place='\($0)' ;;" }
    lines += ["    esac", "  done", "  COMPREPLY=()", "  case \"$place $previous\" in"]
    for (patterns, value) in valueOptions(.bash) {
      lines.append("    \(patterns.joined(separator: "|"))) \(Self.bashOffer(value)); return ;;")
    }
    lines += ["  esac", "  case $place in"]
    for (path, command, options) in places {
      let words = (command.commands.map(\.name) + command.choices).joined(separator: " ")
      let dashed = options.map { "--\($0.long)" }.joined(separator: " ")
      let files = command.takesFile ? "compopt -o default; " : ""
      lines.append(
        "    '\(path.joined(separator: " "))') \(files)words=\(Shell.bash.quoted(words)) options='\(dashed)' ;;")
    }
    lines += [
      "  esac", "  [[ $current == -* ]] && words=$options", "  COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))",
      "}", "", "complete -F \(function) \(name)",
    ]
    return lines.joined(separator: "\n") + "\n"
  }

  private static func bashOffer(_ value: ValueShape) -> String {
    switch value {
    case .choice(_, let words):
      "COMPREPLY=($(compgen -W \(Shell.bash.quoted(words.joined(separator: " "))) -- \"$current\"))"
    case .file: "compopt -o default"
    case .text, .integer, .seconds: ":"
    }
  }

  private var zshCompletion: String {
    var lines = [
      "#compdef \(name)", "", "\(function)() {",
      "  local place=\(name)",
      "  local -i index=2",
      "  local -a commands options",
      "  while (( index < CURRENT )); do",
      "    case \"$place $words[index]\" in",
    ]
    lines += valueOptions(.zsh).map { "      \($0.patterns.joined(separator: "|"))) (( index++ )) ;;" }
    lines += verbs.map { "      '\($0)') place='\($0)' ;;" }
    lines += ["    esac", "    (( index++ ))", "  done", "  case \"$place $words[CURRENT-1]\" in"]
    for (patterns, value) in valueOptions(.zsh) {
      lines.append("    \(patterns.joined(separator: "|"))) \(Self.zshOffer(value)); return ;;")
    }
    lines += ["  esac", "  case $place in"]
    for (path, command, options) in places {
      lines.append("    '\(path.joined(separator: " "))')")
      let commands = command.commands.map { Self.zshItem($0.name, $0.summary) } + command.choices.map(Shell.zsh.quoted)
      lines.append("      commands=(\(commands.joined(separator: " ")))")
      lines.append("      options=(\(options.map { Self.zshItem("--\($0.long)", $0.summary) }.joined(separator: " ")))")
      if command.takesFile { lines.append("      [[ $PREFIX == -* ]] || _files") }
      lines.append("      ;;")
    }
    lines += [
      "  esac",
      "  (( $#commands )) && _describe command commands",
      "  [[ $PREFIX == -* ]] && _describe -o option options",
      "}", "", "if [[ $funcstack[1] == \(function) ]]; then \(function) \"$@\"; else compdef \(function) \(name); fi",
    ]
    return lines.joined(separator: "\n") + "\n"
  }

  private static func zshOffer(_ value: ValueShape) -> String {
    switch value {
    case .choice(_, let words): "compadd -- \(words.map(Shell.zsh.quoted).joined(separator: " "))"
    case .file: "_files"
    case .text(let name), .integer(let name, _), .seconds(let name): "_message \(Shell.zsh.quoted(name))"
    }
  }

  private static func zshItem(_ word: String, _ summary: String) -> String {
    let escaped = [word, summary].map {
      $0.split(separator: ":", omittingEmptySubsequences: false).joined(separator: "\\:")
    }
    return Shell.zsh.quoted(escaped.joined(separator: ":"))
  }

  private var fishCompletion: String {
    var lines = [
      "# fish completion for \(name)", "", "function _\(function)_place",
      "  set -l place \(name)", "  set -l skip 0",
      "  for word in (commandline -opc)[2..-1]",
      "    if test $skip = 1", "      set skip 0", "      continue", "    end",
      "    switch \"$place $word\"",
    ]
    let patterns = valueOptions(.fish).flatMap(\.patterns)
    if !patterns.isEmpty { lines += ["      case \(patterns.joined(separator: " "))", "        set skip 1"] }
    for verb in verbs { lines += ["      case '\(verb)'", "        set place '\(verb)'"] }
    lines += ["    end", "  end", "  echo $place", "end", "", "complete -c \(name) -f"]
    for (path, command, options) in places {
      let at = "complete -c \(name) -n 'test (_\(function)_place) = \"\(path.joined(separator: " "))\"'"
      lines += command.commands.map { "\(at) -a \($0.name) -d \(Shell.fish.quoted($0.summary))" }
      if !command.choices.isEmpty {
        lines.append("\(at) -a \(Shell.fish.quoted(command.choices.joined(separator: " ")))")
      }
      if command.takesFile { lines.append("\(at) -F") }
      for option in options {
        let short = option.short.map { " -s \($0)" } ?? ""
        let value = option.value.map(Self.fishOffer) ?? ""
        lines.append("\(at) -l \(option.long)\(short)\(value) -d \(Shell.fish.quoted(option.summary))")
      }
    }
    return lines.joined(separator: "\n") + "\n"
  }

  private static func fishOffer(_ value: ValueShape) -> String {
    switch value {
    case .choice(_, let words): " -x -a \(Shell.fish.quoted(words.joined(separator: " ")))"
    case .file: " -r -F"
    case .text, .integer, .seconds: " -x"
    }
  }

  /// The possible words for the arguments of this command.
  private var choices: [String] {
    arguments.flatMap { argument -> [String] in
      if case .choice(_, let words) = argument.value { words } else { [] }
    }
  }

  private var takesFile: Bool {
    arguments.contains { argument in
      if case .file = argument.value { true } else { false }
    }
  }
}

/// A shell with a completion file.
public enum Shell: String, Sendable, CaseIterable {
  case bash, zsh, fish

  /// Quotes a text so that the shell reads exactly these characters.
  func quoted(_ text: String) -> String {
    switch self {
    case .bash, .zsh:
      "'" + text.split(separator: "'", omittingEmptySubsequences: false).joined(separator: "'\\''") + "'"
    case .fish:
      "'" + text.map { $0 == "'" || $0 == "\\" ? "\\\($0)" : String($0) }.joined() + "'"
    }
  }
}
