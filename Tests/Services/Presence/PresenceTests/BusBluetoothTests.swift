import Air
import DBus
import Glibc
import Loop
import TestSupport
import Testing
import Thali

@testable import Presence

/// An `earshotd` that records the calls of its `org.earshot.PresenceRadio1`.
@LoopActor
private final class RecordingRadio {
  let connection: BusConnection
  let calls = Mailbox<String>()
  /// The error with which the simulated `earshotd` answers all calls; nil for success.
  var refusal: DBusError?
  private(set) var caller = ""
  private var object: ExportedObject?
  private var ends: [Int32] = []

  init(_ bus: PrivateBus) async throws {
    connection = BusConnection(address: .address(bus.address))
    object = connection.objects.export(BusBluetooth.radioPath, interfaces: [interface])
    connection.connect(name: "org.earshot")
    try await connection.ready()
  }

  private var interface: Interface {
    func method(_ name: String, _ type: String?) -> DBus.Method {
      DBus.Method(
        name, in: type.map { [Argument("value", $0)] } ?? [],
        handler: { [weak self] call in
          guard let self else { return call.fail(.failed("Gone.")) }
          caller = call.sender
          if let refusal { call.fail(refusal) } else { call.reply() }
          calls.put(([name] + call.arguments.map { "\($0)" }).joined(separator: " "))
        })
    }
    return Interface(
      BusBluetooth.radioInterface, audience: .everybody,
      methods: [
        method("Announce", "y"), method("Silence", nil), method("Scan", "b"),
        DBus.Method(
          "Connect", in: [Argument("address", "s")], out: [Argument("link", "h")],
          handler: { [weak self] call in
            self?.calls.put("Connect \(call.arguments[0].asString ?? "")")
            let ends = NeighbourRadio.pair()
            self?.ends.append(ends.0)
            call.reply(.descriptor(FileDescriptor(owning: ends.1)))
          }),
      ],
      properties: [
        Property("Reachable", "b", audience: .everybody, get: { .bool(true) }),
        Property("Reason", "s", audience: .everybody, get: { .string("The adapter is off.") }),
      ])
  }

  func tell(_ method: String, _ arguments: DBusValue...) async -> String {
    do throws(DBusError) {
      _ = try await connection.call(caller, BusBluetooth.sinkPath, BusBluetooth.sinkInterface, method, arguments)
      return ""
    } catch {
      return error.name
    }
  }

  func close() {
    connection.close()
    for end in ends { Glibc.close(end) }
  }
}

@Suite("Bluetooth of private presence through earshotd", .serialized)
struct BusBluetoothTests {
  init() { EventLoop.shared.runInBackground() }

  @LoopActor
  private static func connection(_ bus: PrivateBus) async throws -> BusConnection {
    let connection = BusConnection(address: .address(bus.address))
    connection.connect()
    try await connection.ready()
    return connection
  }

  /// The Bluetooth of a service, and its events.
  @LoopActor
  private final class Setup {
    let bus: PrivateBus
    let connection: BusConnection
    let bluetooth: BusBluetooth
    let events = Mailbox<String>()
    let changes = Mailbox<Bool>()

    init(_ scheduler: any Scheduler = EventLoop.shared) async throws {
      bus = try PrivateBus()
      connection = try await BusBluetoothTests.connection(bus)
      bluetooth = BusBluetooth("org.earshot", on: connection, scheduler: scheduler)
      bluetooth.onEvent = { [weak self] event in
        guard let self else { return }
        switch event {
        case .sighted(let device, let generation): events.put("sighted \(device.text) \(generation)")
        case .link(let device, let descriptor):
          Glibc.close(descriptor)
          events.put("link \(device.text)")
        case .changed: changes.put(bluetooth.isUsable && bluetooth.isReachable)
        }
      }
      bluetooth.start()
    }

    func close() {
      bluetooth.stop()
      connection.close()
      bus.stop()
    }
  }

  @Test("Without earshotd the presence reason names it, and all requests are repeated when it returns")
  @LoopActor
  func returning() async throws {
    let setup = try await Setup()
    defer { setup.close() }
    #expect(setup.bluetooth.reason.contains("earshotd does not run") && !setup.bluetooth.isUsable)
    setup.bluetooth.advertise(generation: 7)
    for _ in 0..<2 {
      let radio = try await RecordingRadio(setup.bus)
      #expect(try await radio.calls.next().hasPrefix("Scan"))
      #expect(try await radio.calls.next().hasPrefix("Announce"))
      _ = try await setup.changes.first { $0 }
      #expect(setup.bluetooth.reason == "The adapter is off.")
      radio.close()
      _ = try await setup.changes.first { !$0 }
    }
  }

  @Test("Scan results and links from earshotd are accepted, and those from other programs are refused")
  @LoopActor
  func sink() async throws {
    let setup = try await Setup()
    defer { setup.close() }
    let radio = try await RecordingRadio(setup.bus)
    defer { radio.close() }
    _ = try await radio.calls.next()
    #expect(await radio.tell("Sighted", .string("00:11:22:33:44:55"), .byte(9)) == "")
    #expect(try await setup.events.next() == "sighted 00:11:22:33:44:55 9")
    let ends = NeighbourRadio.pair()
    let link = FileDescriptor(owning: ends.1)
    #expect(await radio.tell("Accept", .string("00:11:22:33:44:55"), .descriptor(link)) == "")
    #expect(try await setup.events.next() == "link 00:11:22:33:44:55")
    Glibc.close(ends.0)
    #expect(await radio.tell("Sighted", .string("anna"), .byte(9)) == "org.earshot.Error.InvalidArgs")
    let other = try await Self.connection(setup.bus)
    defer { other.close() }
    do throws(DBusError) {
      _ = try await other.call(
        radio.caller, BusBluetooth.sinkPath, BusBluetooth.sinkInterface, "Sighted",
        [.string("00:11:22:33:44:55"), .byte(9)])
      Issue.record("the call was accepted")
    } catch {
      #expect(error.name == "org.earshot.Error.Denied")
    }
    #expect(setup.events.all.count == 2)
  }

  @Test("earshotd opens presence links, and its refusal is shown as the reason why Bluetooth is not used")
  @LoopActor
  func connecting() async throws {
    let setup = try await Setup()
    defer { setup.close() }
    let radio = try await RecordingRadio(setup.bus)
    defer { radio.close() }
    _ = try await radio.calls.next()
    let links = Mailbox<Int32?>()
    setup.bluetooth.connect(to: DeviceAddress(0x0011_2233_4455)) { links.put($0) }
    let link = try #require(try await links.next())
    #expect(try await radio.calls.next() == "Connect 00:11:22:33:44:55")
    Glibc.close(link)
    _ = try await setup.changes.first { $0 }
    radio.refusal = .busy("Another program uses the radio.")
    setup.bluetooth.scan(false)
    _ = try await setup.changes.first { !$0 }
    #expect(setup.bluetooth.reason == "Bluetooth is not used: Another program uses the radio.")
  }

  @Test("A Silence that earshotd refuses is repeated after 5 s, and a confirmed one is not")
  @LoopActor
  func silence() async throws {
    let time = VirtualTime()
    let setup = try await Setup(time)
    defer { setup.close() }
    let radio = try await RecordingRadio(setup.bus)
    defer { radio.close() }
    _ = try await setup.changes.first { $0 }
    radio.refusal = .failed("The radio does not answer.")
    setup.bluetooth.silence()
    _ = try await setup.changes.first { !$0 }
    radio.calls.forget()
    radio.refusal = nil
    time.advance(by: .seconds(5))
    _ = try await radio.calls.first { $0 == "Silence" }
    _ = try await setup.changes.first { $0 }
    radio.refusal = .failed("The radio does not answer.")
    setup.bluetooth.scan(true)
    _ = try await setup.changes.first { !$0 }
    radio.calls.forget()
    time.advance(by: .seconds(5))
    _ = try await radio.calls.first { $0.hasPrefix("Scan") }
    // The answer to this call arrives after all earlier calls were handled, because the bus keeps the order.
    _ = try await setup.connection.call(radio.connection.uniqueName ?? "", "/", "org.freedesktop.DBus.Peer", "Ping")
    #expect(radio.calls.all.filter { $0 == "Silence" }.count == 2)
  }

  @Test("A device address is accepted only as six pairs of hex digits with colons between them")
  func addresses() {
    #expect(DeviceAddress(text: "00:11:22:33:44:ff") == DeviceAddress(0x0011_2233_44FF))
    for text in [
      "", "00:11:22:33:44", "00:11:22:33:44:55:66", "00:11:22:33:44:5", "00:11:22:33:44:+5", "00:11:22:33:44:-0",
      "a:b:c:d:e:f",
    ] {
      #expect(DeviceAddress(text: text) == nil)
    }
    #expect(DeviceAddress(0x0011_2233_44FF).text == "00:11:22:33:44:FF")
  }
}
