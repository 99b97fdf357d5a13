import Radio
import Tuvali

extension Dialect {
  /// Where a characteristic of the dialect is found.
  public func id(of characteristic: Characteristic) -> CharacteristicID {
    CharacteristicID(service: service, characteristic: uuid(of: characteristic))
  }

  /// The service as the verifier serves it, with the properties that the originals declare and `notify`: a client that can
  /// choose asks for notifications, which the originals send whatever they declare. Facts: tuvali.md section 3.
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
        // A value is for one wallet alone, and the Android wallet never subscribes.
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

  /// The advertisement that shows the invitation. Facts: tuvali.md section 2.
  ///
  /// - Parameter interval: how often it is sent.
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

  /// A wallet stands before the kiosk and waits: its advertisement goes before others. It is off the air for two seconds at most
  /// where it takes turns with another dialect's, and for four where a message of another service has a turn.
  public static let advertisingTerms = AdvertisingTerms(.person)

  /// LE general discoverable, and no BR/EDR. The Android verifier leaves the second bit out; wallets do not look at it,
  /// but BlueZ as the central takes its absence, at a public address, for an invitation to connect over BR/EDR.
  private static let flags: UInt8 = 0x06
}
