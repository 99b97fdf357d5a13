import CommandLine
import DBus
import Foundation
import Listing
import Loop
import TestSupport
import Testing
import ToolList

@testable import Tool

/// The commands that examine the machine, on buses without a service.
@Suite("`earshot doctor` and `earshot report` without a service", .serialized)
struct DoctorRunTests {
  init() { EventLoop.shared.runInBackground() }

  private static func part() throws -> ToolPart {
    try #require(ToolList.parts.first { $0.verbs.contains { $0.grammar.name == "doctor" } })
  }

  @Test("If the service is not running, `earshot doctor` fails and names what is missing")
  @LoopActor
  func noService() async throws {
    let bus = try PrivateBus()
    defer { bus.stop() }
    let call = await ToolCall.run(try Self.part(), ["doctor", "--bus", bus.address])
    #expect(call.code == .failed && call.failure == nil)
    #expect(call.output.contains("org.earshot is not on the bus"))
    #expect(call.output.contains("bluez"))
  }

  @Test("Without a bus `earshot doctor` names the bus, and still checks the machine")
  @LoopActor
  func noBus() async throws {
    let call = await ToolCall.run(try Self.part(), ["doctor", "--json", "--bus", "unix:path=/nowhere"])
    #expect(call.code == .failed)
    let object = try JSONSerialization.jsonObject(with: Data(call.output.utf8)) as? [String: Any]
    let findings = try #require(object?["findings"] as? [[String: String]])
    #expect(findings.first?["topic"] == "bus" && findings.first?["level"] == "error")
    let topics = Set(findings.compactMap { $0["topic"] })
    #expect(topics.isSuperset(of: ["group", "clock"]) && !topics.contains("service"))
  }

  @Test("`earshot report` writes a report even without a bus")
  @LoopActor
  func report() async throws {
    let call = await ToolCall.run(try Self.part(), ["report", "--bus", "unix:path=/nowhere"])
    #expect(call.code == .ok)
    #expect(call.output.contains("## Examination") && call.output.contains("earshotd is not running"))
    #expect(call.output.contains("\nearshot \(ServiceList.version)\n"))
  }
}
