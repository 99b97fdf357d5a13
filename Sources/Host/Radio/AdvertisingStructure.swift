import Common

/// One AD structure of an advertisement (Core 5.4 Vol 3 Part C 11, types by the Assigned Numbers).
public enum AdvertisingStructure: Hashable, Sendable {
  /// The Flags byte (type 0x01).
  case flags(UInt8)
  /// A complete list of service UUIDs: type 0x03 if all of them have a 16-bit form, otherwise type 0x07.
  case serviceUUIDs([BluetoothUUID])
  /// Service data: type 0x16 for a UUID with a 16-bit form, otherwise type 0x21.
  case serviceData(BluetoothUUID, [UInt8])
  /// Manufacturer specific data (type 0xFF) under a company identifier.
  case manufacturerData(UInt16, [UInt8])
  /// The complete local name (type 0x09), in UTF-8.
  case localName(String)
  /// A shortened local name (type 0x08), in UTF-8.
  case shortenedName(String)
  /// A structure of another type, with its bytes after the type.
  case other(UInt8, [UInt8])

  /// The AD type, the byte after the length.
  public var type: UInt8 {
    switch self {
    case .flags: 0x01
    case .serviceUUIDs(let uuids): uuids.allSatisfy { $0.short != nil } ? 0x03 : 0x07
    case .serviceData(let service, _): service.short != nil ? 0x16 : 0x21
    case .manufacturerData: 0xFF
    case .localName: 0x09
    case .shortenedName: 0x08
    case .other(let type, _): type
    }
  }

  /// The bytes after the type; numbers are little endian.
  public var payload: [UInt8] {
    switch self {
    case .flags(let flags): [flags]
    case .serviceUUIDs(let uuids): type == 0x03 ? uuids.flatMap(\.advertisedBytes) : uuids.flatMap(\.longBytes)
    case .serviceData(let service, let bytes): service.advertisedBytes + bytes
    case .manufacturerData(let company, let bytes):
      [UInt8(truncatingIfNeeded: company), UInt8(truncatingIfNeeded: company >> 8)] + bytes
    case .localName(let name), .shortenedName(let name): Array(name.utf8)
    case .other(_, let bytes): bytes
    }
  }
}

extension BluetoothUUID {
  /// The UUID as 16 bytes, little endian.
  fileprivate var longBytes: [UInt8] {
    [low, high].flatMap { word in (0..<8).map { UInt8(truncatingIfNeeded: word >> (8 * $0)) } }
  }
}
