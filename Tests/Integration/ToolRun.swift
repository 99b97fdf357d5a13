import Common
import Foundation
import Loop
import TestSupport

/// A program that a test started, and its output.
@LoopActor
final class ToolRun {
  struct Result {
    let status: Int32
    let output: String
    let complaint: String
  }

  private let process = Process()
  private let ended = Mailbox<Int32>()
  private let folder: URL
  /// The process while it runs. A failing test does not wait for its end, and the process must not stay behind.
  private let running = Locked<Int32?>(nil)

  /// - Parameters:
  ///   - terminal: its terminal; nil for no input and a file.
  ///   - input: the content of its standard input, in a file; nil for none.
  ///   - bus: the address that it uses as the system bus.
  init(
    _ words: [String], bus: String, terminal: Int32? = nil, input: String? = nil, into file: String? = nil
  ) throws {
    folder = FileManager.default.temporaryDirectory.appendingPathComponent("tool-\(UUID().uuidString.prefix(8))")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
    process.arguments = words
    let programs = URL(fileURLWithPath: Self.tool).deletingLastPathComponent().path
    process.environment = ProcessInfo.processInfo.environment.merging(
      ["DBUS_SYSTEM_BUS_ADDRESS": bus, "PATH": "\(programs):/usr/bin:/bin", "TERM": "xterm"], uniquingKeysWith: { $1 }
    )
    process.standardInput = terminal.map { FileHandle(fileDescriptor: $0) } ?? FileHandle.nullDevice
    if let input {
      let file = folder.appendingPathComponent("input")
      try Data(input.utf8).write(to: file)
      process.standardInput = try FileHandle(forReadingFrom: file)
    }
    if let terminal {
      process.standardOutput = FileHandle(fileDescriptor: terminal)
    } else if let file {
      process.standardOutput = FileHandle(forWritingAtPath: file)
    } else {
      process.standardOutput = try handle("output")
    }
    process.standardError = try handle("complaint")
    process.terminationHandler = { [ended, running] process in
      running.withLock { $0 = nil }
      let status = process.terminationStatus
      EventLoop.shared.soon { ended.put(status) }
    }
    // Blocked signals are inherited from the thread, and the program could not be stopped by one.
    var none = sigset_t()
    var before = sigset_t()
    sigemptyset(&none)
    pthread_sigmask(SIG_SETMASK, &none, &before)
    defer { pthread_sigmask(SIG_SETMASK, &before, nil) }
    try process.run()
    // The program may have ended already.
    let number = process.processIdentifier
    running.withLock { $0 = number }
    if !process.isRunning { running.withLock { $0 = nil } }
  }

  deinit {
    running.withLock { number in if let number { kill(number, SIGKILL) } }
  }

  /// Runs the tool with these words on a bus.
  static func earshot(_ words: String..., bus: String, into file: String? = nil) throws -> ToolRun {
    try ToolRun(["earshot"] + words, bus: bus, into: file)
  }

  /// The path of the tool that was built with the tests.
  nonisolated static var tool: String {
    URL(fileURLWithPath: ServiceProcess.path).deletingLastPathComponent().appendingPathComponent("earshot").path
  }

  func signal(_ signal: Int32) { kill(process.processIdentifier, signal) }

  /// The standard output until now.
  var said: String { text("output") }

  /// Waits until the output contains these words.
  func say(_ words: String) async throws {
    let isSaid = Mailbox<Bool>()
    var timer: Registration?
    func look() {
      if said.contains(words) { return isSaid.put(true) }
      timer = EventLoop.shared.schedule(after: .milliseconds(20)) { look() }
    }
    look()
    defer { timer?.cancel() }
    _ = try await isSaid.next()
  }

  /// Waits for the end of the program.
  func end() async throws -> Result {
    let status = try await ended.next()
    defer { try? FileManager.default.removeItem(at: folder) }
    return Result(status: status, output: said, complaint: text("complaint"))
  }

  private func text(_ name: String) -> String {
    (try? String(contentsOf: folder.appendingPathComponent(name), encoding: .utf8)) ?? ""
  }

  private func handle(_ name: String) throws -> FileHandle {
    let file = folder.appendingPathComponent(name)
    try Data().write(to: file)
    return try FileHandle(forWritingTo: file)
  }
}
