import Air
import Common
import DBus
import Glibc
import Hosting
import Loop
import Radio
import Sharing
import TestSupport
import Testing
import Thali

@testable import PresenceRadio

/// The service on a private bus.
@LoopActor
private final class RadioOnBus {
  let bus: PrivateBus
  let server: BusConnection
  let client: BusConnection
  let node: AirRadio
  let air: AirSpace
  private let face: PresenceRadioAdaptor
  private let service: PresenceRadioService

  /// - Parameter callsPerSecond: the budget of each program, with a clock that does not advance; nil: the usual limits.
  init(callsPerSecond: Int? = nil, users: @escaping @LoopActor () -> Set<UInt32> = { [getuid()] }) async throws {
    bus = try PrivateBus()
    if let callsPerSecond {
      var limits = BusLimits()
      limits.callsPerSecond = callsPerSecond
      server = BusConnection(address: .address(bus.address), scheduler: HandClock(), limits: limits)
    } else {
      server = BusConnection(address: .address(bus.address))
    }
    server.objects.access = ServiceAccess.rule(
      own: getuid() + 1, group: nil, checked: [PresenceRadioAdaptor.interfaceName],
      charged: [PresenceRadioAdaptor.interfaceName])
    server.objects.exportManager(ManagerAdaptor.path)
    var conditions = AirConditions(latency: .zero)
    conditions.streamSetup = .milliseconds(1)
    air = AirSpace(scheduler: EventLoop.shared, seed: 1, conditions: conditions)
    node = air.addNode()
    let radio = SharedRadio(driver: node, scheduler: EventLoop.shared).tenant("PresenceRadio", share: .nothing)
    service = PresenceRadioService(radio: radio, scheduler: EventLoop.shared, settings: PresenceRadioSettings())
    service.begin()
    face = PresenceRadioAdaptor(service, on: server, tree: server.objects, manager: ManagerAdaptor.path, users: users)
    server.connect(name: "org.earshot")
    try await server.ready()
    client = try await Self.connection(bus)
  }

  static func connection(_ bus: PrivateBus) async throws -> BusConnection {
    let connection = BusConnection(address: .address(bus.address))
    connection.connect()
    try await connection.ready()
    return connection
  }

  /// Exports the object of a presence program on the client's connection. The handlers get the calls of `earshotd`.
  func exportSink(
    sighted: @escaping Method.Handler, accept: @escaping Method.Handler = { $0.reply() }
  ) -> ExportedObject {
    client.objects.export(
      PresenceRadioAdaptor.sinkPath,
      interfaces: [
        Interface(
          PresenceRadioAdaptor.sinkInterface,
          methods: [
            Method("Sighted", in: [Argument("address", "s"), Argument("generation", "y")], handler: sighted),
            Method("Accept", in: [Argument("address", "s"), Argument("link", "h")], handler: accept),
          ])
      ])
  }

  func call(_ method: String, _ arguments: DBusValue..., from connection: BusConnection? = nil) async throws(DBusError)
    -> [DBusValue]
  {
    try await (connection ?? client).call(
      "org.earshot", PresenceRadioAdaptor.path, PresenceRadioAdaptor.interfaceName, method, arguments)
  }

  func error(_ method: String, _ arguments: DBusValue..., from connection: BusConnection? = nil) async -> String {
    do throws(DBusError) {
      _ = try await (connection ?? client).call(
        "org.earshot", PresenceRadioAdaptor.path, PresenceRadioAdaptor.interfaceName, method, arguments)
      return ""
    } catch {
      return error.name
    }
  }

  func property(_ name: String) async throws -> DBusValue {
    let values = try await client.call(
      "org.earshot", PresenceRadioAdaptor.path, "org.freedesktop.DBus.Properties", "Get",
      [.string(PresenceRadioAdaptor.interfaceName), .string(name)])
    return values.first?.unwrapped ?? .string("")
  }

  func close() {
    for connection in [client, server] { connection.close() }
    bus.stop()
  }
}

@Suite("The D-Bus interface org.earshot.PresenceRadio1", .serialized)
struct PresenceRadioAdaptorTests {
  init() { EventLoop.shared.runInBackground() }

  private static let error = "org.earshot.Error."

  @Test("A user other than earshot-presence that calls PresenceRadio1 gets Denied, and changes nothing")
  @LoopActor
  func otherUser() async throws {
    let radio = try await RadioOnBus(users: { [getuid() + 1] })
    defer { radio.close() }
    for (method, arguments) in [
      ("Announce", [DBusValue.byte(1)]), ("Silence", []), ("Scan", [.bool(true)]),
      ("Connect", [.string("00:11:22:33:44:55")]),
    ] {
      do throws(DBusError) {
        _ = try await radio.client.call(
          "org.earshot", PresenceRadioAdaptor.path, PresenceRadioAdaptor.interfaceName, method, arguments)
        Issue.record("\(method) was permitted")
      } catch {
        #expect(error.name == Self.error + "Denied")
      }
    }
    #expect(try await radio.property("State") == .string("idle"))
    #expect(!radio.node.status.traits.isReachable)
  }

  @Test("Calls of PresenceRadio1 cost their callers points, except those of the program that uses the radio")
  @LoopActor
  func budgets() async throws {
    let radio = try await RadioOnBus(callsPerSecond: 10)
    defer { radio.close() }
    let stranger = try await RadioOnBus.connection(radio.bus)
    defer { stranger.close() }
    // The first call costs a point; the calls after it are free.
    for _ in 0..<60 { #expect(await radio.error("Silence") == "") }
    for _ in 0..<50 { #expect(await radio.error("Silence", from: stranger) == Self.error + "Busy") }
    #expect(await radio.error("Silence", from: stranger) == Self.error + "LimitExceeded")
    #expect(radio.server.objects.tallies.contains(Tally("ThrottledCalls", 1)))
    #expect(await radio.error("Silence") == "")
  }

  /// The users that may call.
  @LoopActor
  private final class Users {
    var numbers: Set<UInt32> = []
  }

  @Test("A user earshot-presence that is created while the service runs may call at once")
  @LoopActor
  func laterUser() async throws {
    let users = Users()
    let radio = try await RadioOnBus(users: { users.numbers })
    defer { radio.close() }
    #expect(await radio.error("Silence") == Self.error + "Denied")
    users.numbers = [getuid()]
    #expect(await radio.error("Silence") == "")
  }

  @Test("The first presence program has the radio until it leaves the bus, and a second one gets Busy")
  @LoopActor
  func oneProgram() async throws {
    let radio = try await RadioOnBus()
    defer { radio.close() }
    let first = try await RadioOnBus.connection(radio.bus)
    _ = try await radio.call("Announce", .byte(3), from: first)
    #expect(try await radio.property("State") == .string("ready"))
    #expect(try await radio.property("Announcing") == .bool(true))
    #expect(try await radio.property("Reachable") == .bool(true))
    #expect(await radio.error("Silence") == Self.error + "Busy")
    let states = Mailbox<Bool>()
    let watch = radio.client.subscribe(
      SignalMatch(sender: "org.earshot", path: PresenceRadioAdaptor.path, member: "PropertiesChanged")
    ) { message in
      if let value = message.arguments.dropFirst().first?["Announcing"]?.asBool { states.put(value) }
    }
    defer { watch.cancel() }
    first.close()
    #expect(try await states.first { !$0 } == false)
    _ = try await radio.call("Silence")
  }

  @Test("PresenceRadio1 answers bad arguments with InvalidArgs, and PeerLost if a device does not answer")
  @LoopActor
  func errors() async throws {
    let radio = try await RadioOnBus()
    defer { radio.close() }
    radio.air.conditions.connectTimeout = .milliseconds(10)
    #expect(await radio.error("Connect", .string("nobody")) == Self.error + "InvalidArgs")
    #expect(await radio.error("Connect", .string("00:11:22:33:44:55")) == Self.error + "PeerLost")
  }

  @Test("Scan results and links are sent to the presence program as calls; no property or signal has an address")
  @LoopActor
  func sink() async throws {
    let radio = try await RadioOnBus()
    defer { radio.close() }
    let scanResults = Mailbox<(String, UInt8)>()
    let links = Mailbox<(String, FileDescriptor)>()
    let object = radio.exportSink(
      sighted: { call in
        scanResults.put((call.arguments[0].asString ?? "", call.arguments[1].asByte ?? 0))
        call.reply()
      },
      accept: { call in
        if let link = call.arguments[1].asDescriptor { links.put((call.arguments[0].asString ?? "", link)) }
        call.reply()
      })
    let other = radio.air.addNode()
    let tenant = SharedRadio(driver: other, scheduler: EventLoop.shared).tenant("x", share: .nothing)
    let address = try #require(other.publicAddress)
    let peer = PresenceRadioService(radio: tenant, scheduler: EventLoop.shared, settings: PresenceRadioSettings())
    let sink = IgnoringSink()
    peer.begin()
    peer.attach(sink)
    try peer.announce(9)
    _ = try await radio.call("Scan", .bool(true))
    let (device, generation) = try await scanResults.next()
    #expect(device == address.description && generation == 9)
    _ = try await radio.call("Announce", .byte(1))
    let attempt = try other.connect(
      to: try #require(radio.node.publicAddress), on: PresenceRadioService.profile
    ) { _ in }
    let (caller, link) = try await links.next()
    #expect(caller == address.description && link.raw >= 0)
    let values = try await radio.client.call(
      "org.earshot", PresenceRadioAdaptor.path, "org.freedesktop.DBus.Properties", "GetAll",
      [.string(PresenceRadioAdaptor.interfaceName)])
    #expect(!"\(values)".contains(address.description))
    withExtendedLifetime((object, attempt, sink)) {}
  }

  @Test("A presence program gets at most 32 scan results that it has not answered")
  @LoopActor
  func unanswered() async throws {
    let radio = try await RadioOnBus()
    defer { radio.close() }
    let calls = Mailbox<MethodCall>()
    let object = radio.exportSink(sighted: { call in calls.put(call) })
    let name = try #require(radio.client.uniqueName)
    let sink = BusSink(name, radio.server)
    for count in [32, 64] {
      let reported = (UInt64(0)..<40).filter { sink.sighted(DeviceAddress($0), generation: 1) }
      #expect(reported.count == 32)
      // Scan results arrive before this call, and answers to them before its answer.
      _ = try await radio.server.call(name, "/", "org.freedesktop.DBus.Peer", "Ping")
      #expect(calls.all.count == count)
      for call in calls.all where !call.isAnswered { call.reply() }
      _ = try await radio.server.call(name, "/", "org.freedesktop.DBus.Peer", "Ping")
    }
    withExtendedLifetime(object) {}
  }
}

@LoopActor
private final class IgnoringSink: PresenceSink {
  func sighted(_ device: DeviceAddress, generation: UInt8) -> Bool { true }
  func accept(_ device: DeviceAddress, descriptor: Int32) { Glibc.close(descriptor) }
}
