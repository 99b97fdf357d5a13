import Foundation
import Loop
import TestSupport
import Testing

/// The capabilities of the running service, read from /proc.
@Suite("Capabilities of the service")
struct PrivilegeTests {
  init() { EventLoop.shared.runInBackground() }

  /// The bits of a capability set in `/proc/PID/status` (CapPrm, CapEff, …), of each thread.
  private static func sets(_ name: String, of processID: pid_t) throws -> [Capabilities] {
    let folder = "/proc/\(processID)/task"
    return try FileManager.default.contentsOfDirectory(atPath: folder).map { thread in
      let lines = try String(contentsOfFile: "\(folder)/\(thread)/status", encoding: .utf8).split(separator: "\n")
      let line = try #require(lines.first { $0.hasPrefix("\(name):") })
      let digits = line.dropFirst(name.count + 1).trimmingCharacters(in: .whitespaces)
      return Capabilities(rawValue: try #require(UInt64(digits, radix: 16)))
    }
  }

  /// - Parameter keeps: which of the two capabilities stay permitted once the service runs.
  @Test(
    "Every thread drops CAP_NET_ADMIN, and drops CAP_NET_RAW unless NotifyUnsubscribed is on",
    .enabled(
      if: Capabilities.permitted.isSuperset(of: [.netAdmin, .netRaw]), "this user has no capabilities to give up"),
    arguments: [
      ("Backend=bluez\nNotifyUnsubscribed=yes", .netRaw), ("Backend=bluez\nNotifyUnsubscribed=no", []),
      ("Backend=air", []),
    ] as [(String, Capabilities)])
  @LoopActor
  func permitted(radio: String, keeps: Capabilities) async throws {
    let service = try await ServiceProcess()
    defer { service.close() }
    try service.configure("", radio: radio)
    try await service.start()
    let processID = try #require(service.processID)
    let both: Capabilities = [.netAdmin, .netRaw]
    #expect(try Self.sets("CapPrm", of: processID).allSatisfy { $0.intersection(both) == keeps })
    for set in ["CapEff", "CapInh", "CapAmb"] {
      #expect(try Self.sets(set, of: processID).allSatisfy { $0.isDisjoint(with: both) }, "\(set)")
    }
  }
}
