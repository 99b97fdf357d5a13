import DBus
import Foundation
import Loop
import TestSupport
import Testing

/// The daemon is killed while requests are under way: some were answered, some are with the store, some wait. What the
/// moment is depends on the number of answers before it, and not on a clock.
@Suite("SIGKILL of the social server", .serialized)
struct SocialKillTests {
  init() { EventLoop.shared.runInBackground() }

  /// Number of requests that are unanswered at one time.
  private static let width = 4

  /// A blob of the test: a small one is a row, a large one a file.
  private struct Note: Sendable {
    let name: String
    let content: [UInt8]

    init(_ round: Int, _ number: Int) {
      name = "r\(round)-\(number)"
      content = [UInt8](repeating: UInt8((round + number) & 0xFF), count: number.isMultiple(of: 3) ? 100_000 : 10)
    }
  }

  /// Sends requests, `width` at a time, and kills the process after a number of answers.
  ///
  /// - Parameter request: the method and its arguments; nil: there are no more.
  /// - Returns: the values of the answers, by the number of the request.
  @LoopActor
  private static func run(
    _ process: SocialProcess, killAfter limit: Int, _ request: (Int) throws -> (String, [DBusValue])?
  ) async throws -> [Int: [DBusValue]] {
    let ends = Mailbox<(Int, [DBusValue]?)>()
    var answers: [Int: [DBusValue]] = [:]
    var (next, open) = (0, 0)
    var isKilled = false
    while true {
      while !isKilled, open < width, let (method, arguments) = try request(next) {
        let number = next
        process.client.call(
          SocialProcess.name, SocialProcess.path, SocialProcess.interface, method, arguments, timeout: .seconds(60)
        ) { result in ends.put((number, try? result.get())) }
        (next, open) = (next + 1, open + 1)
      }
      if answers.count >= limit, !isKilled {
        process.signal(SIGKILL)
        isKilled = true
      }
      guard open > 0 else { break }
      let (number, values) = try await ends.next()
      open -= 1
      if let values { answers[number] = values }
    }
    if !isKilled { process.signal(SIGKILL) }
    _ = process.wait()
    return answers
  }

  @LoopActor
  private static func holds(_ process: SocialProcess, _ note: Note) async throws -> Bool {
    guard let content = try? await process.get(note.name) else { return false }
    #expect(content == note.content, "\(note.name) is not whole")
    return true
  }

  @Test("After SIGKILL each acknowledged blob is present, and each other blob is complete or absent")
  @LoopActor
  func storing() async throws {
    let process = try await SocialProcess("BlobsPerSecond=10000")
    defer { process.close() }
    var stored: [Note] = []
    for round in 0..<Extent.of(3, all: 20) {
      try await process.start()
      let answers = try await Self.run(process, killAfter: round * 2 + 1) { number in
        let note = Note(round, number)
        let file = try FileDescriptor.sealed(note.content, name: "test")
        return ("Put", [.string(""), .string(note.name), .descriptor(file)])
      }
      try await process.start()
      for number in 0..<(answers.count + 2 * Self.width) {
        let isThere = try await Self.holds(process, Note(round, number))
        #expect(isThere || answers[number] == nil, "round \(round), blob \(number)")
        if answers[number] != nil { stored.append(Note(round, number)) }
      }
      process.end()
      _ = process.wait()
    }
    try await process.start()
    for note in stored { #expect(try await Self.holds(process, note)) }
  }

  @Test("After SIGKILL acknowledged removals and collections are effective, and each blob is complete or absent")
  @LoopActor
  func removing() async throws {
    let process = try await SocialProcess("BlobsPerSecond=10000")
    defer { process.close() }
    for round in 0..<Extent.of(3, all: 20) {
      try await process.start()
      let notes = (0..<12).map { Note(round, $0) }
      var sums: [String] = []
      for note in notes { sums.append(try await process.put(note.name, note.content)) }
      let answers = try await Self.run(process, killAfter: round + 1) { number in
        guard number < notes.count / 2 * 3 else { return nil }
        // Each third request is a collection, which purges the blobs that earlier requests removed.
        return number % 3 == 2
          ? ("Collect", [.uint64(0), .bool(false)])
          : ("Remove", [.string(notes[number / 3 * 2 + number % 3].name)])
      }
      let collected = answers.filter { $0.key % 3 == 2 }.values.flatMap { $0.first?.asStrings ?? [] }
      try await process.start()
      for (index, note) in notes.enumerated() {
        let number = index / 2 * 3 + index % 2
        let isThere = try await Self.holds(process, note)
        if answers[number] != nil { #expect(!isThere, "round \(round): \(note.name) was removed") }
        if collected.contains(sums[index]) {
          #expect((try? await process.get(sums[index])) == nil, "round \(round): \(note.name) was purged")
        }
      }
      process.end()
      _ = process.wait()
    }
  }

  @Test("An import ended by SIGKILL leaves each blob complete or absent, and can be repeated")
  @LoopActor
  func importing() async throws {
    let source = try await SocialProcess("BlobsPerSecond=10000")
    defer { source.close() }
    try await source.start()
    let notes = (0..<20).map { Note(0, $0) }
    var sums: [String] = []
    for note in notes { sums.append(try await source.put(note.name, note.content)) }
    let tree = source.folder.path("state/tree")
    _ = try await source.call("Export", .string(tree))
    for round in 0..<Extent.of(2, all: 10) {
      let process = try await SocialProcess("BlobsPerSecond=10000")
      defer { process.close() }
      try await process.start()
      // The import and requests behind it are on their way when the process is killed.
      _ = try await Self.run(process, killAfter: round / 2) { number in
        if number > round + 4 { return nil }
        return number == round % 3 ? ("Import", [.string(tree)]) : ("List", [.string(""), .string(""), .uint32(1)])
      }
      try await process.start()
      for (note, sum) in zip(notes, sums) {
        if let content = try? await process.get(sum) { #expect(content == note.content) }
      }
      _ = try await process.call("Import", .string(tree))
      for (note, sum) in zip(notes, sums) {
        let content = try await process.get(sum)
        #expect(content == note.content, "round \(round)")
      }
    }
  }
}
