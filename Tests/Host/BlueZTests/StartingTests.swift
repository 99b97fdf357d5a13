import DBus
import Foundation
import Loop
import TestSupport
import Testing

@testable import BlueZ

@Suite("Start of a bluetoothd that has exited")
struct StartingTests {
  init() { EventLoop.shared.runInBackground() }

  @Test("A start of bluetoothd is requested after 5 s, then at growing intervals up to 300 s, until it runs")
  @LoopActor
  func backoff() {
    let clock = HandClock()
    var asked = 0
    let starter = DaemonStarter(clock) { _ in asked += 1 }
    starter.begin()
    for (count, wait) in [5, 10, 20, 40, 80, 160, 300, 300].enumerated() {
      clock.advance(by: .seconds(wait) - .milliseconds(1))
      starter.begin()
      #expect(asked == count)
      clock.advance(by: .milliseconds(1))
      #expect(asked == count + 1)
    }
    starter.end()
    clock.advance(by: .seconds(3600))
    #expect(asked == 8)
    // If the started program exits without answering, the start does not count as successful.
    starter.begin()
    clock.advance(by: .seconds(299))
    #expect(asked == 8)
    starter.end()
    starter.succeeded()
    starter.begin()
    clock.advance(by: .seconds(5))
    #expect(asked == 9)
  }

  @Test("The bus starts a bluetoothd that has exited, unless the configuration forbids it")
  @LoopActor
  func activation() async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    let starts = try await Starts(rig.bus)
    defer { starts.close() }
    rig.fake.vanish()
    try await rig.reach(.waiting, "systemctl start bluetooth")
    rig.time.advance(by: .seconds(5))
    try await starts.next()

    let counters = BlueZCounters()
    let (patience, time) = (HandClock(), HandClock())
    let patient = BluetoothDaemon(rig.connection, scheduler: patience, counters: counters, starts: false)
    let other = BluetoothDaemon(rig.connection, scheduler: time, counters: counters, starts: true)
    for daemon in [patient, other] { daemon.start() }
    try await rig.settle()
    #expect(patient.presence == .absent && other.presence == .absent)
    #expect(patience.isIdle && !time.isIdle)
  }

  @Test(
    "Many devices with random addresses do not exclude later peers or evict connected or paired ones")
  @LoopActor
  func manyAddresses() async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    let daemon = BluetoothDaemon(
      rig.connection, scheduler: HandClock(), counters: BlueZCounters(), starts: false, deviceLimit: 8)
    daemon.start()
    while daemon.presence != .present { try await rig.settle() }
    let guests =
      (1...3).map { rig.fake.addDevice("00:AA:02:00:00:0\($0)") }
      + [rig.fake.addDevice("00:AA:02:00:00:04", isConnected: false, isPaired: true)]
    for number in 10..<90 { rig.fake.addDevice("C0:00:00:00:00:\(number)", isConnected: false) }
    let last = rig.fake.addDevice("C0:00:00:00:00:90", isConnected: false)
    try await rig.settle()
    #expect(daemon.devices.count == 8 && daemon.devices[last] != nil && guests.allSatisfy { daemon.devices[$0] != nil })
  }
}

/// Records the starts of org.bluez by the bus: the started program reports on the bus, and exits.
@LoopActor
private final class Starts {
  private let folder: URL
  private let listener: BusConnection
  private let heard = Mailbox<Void>()
  private var subscription: Registration?

  init(_ bus: PrivateBus) async throws {
    folder = FileManager.default.temporaryDirectory.appendingPathComponent("services-\(UUID().uuidString.prefix(8))")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    let service = """
      [D-BUS Service]
      Name=org.bluez
      Exec=/usr/bin/dbus-send --bus=\(bus.address) --type=signal / org.example.Test1.Started
      """
    try service.write(to: folder.appendingPathComponent("org.bluez.service"), atomically: true, encoding: .utf8)
    try bus.configure("<servicedir>\(folder.path)</servicedir>")
    listener = BusConnection(address: .address(bus.address))
    listener.connect()
    try await listener.ready()
    subscription = listener.subscribe(SignalMatch(interface: "org.example.Test1")) { [heard] _ in heard.put(()) }
    _ = try await listener.call(
      "org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus", "ReloadConfig")
  }

  func close() {
    listener.close()
    try? FileManager.default.removeItem(at: folder)
  }

  /// Waits for a start.
  func next() async throws { _ = try await heard.next() }
}
