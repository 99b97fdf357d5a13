import Common

/// The services that a peripheral serves, as values.
public struct GATTApplication: Hashable, Sendable {
  public var services: [GATTService]

  public init(services: [GATTService]) {
    self.services = services
  }
}

public struct GATTService: Hashable, Sendable {
  public var uuid: BluetoothUUID
  public var characteristics: [GATTCharacteristic]

  public init(uuid: BluetoothUUID, characteristics: [GATTCharacteristic]) {
    self.uuid = uuid
    self.characteristics = characteristics
  }
}

public struct GATTCharacteristic: Hashable, Sendable {
  public var uuid: BluetoothUUID
  public var properties: Properties

  public struct Properties: OptionSet, Hashable, Sendable {
    public let rawValue: UInt8

    public init(rawValue: UInt8) {
      self.rawValue = rawValue
    }

    // The bits of the characteristic declaration, Core 5.4 Vol 3 Part G 3.3.1.1.
    public static let read = Properties(rawValue: 0x02)
    public static let writeWithoutResponse = Properties(rawValue: 0x04)
    public static let write = Properties(rawValue: 0x08)
    public static let notify = Properties(rawValue: 0x10)
    public static let indicate = Properties(rawValue: 0x20)
  }

  public init(uuid: BluetoothUUID, properties: Properties) {
    self.uuid = uuid
    self.properties = properties
  }
}

/// Where a value belongs: the same characteristic UUID may stand in several services.
public struct CharacteristicID: Hashable, Sendable {
  public var service: BluetoothUUID
  public var characteristic: BluetoothUUID

  public init(service: BluetoothUUID, characteristic: BluetoothUUID) {
    self.service = service
    self.characteristic = characteristic
  }
}
