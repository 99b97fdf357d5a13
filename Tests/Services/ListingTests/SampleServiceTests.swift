import Air
import CommandLine
import Common
import DBus
import Hosting
import Journal
import Listing
import Loop
import Sharing
import TestSupport
import Testing
import ToolList

@testable import Config
@testable import Tool

/// A service is added to the list alone; configuration, tool and D-Bus objects are derived from the list.
@Suite("A sample service added to the list of services", .serialized)
struct SampleServiceTests {
  init() { EventLoop.shared.runInBackground() }

  private static let list = ServiceList(
    ServiceList.all.services + [ListedService(SampleService.self, tool: SampleTool.part)])

  @Test("The section of an added service is in the default configuration file and is read")
  func settings() {
    let file = Self.list.configuration.defaultFile
    #expect(file.hasPrefix(ServiceList.all.configuration.defaultFile))
    #expect(
      file.hasSuffix("\n[Sample]\n\n# What is called out.\n# Takes a text of at most 20 bytes.\n#Greeting=hello\n"))
    var configuration = Self.list.configuration
    let text = "[Sample]\nGreeting=ahoy\n[Verifier]\nName=Kiosk\n"
    #expect(configuration.apply(INI(Array(text.utf8), file: "f")) == [])
    #expect(configuration[SampleService.Settings.self].greeting == "ahoy")
    // Without the service in the list, the same file is reported as wrong.
    var other = ServiceList.all.configuration
    #expect(other.apply(INI(Array(text.utf8), file: "f")).map(\.line) == [1])
  }

  @Test("The message IDs of an added service are in the journal catalog")
  func messages() {
    let catalog = MessageCatalog.text(Self.list.messages)
    #expect(catalog.hasPrefix(MessageCatalog.text(ServiceList.all.messages)))
    #expect(
      catalog.hasSuffix(
        """

        -- 0123456789abcdef0123456789abcdef
        Subject: It waved
        Defined-By: earshotd

        A program asked it to.

        """))
  }

  @Test("Objects and interfaces of an added service are documented and installed once each")
  @LoopActor
  func interfaces() {
    let time = VirtualTime()
    let radio = AirSpace(scheduler: time, seed: 0).addNode().tenant(time)
    #expect(Self.list.objects(radio: radio, scheduler: time).last?.path == "/org/earshot/sample")
    let names = Self.list.interfaces(radio: radio, scheduler: time).map(\.name)
    let others = ServiceList.all.interfaces(radio: radio, scheduler: time).map(\.name)
    #expect(names == others + ["org.earshot.Sample1"])
    #expect(Set(names).count == names.count && others.first == ManagerAdaptor.interfaceName)
  }

  @Test("The commands of an added service are parsed, and are in help and completion")
  func commands() throws {
    let tool = ToolProgram(Self.list.toolParts, version: "1.2")
    let help = try tool.grammar.parse(["--help"]).help
    #expect(help.contains("\n  sample                 Wave.\n"))
    #expect(try tool.grammar.parse(["sample", "--help"]).help.contains("\n  wave"))
    #expect(try tool.grammar.parse(["sample", "wave", "--twice"]).flag("twice"))
    #expect(tool.grammar.completion(for: .bash).contains("sample"))
    let other = ToolProgram(ToolList.parts, version: "1.2")
    #expect(try !other.grammar.parse(["--help"]).help.contains("sample"))
    // The general commands surround those of the services.
    let names = tool.grammar.commands.map(\.name)
    #expect(names.first == "status" && names.suffix(4) == ["sample", "monitor", "explain", "completion"])
  }

  @Test("Each command of an added service has an action at its path in the grammar")
  func commandsHaveBodies() {
    func check(_ command: Command, _ path: [String], _ verb: Verb) {
      let here = path + [command.name]
      #expect((verb.action(at: here) == nil) == !command.commands.isEmpty, "\(here)")
      for below in command.commands { check(below, here, verb) }
    }
    for verb in Self.list.toolParts.flatMap(\.verbs) { check(verb.grammar, [], verb) }
  }

  @Test("The status of an added service is shown after those of the program and of earlier services")
  @LoopActor
  func status() {
    let objects: ToolPart.Objects = [
      "/org/earshot": [
        "org.earshot.Manager1": [
          "Version": .string("1"), "RadioState": .string("ready"),
          "AdvertisingSlots": .structure([.uint32(3), .uint32(3)]),
          "RadioLimits": .strings(["Phones are asked to pair."]),
          "AdvertisingServices": .strings(["verifier", "mesh", "verifier"]),
          "Waiting": .strings(["sample"]),
        ]
      ],
      "/org/earshot/verifier": ["org.earshot.Verifier1": ["State": .string("stopped"), "Name": .string("N")]],
      "/org/earshot/wallet/transfer3": [
        "org.earshot.Credential1": ["State": .string("failed"), "ErrorCode": .string("TVW_UNK_001")]
      ],
      "/org/earshot/sample": ["org.earshot.Sample1": ["Mood": .string("sunny")]],
    ]
    let text = StatusCommand.text(objects, Self.list.toolParts)
    #expect(
      text.split(separator: "\n", omittingEmptySubsequences: false) == [
        "earshotd 1  ", "  radio     ready  ", "            - Phones are asked to pair.",
        "            3 of 3 advertising slots used: mesh, verifier (2); waiting for one: sample",
        "  verifier  stopped  as N, dialects ",
        "            Start it with: earshot verifier start", "",
        "TRANSFER          STATE   TIME  EXPIRES  FETCHED  SIZE  ERROR        PEER",
        "wallet/transfer3  failed                                TVW_UNK_001",
        "  sample    sunny", "",
      ])
    #expect(StatusCommand.text([:], Self.list.toolParts) == "")
  }

  @Test("An added service works with the others in D-Bus, tool, reload, status and shutdown")
  @LoopActor
  func life() async throws {
    let bus = try PrivateBus()
    defer { bus.stop() }
    let connection = BusConnection(address: .address(bus.address))
    defer { connection.close() }
    let air = AirSpace(scheduler: EventLoop.shared, seed: 1)
    var radios: [String: Tenant] = [:]
    var changes = 0
    let group = ServiceGroup(Self.list.kinds, scheduler: EventLoop.shared) { kind in
      let radio = air.addNode().tenant(EventLoop.shared)
      radios[kind.name] = radio
      return ServiceContext(
        configuration: Self.list.configuration, radio: radio, scheduler: EventLoop.shared,
        makeWorker: { EventLoop.shared }, statusChanged: { changes += 1 })
    }
    let sample = try #require(SampleService.latest)
    #expect(sample.radio === radios["Sample"] && radios.count == 6)
    let manager = ManagerAdaptor(air.addNode().tenant(EventLoop.shared), services: group.names, on: connection.objects)
    group.export(on: connection.objects, manager: ManagerAdaptor.path)
    group.begin()
    connection.connect(name: "org.earshot")
    try await connection.ready()

    let tool = ToolProgram(Self.list.toolParts, version: "1.2")
    #expect(await tool.run(["sample", "wave", "--twice", "--bus", bus.address]) == .ok)
    #expect(sample.waves == 2 && changes >= 2)
    #expect(group.statusLine.hasPrefix("The verifier is stopped. ") && group.statusLine.hasSuffix(" It waved 2 times."))

    var configuration = Self.list.configuration
    configuration[SampleService.Settings.self].greeting = "ahoy"
    group.apply(configuration)
    let client = BusConnection(address: .address(bus.address))
    defer { client.close() }
    client.connect()
    try await client.ready()
    #expect(
      try await client.call("org.earshot", SampleService.path, SampleService.interfaceName, "Wave") == [
        .string("ahoy")
      ])
    let names = try await client.call(
      "org.earshot", ManagerAdaptor.path, "org.freedesktop.DBus.Properties", "Get",
      [.string(ManagerAdaptor.interfaceName), .string("Services")])
    #expect(names.first?.unwrapped.asStrings == ["Verifier", "Wallet", "PresenceRadio", "Sample"])
    let objects = try await client.call(
      "org.earshot", ManagerAdaptor.path, "org.freedesktop.DBus.ObjectManager", "GetManagedObjects")
    #expect(objects.first?.asDictionary?.keys.contains("/org/earshot/sample") == true)

    await withCheckedContinuation { (continuation: CheckedContinuation<Void, Never>) in
      group.stop(within: .seconds(2)) { continuation.resume() }
    }
    #expect(sample.lines == ["begin", "apply", "stop", "rest"])
    _ = manager
  }
}
