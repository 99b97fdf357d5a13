import Radio
import Tuvali

extension Dialect {
  /// ID of a characteristic of the dialect.
  public func id(of characteristic: Characteristic) -> CharacteristicID {
    CharacteristicID(service: service, characteristic: uuid(of: characteristic))
  }

  /// GATT service of the verifier, with the properties that the originals declare and `notify`. A client that can
  /// choose subscribes to notifications, which the originals send whatever they declare. Facts: tuvali.md section 3.
  public var gattService: GATTService {
    GATTService(
      uuid: service,
      characteristics: Characteristic.allCases.map { characteristic in
        let properties: GATTCharacteristic.Properties =
          switch characteristic.direction {
          case .unused: [.read, .indicate]
          case .toVerifier: [.write, .writeWithoutResponse]
          case .toWallet: [.notify, .indicate]
          }
        // A value is for one wallet only, and the Android wallet never subscribes.
        return GATTCharacteristic(
          uuid: uuid(of: characteristic), properties: properties,
          reach: characteristic.direction == .toWallet ? .exact : .subscribers)
      }, handleOffset: handleOffset)
  }

  private var handleOffset: UInt16 {
    switch name {
    case .v05: 0
    case .v04: 24
    case .v03: 48
    }
  }

  /// Advertisement with the invitation. Facts: tuvali.md section 2.
  ///
  /// - Parameter interval: advertising interval.
  public func advertisement(
    for invitation: Invitation, every interval: Duration = .milliseconds(100)
  ) -> Advertisement {
    Advertisement(
      data: AdvertisingData(
        flags: Self.flags, serviceUUIDs: [service],
        serviceData: [.init(service: service, bytes: invitation.advertisedServiceData)]),
      scanResponse: AdvertisingData(
        serviceData: [.init(service: scanResponse, bytes: invitation.scanResponseServiceData)]),
      interval: interval)
  }

  /// Terms of an advertisement for which a person waits at the kiosk: it has precedence over others. It pauses for at
  /// most 2 s while another dialect's advertisement has its time slice, and 4 s if another service has one, too.
  public static let advertisingTerms = AdvertisingTerms(.person)

  /// LE general discoverable, BR/EDR not supported. The Android verifier omits the second bit, which wallets ignore.
  /// Without it, BlueZ as central connects to a public address over BR/EDR.
  private static let flags: UInt8 = 0x06
}
