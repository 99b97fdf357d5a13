import Common

/// The services that a peripheral serves, as values.
public struct GATTApplication: Hashable, Sendable {
  public var services: [GATTService]
  /// Whether peers that connect stand and wait while something goes over their links: a radio then asks for links that are
  /// fast, at the cost of power. It is no more than a wish.
  public var wantsFastLinks: Bool

  public init(services: [GATTService], wantsFastLinks: Bool = false) {
    self.services = services
    self.wantsFastLinks = wantsFastLinks
  }

  /// The characteristics by where they are; of two with one name in a service, the first.
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
  /// Where it is among the handles that a radio gives the services of this program, counted from the first; nil for anywhere. No two
  /// services have handles in common (docs/bluez.md, "Handles").
  public var handleOffset: UInt16?

  public init(uuid: BluetoothUUID, characteristics: [GATTCharacteristic], handleOffset: UInt16? = nil) {
    self.uuid = uuid
    self.characteristics = characteristics
    self.handleOffset = handleOffset
  }

  /// The attributes that it consists of: itself, and a declaration, a value and, with values for subscribers, a Client
  /// Characteristic Configuration for each characteristic.
  public var handleCount: Int {
    1 + characteristics.reduce(0) { $0 + ($1.properties.isDisjoint(with: [.notify, .indicate]) ? 2 : 3) }
  }
}

public struct GATTCharacteristic: Hashable, Sendable {
  public var uuid: BluetoothUUID
  public var properties: Properties
  public var reach: Reach
  /// Whether no write is ever refused, so that a radio may take writes in a way that knows no refusal, and is faster.
  public var takesAllWrites: Bool

  /// Which clients a value of the characteristic must and may reach.
  public enum Reach: Hashable, Sendable {
    /// A value reaches clients that subscribed. Where the radio cannot tell them apart, other subscribers of the
    /// characteristic hear it, too.
    case subscribers
    /// A value reaches the clients that it is meant for, subscribed or not, and no other client. A radio that cannot do
    /// that says so in its status.
    case exact
  }

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

  public init(
    uuid: BluetoothUUID, properties: Properties, reach: Reach = .subscribers, takesAllWrites: Bool = false
  ) {
    self.uuid = uuid
    self.properties = properties
    self.reach = reach
    self.takesAllWrites = takesAllWrites
  }

  /// Whether clients can subscribe to it.
  public var canNotify: Bool { !properties.isDisjoint(with: [.notify, .indicate]) }

  /// Whether clients can write it, in either way.
  public var canBeWritten: Bool { !properties.isDisjoint(with: [.write, .writeWithoutResponse]) }
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
