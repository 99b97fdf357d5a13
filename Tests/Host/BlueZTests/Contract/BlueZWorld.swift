import BlueZ
import Common
import DBus
import Loop
import Network
import Radio
import TestSupport

/// The BlueZ driver in front of a stand-in for bluetoothd on a private bus.
@LoopActor
final class BlueZWorld: ContractWorld {
  struct NoProfile: Error {}

  let recorder = ContractRecorder()
  private let rig: Rig
  private let peer = FakePeer(
    services: [
      FakePeer.Service(
        Contract.service.description,
        [
          FakePeer.Characteristic(Contract.put.characteristic.description, ["write", "write-without-response"]),
          FakePeer.Characteristic(Contract.hear.characteristic.description, ["notify"]),
        ])
    ])
  /// The peer as a client of the driver.
  private var client: ObjectPath?
  var peerRefusal: ATTError?

  init(_ version: BlueZVersion) async throws {
    rig = try await Rig.ready(version: version)
    let fake = rig.fake
    fake.add(peer)
    fake.onNotified = { [weak fake] _ in fake?.tell("notified") }
    recorder.onEvent = { [fake] in fake.tell("event of the driver") }
    peer.onWrite = { [weak self, weak fake] _, answer in
      answer(
        self?.peerRefusal.map {
          DBusError(
            name: "org.bluez.Error.Failed",
            message: "Operation failed with ATT error: 0x\(String($0.rawValue, radix: 16))")
        })
      fake?.tell("write to the peer")
    }
    rig.driver.delegate = recorder
  }

  var driver: any RadioDriver { rig.driver }
  var peerAddress: BluetoothAddress { BluetoothAddress(peer.address) ?? BluetoothAddress(0) }

  func until(_ condition: @escaping @LoopActor () -> Bool) async throws { try await rig.fake.until(condition) }
  func settle() async throws { try await rig.settle() }
  func close() { rig.close() }

  func peerAdvertises() async throws {
    try await until { [rig] in rig.fake.isDiscovering() }
    rig.fake.hear(peer, uuids: [Contract.service.description])
  }

  var peerReceived: [[UInt8]] { peer.writes.all.map(\.value) }
  func peerNotifies(_ value: [UInt8]) {
    rig.fake.notify(value, of: Contract.hear.characteristic.description, from: peer)
  }

  func servicesOnAir() async throws -> Set<BluetoothUUID> {
    try await settle()
    let uuids = rig.fake.advertisements.filter(\.isOnAir).flatMap { $0.values["ServiceUUIDs"]?.asStrings ?? [] }
    return Set(uuids.compactMap { BluetoothUUID($0) })
  }

  func peerConnects() async throws { client = rig.fake.addDevice(peer.address) }

  func peerWrites(_ value: [UInt8]) async throws -> Bool {
    await rig.fake.write(value, to: Contract.put.characteristic.description, from: client) == nil
  }

  func peerSubscribes() async throws {
    try await rig.fake.subscribe(Contract.hear.characteristic.description, by: client)
  }

  var peerNotified: [[UInt8]] { rig.fake.notified.all.map(\.value) }

  func losePeer() {
    if let client {
      rig.fake.setConnected(client, false)
    } else {
      rig.fake.lose(peer)
    }
  }

  func setPower(_ isOn: Bool) { rig.fake.power("hci0", isOn) }

  func peerOpensStream() async throws -> any ContractStream {
    try await until { [rig] in !rig.fake.profiles.isEmpty }
    guard let profile = rig.fake.profiles.first else { throw NoProfile() }
    let device = client ?? rig.fake.addDevice(peer.address)
    client = device
    return End(try await rig.fake.connect(device, to: profile)) { [rig] in rig.fake.tell("stream of the peer") }
  }

  @LoopActor
  private final class End: ContractStream {
    private let stream: SocketStream
    private(set) var received: [UInt8] = []
    private(set) var isOver = false

    init(_ descriptor: Int32, onEvent: @escaping @LoopActor () -> Void) {
      stream = SocketStream(owning: descriptor)
      stream.start { [weak self] event in
        switch event {
        case .received(let bytes): self?.received += bytes
        case .ended, .hungUp, .closed: self?.isOver = true
        case .connected, .writable: break
        }
        onEvent()
      }
    }

    func send(_ bytes: [UInt8]) { stream.send(bytes[...]) }
    func close() { stream.close() }
  }
}
