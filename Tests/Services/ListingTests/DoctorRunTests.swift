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

  @Test("While earshot-nostrd runs, doctor examines its proxy and its relays")
  @LoopActor
  func uplink() async throws {
    let bus = try PrivateBus()
    defer { bus.stop() }
    let daemon = BusConnection(address: .address(bus.address))
    defer { daemon.close() }
    let relay: DBusValue = .structure(
      ["ws://a.example", "messages", "refused", "It has no TLS."].map { DBusValue.string($0) })
    let values: [(String, String, DBusValue)] = [
      ("State", "s", .string("waitingForProxy")), ("Reason", "s", .string("Nothing is sent since 10:00.")),
      ("Relays", "a(ssss)", .array(of: "(ssss)", [relay])),
    ]
    let properties = values.map { name, type, value in
      Property(name, type, documentation: "A value.", audience: .everybody, get: { value })
    }
    let interface = Interface(
      "org.earshot.Uplink1", documentation: "The uplink.", audience: .everybody, properties: properties)
    let object = daemon.objects.export("/org/earshot/uplink", interfaces: [interface])
    defer { object.cancel() }
    daemon.connect(name: "org.earshot.Nostr")
    try await daemon.ready()
    let call = await ToolCall.run(try Self.part(), ["doctor", "--bus", bus.address])
    #expect(call.output.contains("proxy") && call.output.contains("Nothing is sent since 10:00."))
    #expect(call.output.contains("It has no TLS."))
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
