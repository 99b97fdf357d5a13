import CommandLine
import Foundation
import Loop

@testable import Tool

/// A command of the tool that ran in this process, with its standard output.
public struct ToolCall: Equatable, Sendable {
  public let code: ExitCode
  public let output: String
  /// The text that the tool would print on standard error; nil on success.
  public let failure: String?

  public init(_ code: ExitCode, _ output: String, _ failure: String? = nil) {
    self.code = code
    self.output = output
    self.failure = failure
  }

  /// - Parameters:
  ///   - part: the part of the tool that has the command.
  ///   - input: the content of standard input.
  @LoopActor
  public static func run(_ part: ToolPart, _ words: [String], input: String = "") async -> ToolCall {
    let line: ParsedCommand
    do throws(UsageError) {
      line = try ToolProgram([part], version: "1").grammar.parse(words)
    } catch {
      return ToolCall(.usage, "", error.sentence)
    }
    if line.wantsHelp { return ToolCall(.ok, line.help) }
    let redirection = Redirection(input: input)
    do throws(Failure) {
      let code = try await part.verbs.compactMap { $0.action(at: line.path) }.first?.run(line)
      return ToolCall(code ?? .usage, redirection.end())
    } catch {
      return ToolCall(error.code, redirection.end(), error.text)
    }
  }
}

/// Replaces standard input and output of this process by files for a while. The test runner writes to standard error.
private final class Redirection {
  private let files: [UnsafeMutablePointer<FILE>]
  private let before: [Int32]

  init(input: String) {
    files = [tmpfile(), tmpfile()].compactMap { $0 }
    before = [dup(STDIN_FILENO), dup(STDOUT_FILENO)]
    let bytes = Array(input.utf8)
    fwrite(bytes, 1, bytes.count, files[0])
    rewind(files[0])
    dup2(fileno(files[0]), STDIN_FILENO)
    dup2(fileno(files[1]), STDOUT_FILENO)
  }

  func end() -> String {
    for (descriptor, number) in zip(before, [STDIN_FILENO, STDOUT_FILENO]) {
      dup2(descriptor, number)
      close(descriptor)
    }
    defer { for file in files { fclose(file) } }
    return Self.text(files[1])
  }

  /// The content of the file; it is read from its beginning, and written on at its end.
  private static func text(_ file: UnsafeMutablePointer<FILE>) -> String {
    let descriptor = fileno(file)
    var bytes = [UInt8](repeating: 0, count: Int(lseek(descriptor, 0, SEEK_END)))
    let count = pread(descriptor, &bytes, bytes.count, 0)
    return String(decoding: bytes.prefix(max(0, count)), as: UTF8.self)
  }
}
