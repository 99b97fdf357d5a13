import DBus
import Foundation
import Loop
import TestSupport
import Testing

@testable import Mesh

@Suite("Calls of a local program that means the node no good")
struct MeshCallTests {
  init() { EventLoop.shared.runInBackground() }

  @Test(
    "A peer's name of 12 MiB is nobody's, and the service takes no more memory than a few copies of it",
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
    // Split at each sign it would take some 500 MiB.
    #expect(try Self.mostMemory(of: mesh.process) < 250 << 20)
  }

  /// The most bytes of memory that a process has had at a time.
  @LoopActor
  private static func mostMemory(of process: ServiceProcess) throws -> Int {
    let status = try String(contentsOfFile: "/proc/\(try #require(process.processID))/status", encoding: .utf8)
    let line = try #require(status.split(separator: "\n").first { $0.hasPrefix("VmHWM:") })
    return try #require(line.split { !$0.isNumber }.first.flatMap { Int($0) }) << 10
  }
}
