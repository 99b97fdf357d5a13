import BlueZ
import Common
import DBus
import Glibc
import HCI
import Loop
import Network
import Radio
import TestSupport
import Testing

/// An RFCOMM profile with two UUIDs.
private let profile = StreamProfile(
  name: "Test profile",
  services: [
    BluetoothUUID(high: 0x0BBF_C6EF_14CC_4AB2, low: 0xAF63_B92E_8872_27AE), BluetoothUUID(short: 0x1102),
  ])

/// One end of an RFCOMM connection, of the peer or of the service, with the received bytes.
@LoopActor
private final class Ends {
  let streams = Mailbox<String>()
  let received = Mailbox<[UInt8]>()
  let reasons = Mailbox<String>()
  private(set) var last: (any RadioStream)?

  func accept(_ stream: any RadioStream) {
    last = stream
    stream.start { [weak self] event in
      switch event {
      case .received(let bytes): self?.received.put(bytes)
      case .closed(let reason): self?.reasons.put(reason)
      case .writable: break
      }
    }
    streams.put(stream.address.description)
  }
}

@Suite("RFCOMM profiles registered with bluetoothd", .serialized)
struct ProfileTests {
  init() { EventLoop.shared.runInBackground() }

  /// Serves the profile, and waits until bluetoothd has it.
  @LoopActor
  private func accepting(_ rig: Rig) async throws -> (ends: Ends, listening: Registration) {
    let ends = Ends()
    let listening = try rig.driver.listen(on: profile) { ends.accept($0) }
    try await rig.fake.until { rig.fake.profiles.count == 1 }
    return (ends, listening)
  }

  @Test("A profile is registered with its first UUID, as a server without authentication on a free RFCOMM channel")
  @LoopActor
  func registering() async throws {
    let rig = try await Rig.managed()
    defer { rig.close() }
    let listening = try rig.driver.listen(on: profile) { _ in }
    try await rig.fake.until { rig.fake.profiles.count == 1 }
    let registered = rig.fake.profiles[0]
    #expect(registered.uuid == "0bbfc6ef-14cc-4ab2-af63-b92e887227ae")
    #expect(registered.options["Name"]?.asString == "Test profile" && registered.options["Role"]?.asString == "server")
    #expect(registered.options["Channel"]?.asUInt16 == 0)
    for name in ["RequireAuthentication", "RequireAuthorization", "AutoConnect"] {
      #expect(registered.options[name]?.asBool == false)
    }
    #expect(throws: RadioError.refused("The profile is registered already.")) {
      _ = try rig.driver.listen(on: profile) { _ in }
    }
    listening.cancel()
    try await rig.fake.until { rig.fake.profiles.isEmpty }
  }

  @Test("An RFCOMM profile is registered again after a restart of bluetoothd")
  @LoopActor
  func restart() async throws {
    let rig = try await Rig.managed()
    defer { rig.close() }
    let listening = try rig.driver.listen(on: profile) { _ in }
    try await rig.fake.until { rig.fake.profiles.count == 1 }
    rig.fake.vanish()
    try await rig.reach(.waiting)
    #expect(!rig.driver.status.traits.isReachable && rig.driver.publicAddress == nil)
    try await rig.fake.start()
    try await rig.fake.until { rig.fake.profiles.count == 1 }
    withExtendedLifetime(listening) {}
  }

  @Test("A peer's RFCOMM connection becomes a stream, which carries bytes both ways and ends with the connection")
  @LoopActor
  func connection() async throws {
    let rig = try await Rig.managed()
    defer { rig.close() }
    let (ends, listening) = try await accepting(rig)
    let device = rig.fake.addDevice("00:AA:02:00:00:07")
    let peer = SocketStream(owning: try await rig.fake.connect(device, to: rig.fake.profiles[0]))
    let answers = Mailbox<[UInt8]>()
    peer.start { if case .received(let bytes) = $0 { answers.put(bytes) } }
    #expect(try await ends.streams.next() == "00:AA:02:00:00:07")
    peer.send([1, 2, 3])
    #expect(try await ends.received.next() == [1, 2, 3])
    #expect(ends.last?.send([4, 5]) == 2)
    #expect(try await answers.next() == [4, 5])
    peer.close()
    #expect(try await ends.reasons.next() == "The peer closed the stream.")
    withExtendedLifetime(listening) {}
  }

  @Test(
    "An RFCOMM stream ends when bluetoothd requests its disconnection, or when its adapter is removed",
    arguments: [true, false])
  @LoopActor
  func ending(byRequest: Bool) async throws {
    let rig = try await Rig.managed()
    defer { rig.close() }
    let (ends, listening) = try await accepting(rig)
    let device = rig.fake.addDevice()
    let peer = try await rig.fake.connect(device, to: rig.fake.profiles[0])
    _ = try await ends.streams.next()
    if byRequest {
      try await rig.fake.disconnect(device, from: rig.fake.profiles[0])
    } else {
      rig.fake.removeAdapter()
    }
    _ = try await ends.reasons.next()
    var byte: UInt8 = 0
    #expect(read(peer, &byte, 1) == 0)
    close(peer)
    withExtendedLifetime(listening) {}
  }

  @Test("An RFCOMM connection on another adapter, or from a caller other than bluetoothd, is refused and counted")
  @LoopActor
  func refusing() async throws {
    let rig = try await Rig.managed()
    defer { rig.close() }
    let (ends, listening) = try await accepting(rig)
    let registered = rig.fake.profiles[0]
    for path in ["/org/bluez/hci9/dev_00_AA_02_00_00_01", "/org/bluez/hci0/keyboard"] as [ObjectPath] {
      await #expect(throws: DBusError.self) { _ = try await rig.fake.connect(path, to: registered) }
    }
    #expect(rig.driver.counters.malformed == 2)
    let other = BusConnection(address: .address(rig.bus.address))
    other.connect()
    try await other.ready()
    defer { other.close() }
    await #expect(throws: DBusError.self) {
      _ = try await other.call(registered.owner, registered.path, "org.bluez.Profile1", "Release")
    }
    #expect(rig.driver.counters.strangers == 1 && ends.streams.all.isEmpty)
    withExtendedLifetime(listening) {}
  }

  @Test("A link that carries an RFCOMM stream is not cut as an unused link of the peer")
  @LoopActor
  func origin() async throws {
    let rig = try await Rig.managed()
    defer { rig.close() }
    let (ends, listening) = try await accepting(rig)
    let device = rig.fake.addDevice()
    let peer = try await rig.fake.connect(device, to: rig.fake.profiles[0])
    _ = try await ends.streams.next()
    for link in rig.radio.links { #expect(rig.driver.origin(of: link) == .unknown) }
    close(peer)
    withExtendedLifetime(listening) {}
  }

  @Test("The adapter is connectable only while an RFCOMM profile is served, and the radio stays ready")
  @LoopActor
  func connectable() async throws {
    let rig = try await Rig.managed()
    defer { rig.close() }
    #expect(rig.kernel.settings[0]?.contains(.connectable) != true && !rig.driver.status.traits.isReachable)
    rig.driver.advertise(
      Advertisement(.nonConnectable(AdvertisingSetID(1)), data: AdvertisingData(localName: "~1x")), in: 0)
    let listening = try rig.driver.listen(on: profile) { _ in }
    try await rig.kernel.until { rig.kernel.settings[0]?.contains(.connectable) == true }
    try await rig.fake.until { rig.fake.profiles.count == 1 }
    try await rig.settle()
    #expect(rig.driver.status.traits.isReachable)
    #expect(rig.driver.status.state == .ready && rig.driver.status.traits.acceptingShortfall == nil)
    #expect(rig.driver.status.limits.contains { $0.contains("the adapter's own address") })
    #expect(rig.driver.publicAddress?.description == "00:AA:01:00:00:00")
    listening.cancel()
    try await rig.kernel.until { rig.kernel.settings[0]?.contains(.connectable) == false }
    #expect(!rig.driver.status.traits.isReachable)
  }

  @Test("An adapter that another program made connectable stays connectable when the RFCOMM profile ends")
  @LoopActor
  func connectableBefore() async throws {
    let kernel = FakeKernel()
    kernel.set([.powered, .lowEnergy, .connectable])
    let rig = try await Rig.managed(kernel: kernel)
    defer { rig.close() }
    let listening = try rig.driver.listen(on: profile) { _ in }
    try await rig.fake.until { rig.fake.profiles.count == 1 }
    try await rig.settle()
    listening.cancel()
    try await rig.fake.until { rig.fake.profiles.isEmpty }
    try await rig.settle()
    #expect(rig.kernel.settings[0]?.contains(.connectable) == true)
    #expect(!rig.kernel.commands.all.contains("0x7 0"))
  }

  @Test("Without the management socket, the reason why an RFCOMM profile is not served names what is missing")
  @LoopActor
  func shortfalls() async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    let listening = try rig.driver.listen(on: profile) { _ in }
    let traits = rig.driver.status.traits
    #expect(traits.acceptingShortfall?.contains("connectable") == true && !traits.isReachable)
    withExtendedLifetime(listening) {}
  }

  @Test("An RFCOMM profile that another program has is the status reason, and is registered when that program ends")
  @LoopActor
  func taken() async throws {
    let rig = try await Rig.managed()
    defer { rig.close() }
    rig.fake.refusals = [DBusError(name: "org.bluez.Error.NotPermitted", message: "UUID already registered")]
    let listening = try rig.driver.listen(on: profile) { _ in }
    try await rig.fake.until { rig.fake.refusals.isEmpty }
    try await rig.settle()
    #expect(rig.driver.status.traits.acceptingShortfall?.contains("Another program has registered the profile") == true)
    rig.time.advance(by: .seconds(60))
    try await rig.fake.until { rig.fake.profiles.count == 1 }
    withExtendedLifetime(listening) {}
  }
}
