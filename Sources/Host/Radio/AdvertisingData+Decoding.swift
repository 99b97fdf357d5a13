import Common

extension AdvertisingData {
  /// Decodes the AD structures of an advertising payload as a receiver does. They end at the end of the bytes, a length
  /// of 0, or a truncated structure (Core 5.4 Vol 3 Part C 11). A structure that is too short for its type is ignored.
  public init(decoding bytes: some Collection<UInt8>) {
    self.init([])
    var remaining = ArraySlice(Array(bytes))
    while let length = remaining.popFirst(), length > 0, remaining.count >= Int(length),
      let type = remaining.popFirst()
    {
      let payload = remaining.prefix(Int(length) - 1)
      remaining = remaining.dropFirst(payload.count)
      if let structure = Self.structure(type, payload) { structures.append(structure) }
    }
  }

  private static func structure(_ type: UInt8, _ payload: ArraySlice<UInt8>) -> AdvertisingStructure? {
    switch type {
    case 0x01: payload.first.map { .flags($0) }
    case 0x02, 0x03: uuids(payload, size: 2)
    case 0x04, 0x05: uuids(payload, size: 4)
    case 0x06, 0x07: uuids(payload, size: 16)
    case 0x08: .shortenedName(String(decoding: payload, as: UTF8.self))
    case 0x09: .localName(String(decoding: payload, as: UTF8.self))
    case 0x16: serviceData(payload, size: 2)
    case 0x20: serviceData(payload, size: 4)
    case 0x21: serviceData(payload, size: 16)
    case 0xFF: manufacturerData(payload)
    default: .other(type, Array(payload))
    }
  }

  private static func uuids(_ payload: ArraySlice<UInt8>, size: Int) -> AdvertisingStructure? {
    var uuids: [BluetoothUUID] = []
    var remaining = payload
    while remaining.count >= size {
      uuids.append(BluetoothUUID(advertised: remaining.prefix(size)))
      remaining = remaining.dropFirst(size)
    }
    return uuids.isEmpty ? nil : .serviceUUIDs(uuids)
  }

  private static func serviceData(_ payload: ArraySlice<UInt8>, size: Int) -> AdvertisingStructure? {
    guard payload.count >= size else { return nil }
    return .serviceData(BluetoothUUID(advertised: payload.prefix(size)), Array(payload.dropFirst(size)))
  }

  private static func manufacturerData(_ payload: ArraySlice<UInt8>) -> AdvertisingStructure? {
    guard let low = payload.first, let high = payload.dropFirst().first else { return nil }
    return .manufacturerData(UInt16(low) | UInt16(high) << 8, Array(payload.dropFirst(2)))
  }
}

extension BluetoothUUID {
  /// Converts a UUID from 2, 4 or 16 bytes, little endian.
  fileprivate init(advertised bytes: ArraySlice<UInt8>) {
    func number(_ bytes: ArraySlice<UInt8>) -> UInt64 {
      bytes.reversed().reduce(0) { $0 << 8 | UInt64($1) }
    }
    if bytes.count == 16 {
      self.init(high: number(bytes.suffix(8)), low: number(bytes.prefix(8)))
    } else {
      let base = BluetoothUUID(short: 0)
      self.init(high: number(bytes) << 32 | base.high, low: base.low)
    }
  }
}
