import Foundation
import TestSupport
import Testing

@testable import CommandLine

@Suite struct CompletionTests {
  /// The completions of bash for the last of these words; `…` stands for an empty word.
  private static func bash(_ words: [String]) throws -> [String] {
    let quoted = words.map { Shell.bash.quoted($0 == "…" ? "" : $0) }.joined(separator: " ")
    let script =
      example.completion(for: .bash) + """

        compopt() { COMPREPLY+=("files"); }
        COMP_WORDS=(\(quoted)); COMP_CWORD=\(words.count - 1)
        _earshot
        printf '%s\\n' "${COMPREPLY[@]}"
        """
    let process = Process()
    let output = Pipe()
    process.executableURL = URL(fileURLWithPath: "/bin/bash")
    process.arguments = ["--norc", "-c", script]
    process.standardOutput = output
    try process.run()
    let data = output.fileHandleForReading.readDataToEndOfFile()
    process.waitUntilExit()
    #expect(process.terminationStatus == 0)
    return String(decoding: data, as: UTF8.self).split(separator: "\n").map(String.init)
  }

  @Test(
    "bash completion offers the words that fit the position on the command line",
    arguments: [
      ("earshot st", ["status"]),
      ("earshot --json verifier st", ["start", "stop"]),
      ("earshot --timeout verifier st", ["status"]),
      ("earshot verifier start --d", ["--dialect"]),
      ("earshot verifier start --dialect 0", ["0.5", "0.4"]),
      ("earshot verifier start -d 0.4 --j", ["--json"]),
      ("earshot verifier start --dialect = 0.4", ["0.4"]),
      ("earshot verifier start --dialect =", ["0.5", "0.4"]),
      ("earshot --timeout 1", []),
      ("earshot log d", ["debug"]),
      ("earshot …", ["status", "verifier", "present", "log"]),
      ("earshot -", ["--json", "--timeout", "--help"]),
      ("earshot present --receipt x", ["files"]),
      ("earshot status verifier --v", ["--verbose"]),
    ] as [(String, [String])])
  func bash(line: String, expected: [String]) throws {
    let words = line.split(separator: " ").map(String.init)
    #expect(try Self.bash(words) == expected)
  }

  @Test("The completion file of each shell names every verb and option", arguments: Shell.allCases)
  func complete(shell: Shell) {
    let file = example.completion(for: shell)
    for (path, command, _) in example.places {
      #expect(path.count == 1 || file.contains("'\(path.joined(separator: " "))'"), "\(path)")
      for option in command.options { #expect(file.contains(option.long), "\(option.long)") }
    }
  }

  @Test("A text that is quoted for a shell is read unchanged by this shell")
  func quoting() {
    #expect(Shell.bash.quoted("it's $HOME") == "'it'\\''s $HOME'")
    #expect(Shell.zsh.quoted("") == "''")
    #expect(Shell.fish.quoted("it's \\n") == "'it\\'s \\\\n'")
  }
}
