import Foundation
import Loop
import TestSupport

@testable import MeshCommands

extension ToolCall {
  @LoopActor
  static func run(_ words: String..., input: String = "") async -> ToolCall {
    await run(MeshTool.part, words, input: input)
  }

  @LoopActor
  static func run(_ words: [String], input: String = "") async -> ToolCall {
    await run(MeshTool.part, words, input: input)
  }

  /// The output of `decode` for the text of a file.
  @LoopActor
  static func decode(_ text: String) async throws -> ToolCall {
    let file = try ScratchFile(text)
    defer { withExtendedLifetime(file) {} }
    return await run("mesh", "decode", file.path)
  }
}

/// A temporary file that is deleted with this object.
final class ScratchFile {
  let path: String

  init(_ text: String) throws {
    path = FileManager.default.temporaryDirectory.appendingPathComponent("mesh-\(UUID().uuidString.prefix(8))").path
    try text.write(toFile: path, atomically: true, encoding: .utf8)
  }

  deinit {
    try? FileManager.default.removeItem(atPath: path)
  }
}
