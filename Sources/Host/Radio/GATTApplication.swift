import Common

/// The services of a GATT server, as values.
public struct GATTApplication: Hashable, Sendable {
  public var services: [GATTService]
  /// Whether persons at the connected peers wait for transfers. A radio may then request short connection intervals,
  /// which cost power.
  public var wantsFastLinks: Bool

  public init(services: [GATTService], wantsFastLinks: Bool = false) {
    self.services = services
    self.wantsFastLinks = wantsFastLinks
  }

  /// The characteristics by ID; for duplicates in a service the first one.
  public var characteristics: [CharacteristicID: GATTCharacteristic] {
    var found: [CharacteristicID: GATTCharacteristic] = [:]
    for service in services {
      for characteristic in service.characteristics {
        let id = CharacteristicID(service: service.uuid, characteristic: characteristic.uuid)
        if found[id] == nil { found[id] = characteristic }
      }
    }
    return found
  }
}

public struct GATTService: Hashable, Sendable {
  public var uuid: BluetoothUUID
  public var characteristics: [GATTCharacteristic]
  /// The offset of the service in the block of handles that a radio assigns to this program's services, from 0; nil for
  /// no fixed position. Services must not overlap (docs/bluez.md, "Handles").
  public var handleOffset: UInt16?

  public init(uuid: BluetoothUUID, characteristics: [GATTCharacteristic], handleOffset: UInt16? = nil) {
    self.uuid = uuid
    self.characteristics = characteristics
    self.handleOffset = handleOffset
  }
}

public struct GATTCharacteristic: Hashable, Sendable {
  public var uuid: BluetoothUUID
  public var properties: Properties
  public var reach: Reach
  /// Whether the service accepts every write to the characteristic. A radio may then use a faster path for writes,
  /// which cannot report errors.
  public var takesAllWrites: Bool

  /// The clients that a value of the characteristic must and may reach.
  public enum Reach: Hashable, Sendable {
    /// A value reaches subscribed clients. If the radio cannot distinguish clients, other subscribers receive it, too.
    case subscribers
    /// A value reaches exactly the intended clients, subscribed or not. A radio that cannot do that reports it in its
    /// status.
    case exact
  }

  public struct Properties: OptionSet, Hashable, Sendable {
    public let rawValue: UInt8

    public init(rawValue: UInt8) {
      self.rawValue = rawValue
    }

    // The bits of the characteristic declaration (Core 5.4 Vol 3 Part G 3.3.1.1).
    public static let read = Properties(rawValue: 0x02)
    public static let writeWithoutResponse = Properties(rawValue: 0x04)
    public static let write = Properties(rawValue: 0x08)
    public static let notify = Properties(rawValue: 0x10)
    public static let indicate = Properties(rawValue: 0x20)
  }

  public init(
    uuid: BluetoothUUID, properties: Properties, reach: Reach = .subscribers, takesAllWrites: Bool = false
  ) {
    self.uuid = uuid
    self.properties = properties
    self.reach = reach
    self.takesAllWrites = takesAllWrites
  }

  /// Whether clients can subscribe to notifications or indications of the characteristic.
  public var canNotify: Bool { !properties.isDisjoint(with: [.notify, .indicate]) }

  /// Whether clients can write the characteristic, with or without response.
  public var canBeWritten: Bool { !properties.isDisjoint(with: [.write, .writeWithoutResponse]) }
}

/// Identifies a characteristic: the same characteristic UUID may occur in several services.
public struct CharacteristicID: Hashable, Sendable {
  public var service: BluetoothUUID
  public var characteristic: BluetoothUUID

  public init(service: BluetoothUUID, characteristic: BluetoothUUID) {
    self.service = service
    self.characteristic = characteristic
  }
}
