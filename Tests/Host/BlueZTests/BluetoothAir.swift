import Common
import DBus
import Loop
import Radio
import TestSupport

/// The radio channel between two adapters of a `FakeBlueZ`: advertisements and services of the one appear as a peer
/// of the other.
@LoopActor
final class BluetoothAir {
  let peer: FakePeer
  private let fake: FakeBlueZ
  private let client: String
  private var link: ObjectPath?

  /// - Parameters:
  ///   - server: the adapter of the peripheral.
  ///   - client: the adapter of the central.
  init(_ fake: FakeBlueZ, from server: String = "hci0", to client: String = "hci1") {
    self.fake = fake
    self.client = fake.adapters[client]?.address ?? ""
    peer = FakePeer(fake.adapters[server]?.address ?? "", on: client)
    fake.add(peer)
    peer.onConnect = { [weak self] in
      guard let self else { return }
      link = fake.addDevice(self.client, on: server)
    }
    peer.onDisconnect = { [weak self] in
      guard let link = self?.link else { return }
      self?.link = nil
      fake.setConnected(link, false)
    }
    peer.onSubscribe = { [weak self] uuid, answer in fake.subscribe(uuid, by: self?.link) { _ in answer() } }
    peer.onWrite = { [weak self] write, answer in
      fake.write(write.value, to: write.uuid, from: self?.link) { error in answer(error.map(Self.asClient)) }
    }
    fake.onNotified = { [weak self] in
      guard let self else { return }
      fake.notify($0.value, of: $0.uuid, from: peer)
    }
  }

  /// Delivers the current advertisements to the central, in two parts, as may happen.
  func carry() {
    // In a fixed order: the central's paths follow from it.
    let characteristics = fake.applications.flatMap(\.characteristics).sorted { $0.key < $1.key }
    let services = Dictionary(grouping: characteristics, by: \.value.service).sorted { $0.key < $1.key }
    peer.services = services.map { service, characteristics in
      FakePeer.Service(service, characteristics.map { FakePeer.Characteristic($0.key, $0.value.flags) })
    }
    for advertisement in fake.advertisements where advertisement.isOnAir {
      let values = advertisement.values
      let uuids = (values["ServiceUUIDs"]?.asStrings ?? []).compactMap { BluetoothUUID($0)?.description }
      fake.hear(peer, uuids: uuids, serviceData: Self.data(values["ServiceData"]))
      fake.hear(peer, serviceData: Self.data(values["ScanResponseServiceData"]))
    }
  }

  private static func data(_ value: DBusValue?) -> [String: [UInt8]] {
    var data: [String: [UInt8]] = [:]
    for (uuid, value) in value?.asDictionary ?? [:] {
      if let uuid = BluetoothUUID(uuid), let bytes = value.asBytes { data[uuid.description] = bytes }
    }
    return data
  }

  /// The error that the client's bluetoothd reports for an error of the server's bluetoothd.
  private nonisolated static func asClient(_ error: DBusError) -> DBusError {
    guard error.name == "org.bluez.Error.Failed", error.message.hasPrefix("0x") else {
      return DBusError(name: "org.bluez.Error.Failed", message: "Operation failed with ATT error: 0x0e")
    }
    return DBusError(name: error.name, message: "Operation failed with ATT error: " + error.message)
  }
}
