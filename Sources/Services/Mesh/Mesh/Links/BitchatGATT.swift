import Bitchat
import Common
import Radio

/// How the mesh is found and reached over GATT. Facts: bitchat.md section 1.
enum BitchatGATT {
  static let service = BluetoothUUID(high: 0xF47B_5E2D_4A9E_4C5A, low: 0x9B3F_8E1D_2C3A_4B5C)
  static let characteristic = CharacteristicID(
    service: service, characteristic: BluetoothUUID(high: 0xA1B2_C3D4_E5F6_4A5B, low: 0x8C9D_0E1F_2A3B_4C5D))
  /// What is asked for; phones ask for as much.
  static let mtu = 517
  /// LE general discoverable, and no BR/EDR.
  private static let flags: UInt8 = 0x06

  /// What other nodes find: one characteristic, which they write to and subscribe to.
  static let application = GATTApplication(services: [
    GATTService(
      uuid: service,
      characteristics: [
        GATTCharacteristic(
          uuid: characteristic.characteristic, properties: [.notify, .write, .writeWithoutResponse],
          reach: .subscribers, takesAllWrites: true)
      ], handleOffset: 72)
  ])

  /// The service alone, and in the scan response who is here, by which neighbours know a peer that they have a link with. There
  /// is no name in it.
  static func advertisement(of peer: PeerID, every interval: Duration) -> Advertisement {
    Advertisement(
      data: AdvertisingData(flags: flags, serviceUUIDs: [service]),
      scanResponse: AdvertisingData(serviceData: [.init(service: service, bytes: peer.bytes)]),
      interval: interval)
  }

  /// Where places lack, the node gives way to a visitor who is awaited, but for a turn now and then: it finds its neighbours all
  /// the same.
  static let advertisingTerms = AdvertisingTerms(.network)

  /// The peer that an advertiser says it is; nil where it does not say.
  static func peer(in sighting: Sighting) -> PeerID? {
    guard let bytes = sighting.serviceData(for: service), bytes.count == PeerID.size else { return nil }
    return PeerID(rawValue: bytes.reduce(0) { $0 << 8 | UInt64($1) })
  }
}
