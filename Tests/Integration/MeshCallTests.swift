import DBus
import Foundation
import Loop
import TestSupport
import Testing

@testable import Mesh

@Suite("Malicious calls of local programs")
struct MeshCallTests {
  init() { EventLoop.shared.runInBackground() }

  @Test(
    "A mesh peer name of 12 MiB is refused, and memory stays below 250 MiB",
    .enabled(if: !Sanitizer.isOn, "what is freed is kept back to be watched"))
  @LoopActor
  func longName() async throws {
    let mesh = try await MeshProcess()
    defer { mesh.close() }
    try await mesh.process.start()
    let name = String(repeating: "#", count: 12 << 20)
    for (method, arguments) in [("Ping", [name]), ("Tell", [name, "a word"])] {
      do throws(DBusError) {
        _ = try await mesh.call(method, arguments.map { .string($0) })
        Issue.record("\(method) found somebody")
      } catch {
        #expect(["NotFound", "InvalidArgs"].map { "org.earshot.Error.\($0)" }.contains(error.name), "\(error.name)")
        #expect(error.message.hasPrefix("No peer is called <###") && error.message.utf8.count < 300)
      }
    }
    // Split at each character the text would need some 500 MiB.
    #expect(try Self.mostMemory(of: mesh.process) < 250 << 20)
  }

  /// The peak memory of a process in bytes.
  @LoopActor
  private static func mostMemory(of process: ServiceProcess) throws -> Int {
    let status = try String(contentsOfFile: "/proc/\(try #require(process.processID))/status", encoding: .utf8)
    let line = try #require(status.split(separator: "\n").first { $0.hasPrefix("VmHWM:") })
    return try #require(line.split { !$0.isNumber }.first.flatMap { Int($0) }) << 10
  }
}
