import BitchatWire
import Common
import Radio

/// GATT service of the mesh, and its advertisement. Facts: bitchat.md section 1.
enum BitchatGATT {
  static let service = BluetoothUUID(high: 0xF47B_5E2D_4A9E_4C5A, low: 0x9B3F_8E1D_2C3A_4B5C)
  static let characteristic = CharacteristicID(
    service: service, characteristic: BluetoothUUID(high: 0xA1B2_C3D4_E5F6_4A5B, low: 0x8C9D_0E1F_2A3B_4C5D))
  /// Requested MTU; phones request the same.
  static let mtu = 517
  /// LE general discoverable, and BR/EDR not supported.
  private static let flags: UInt8 = 0x06

  /// GATT application of a node: one characteristic that peers write and subscribe to.
  static let application = GATTApplication(services: [
    GATTService(
      uuid: service,
      characteristics: [
        GATTCharacteristic(
          uuid: characteristic.characteristic, properties: [.notify, .write, .writeWithoutResponse],
          reach: .subscribers, takesAllWrites: true)
      ], handleOffset: 72)
  ])

  /// Advertisement with the service UUID, and the peer ID in the scan response, by which neighbours detect existing
  /// links. It contains no name.
  static func advertisement(of peer: PeerID, every interval: Duration) -> Advertisement {
    Advertisement(
      data: AdvertisingData(flags: flags, serviceUUIDs: [service]),
      scanResponse: AdvertisingData(serviceData: [.init(service: service, bytes: peer.bytes)]),
      interval: interval)
  }

  /// If there are too few advertising slots, the node gives up its own while another service expects a client. It
  /// gets short time slices, which suffice to find neighbours.
  static let advertisingTerms = AdvertisingTerms(.network)

  /// Peer ID in a scan result; nil if absent.
  static func peer(in scanResult: ScanResult) -> PeerID? {
    guard let bytes = scanResult.serviceData(for: service), bytes.count == PeerID.size else { return nil }
    return PeerID(rawValue: bytes.reduce(0) { $0 << 8 | UInt64($1) })
  }
}
