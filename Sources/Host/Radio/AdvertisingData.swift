import Common

/// One of the two payloads of a legacy advertisement, as its AD structures in order of transmission.
public struct AdvertisingData: Hashable, Sendable {
  /// Maximum bytes of a legacy advertising PDU, and of its scan response.
  public static let limit = 31

  public var structures: [AdvertisingStructure]

  public struct ServiceData: Hashable, Sendable {
    public var service: BluetoothUUID
    public var bytes: [UInt8]

    public init(service: BluetoothUUID, bytes: [UInt8]) {
      self.service = service
      self.bytes = bytes
    }
  }

  public struct ManufacturerData: Hashable, Sendable {
    /// The company identifier from the Assigned Numbers.
    public var company: UInt16
    public var bytes: [UInt8]

    public init(company: UInt16, bytes: [UInt8]) {
      self.company = company
      self.bytes = bytes
    }
  }

  public init(_ structures: [AdvertisingStructure]) {
    self.structures = structures
  }

  /// The payload in the usual order: flags, UUID lists (16-bit forms first), service data, name. Nil and empty parts
  /// are omitted.
  public init(
    flags: UInt8? = nil, serviceUUIDs: [BluetoothUUID] = [], serviceData: [ServiceData] = [], localName: String? = nil
  ) {
    let lists = [serviceUUIDs.filter { $0.short != nil }, serviceUUIDs.filter { $0.short == nil }]
    structures = flags.map { [.flags($0)] } ?? []
    structures += lists.filter { !$0.isEmpty }.map { .serviceUUIDs($0) }
    structures += serviceData.map { .serviceData($0.service, $0.bytes) }
    if let localName { structures.append(.localName(localName)) }
  }

  public var isEmpty: Bool { structures.isEmpty }

  /// The Flags byte; nil if there is no such structure.
  public var flags: UInt8? {
    structures.lazy.compactMap { if case .flags(let flags) = $0 { flags } else { nil } }.first
  }

  /// The service UUIDs of all lists in the payload.
  public var serviceUUIDs: [BluetoothUUID] {
    structures.flatMap { if case .serviceUUIDs(let uuids) = $0 { uuids } else { [BluetoothUUID]() } }
  }

  public var serviceData: [ServiceData] {
    structures.compactMap {
      if case .serviceData(let service, let bytes) = $0 { ServiceData(service: service, bytes: bytes) } else { nil }
    }
  }

  public var manufacturerData: [ManufacturerData] {
    structures.compactMap {
      if case .manufacturerData(let company, let bytes) = $0 {
        ManufacturerData(company: company, bytes: bytes)
      } else {
        nil
      }
    }
  }

  /// The complete local name, or else the shortened one.
  public var localName: String? {
    let names = structures.compactMap { structure -> (isWhole: Bool, name: String)? in
      switch structure {
      case .localName(let name): (true, name)
      case .shortenedName(let name): (false, name)
      default: nil
      }
    }
    return (names.first(where: \.isWhole) ?? names.first)?.name
  }

  /// The encoded payload: each structure as its length, its type and its payload.
  ///
  /// - Throws: `RadioError.advertisementTooLong` above 31 bytes.
  public func encoded() throws(RadioError) -> [UInt8] {
    let bytes = structures.flatMap { structure in
      let payload = structure.payload
      return [UInt8(truncatingIfNeeded: payload.count + 1), structure.type] + payload
    }
    guard bytes.count <= Self.limit else { throw .advertisementTooLong(bytes: bytes.count, limit: Self.limit) }
    return bytes
  }
}
