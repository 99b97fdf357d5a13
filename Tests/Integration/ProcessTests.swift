import Foundation
import Loop
import TestSupport
import Testing

/// The kernel's view of the running service.
@Suite("Protection of the daemon's memory")
struct ProcessTests {
  init() { EventLoop.shared.runInBackground() }

  @Test("Core dumps of the daemon are disabled, and only root can read its memory")
  @LoopActor
  func hidden() async throws {
    let service = try await ServiceProcess()
    defer { service.close() }
    try await service.start()
    let processID = try #require(service.processID)
    let limits = try String(contentsOfFile: "/proc/\(processID)/limits", encoding: .utf8)
    let core = limits.split(separator: "\n").first { $0.hasPrefix("Max core file size") }
    #expect(core?.split(separator: " ").dropFirst(4).prefix(2) == ["0", "0"])
    // The files in /proc of a process that is not dumpable belong to root, whoever runs it.
    var status = stat()
    #expect(lstat("/proc/\(processID)/mem", &status) == 0 && status.st_uid == 0)
    #expect(!Self.text(service.log).contains("Memory cannot be locked"))
  }

  @Test(
    "If memory cannot be locked, the daemon logs one line with the remedy and continues",
    .enabled(if: getuid() == 0, "only root can take the right to lock memory from a program"),
    .enabled(if: !Sanitizer.isOn, "with a sanitizer, locking always seems to work"))
  @LoopActor
  func unlocked() async throws {
    let service = try await ServiceProcess()
    defer { service.close() }
    try await service.start(behind: [
      "setpriv", "--bounding-set=-ipc_lock", "--inh-caps=-ipc_lock", "prlimit", "--memlock=0:0",
    ])
    let lines = Self.text(service.log).split(separator: "\n").filter { $0.contains("Memory cannot be locked") }
    #expect(lines.count == 1 && lines.first?.contains("LimitMEMLOCK=") == true)
    #expect(try await service.property("State") == "waiting")
  }

  @Test("The daemon exits without running the finalizers of libraries")
  func end() throws {
    let folder = FileManager.default.temporaryDirectory.appendingPathComponent("earshot-\(UUID().uuidString.prefix(8))")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(at: folder) }
    // The dynamic linker logs the libraries that it loads and unloads.
    let process = Process()
    process.executableURL = URL(fileURLWithPath: ServiceProcess.path)
    process.arguments = ["--version"]
    process.environment = ["LD_DEBUG": "files", "LD_DEBUG_OUTPUT": folder.appendingPathComponent("linker").path]
    let output = Pipe()
    process.standardOutput = output
    try process.run()
    process.waitUntilExit()
    let said = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
    #expect(process.terminationStatus == 0 && said.hasPrefix("earshotd "))
    let written = try FileManager.default.contentsOfDirectory(atPath: folder.path)
      .map { try String(contentsOf: folder.appendingPathComponent($0), encoding: .utf8) }.joined()
    #expect(written.contains("calling init:") && !written.contains("calling fini:"))
  }

  private static func text(_ bytes: [UInt8]) -> String { String(decoding: bytes, as: UTF8.self) }
}
