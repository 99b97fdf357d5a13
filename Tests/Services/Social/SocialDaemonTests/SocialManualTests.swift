import CommandLine
import Foundation
import Testing

@testable import SocialCommands

@Suite("The manual page of earshot social")
struct SocialManualTests {
  private static let top = #filePath.split(separator: "/").dropLast(5).map { "/\($0)" }.joined()

  @Test("docs/man/earshot-social.1 has every command and option; EARSHOT_REGENERATE=1 rewrites it")
  func manual() throws {
    let path = Self.top + "/docs/man/earshot-social.1"
    let grammar = try #require(SocialTool.part.verbs.first).grammar
    let text = grammar.manual(program: ["earshot"], see: ["earshot-sociald(8)"])
    if ProcessInfo.processInfo.environment["EARSHOT_REGENERATE"] != nil {
      try text.write(toFile: path, atomically: true, encoding: .utf8)
    }
    let found = try String(contentsOfFile: path, encoding: .utf8)
    #expect(found == text)
    for command in grammar.commands where command.commands.isEmpty {
      #expect(text.contains("earshot social \(command.name)"))
    }
  }
}
