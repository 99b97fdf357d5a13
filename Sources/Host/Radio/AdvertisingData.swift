import Common

/// One of the two payloads of a legacy advertisement, as its AD structures in the order in which they go on the air.
public struct AdvertisingData: Hashable, Sendable {
  /// What a legacy advertising PDU and its scan response hold, each.
  public static let limit = 31

  /// The Flags byte (AD type 0x01); nil leaves the structure out.
  public var flags: UInt8?
  /// Complete list of service UUIDs (0x03 and 0x07).
  public var serviceUUIDs: [BluetoothUUID]
  /// Service data (0x16 and 0x21).
  public var serviceData: [ServiceData]
  /// Complete local name (0x09), in UTF-8.
  public var localName: String?

  public struct ServiceData: Hashable, Sendable {
    public var service: BluetoothUUID
    public var bytes: [UInt8]

    public init(service: BluetoothUUID, bytes: [UInt8]) {
      self.service = service
      self.bytes = bytes
    }
  }

  public init(
    flags: UInt8? = nil, serviceUUIDs: [BluetoothUUID] = [], serviceData: [ServiceData] = [],
    localName: String? = nil
  ) {
    self.flags = flags
    self.serviceUUIDs = serviceUUIDs
    self.serviceData = serviceData
    self.localName = localName
  }

  /// The bytes on the air: flags, UUID lists, service data, name.
  ///
  /// - Throws: `RadioError.advertisementTooLong` over 31 bytes.
  public func encoded() throws(RadioError) -> [UInt8] {
    var out: [UInt8] = []
    func add(_ type: UInt8, _ payload: [UInt8]) {
      out.append(UInt8(truncatingIfNeeded: payload.count + 1))
      out.append(type)
      out += payload
    }
    if let flags { add(0x01, [flags]) }
    let short = serviceUUIDs.filter { $0.short != nil }
    let long = serviceUUIDs.filter { $0.short == nil }
    if !short.isEmpty { add(0x03, short.flatMap(\.advertisedBytes)) }
    if !long.isEmpty { add(0x07, long.flatMap(\.advertisedBytes)) }
    for entry in serviceData {
      add(entry.service.short != nil ? 0x16 : 0x21, entry.service.advertisedBytes + entry.bytes)
    }
    if let localName { add(0x09, Array(localName.utf8)) }
    guard out.count <= Self.limit else { throw .advertisementTooLong(bytes: out.count, limit: Self.limit) }
    return out
  }
}
