import Bytes
import Common
import Radio

/// What the frames of the hub have in common.
///
/// A frame is a `u32` length of what follows it, a tag byte, and the fields that the tag asks for, all little endian:
///
/// | field | bytes |
/// |---|---|
/// | address | 6 |
/// | UUID | 16: low half, high half |
/// | characteristic | 32: service, characteristic |
/// | value | `u16` length, so many bytes |
/// | text | `u16` length, so many bytes of UTF-8 |
/// | list | `u8` or `u16` count, so many entries |
enum AirWire {
  static let version: UInt8 = 1
  /// The longest frame, without its length.
  static let frameLimit = 65536
  /// The longest value. A link takes 512; a little more is let through to be refused where it belongs.
  static let valueLimit = 1024
  static let textLimit = 1024
  static let serviceLimit = 64
  static let characteristicLimit = 64
  static let uuidLimit = 64

  /// A frame with its length in front; nil if it is too long to be sent.
  static func frame(_ write: (inout ByteWriter) -> Void) -> [UInt8]? {
    var body = ByteWriter(capacity: 64)
    write(&body)
    guard body.bytes.count <= frameLimit else { return nil }
    var whole = ByteWriter(capacity: body.bytes.count + 4)
    whole.u32le(UInt32(body.bytes.count))
    whole.append(body.bytes)
    return whole.bytes
  }

  /// What `valueLimit` leaves of a value: too long stays too long.
  static func capped(_ value: [UInt8]) -> [UInt8] {
    value.count <= valueLimit ? value : Array(value.prefix(valueLimit))
  }
}

extension ByteReader {
  mutating func address() throws(WireError) -> BluetoothAddress {
    let low = UInt64(try u32le())
    return BluetoothAddress(low | UInt64(try u16le()) << 32)
  }

  mutating func uuid() throws(WireError) -> BluetoothUUID {
    let low = try u64le()
    return BluetoothUUID(high: try u64le(), low: low)
  }

  mutating func characteristic() throws(WireError) -> CharacteristicID {
    let service = try uuid()
    return CharacteristicID(service: service, characteristic: try uuid())
  }

  mutating func value(_ field: String, limit: Int = AirWire.valueLimit) throws(WireError) -> [UInt8] {
    let length = Int(try u16le())
    guard length <= limit else { throw .tooLong(field: field, limit: limit) }
    return Array(try bytes(length))
  }

  mutating func text(_ field: String) throws(WireError) -> String {
    String(decoding: try value(field, limit: AirWire.textLimit), as: UTF8.self)
  }

  mutating func duration() throws(WireError) -> Duration {
    let nanoseconds = try u64le()
    guard let signed = Int64(exactly: nanoseconds) else { throw .badValue("duration") }
    return .nanoseconds(signed)
  }

  mutating func error() throws(WireError) -> ATTError? {
    let code = try u8()
    guard code != 0 else { return nil }
    guard let error = ATTError(rawValue: code) else { throw .badValue("error") }
    return error
  }

  mutating func uuids() throws(WireError) -> [BluetoothUUID] {
    let count = Int(try u16le())
    guard count <= AirWire.uuidLimit else { throw .tooLong(field: "services", limit: AirWire.uuidLimit) }
    var all: [BluetoothUUID] = []
    for _ in 0..<count { all.append(try uuid()) }
    return all
  }

  mutating func services() throws(WireError) -> [GATTService] {
    let count = Int(try u16le())
    guard count <= AirWire.frameLimit / 17 else { throw .tooLong(field: "services", limit: AirWire.frameLimit / 17) }
    var all: [GATTService] = []
    for _ in 0..<count {
      let service = try uuid()
      var characteristics: [GATTCharacteristic] = []
      let limit = AirWire.characteristicLimit
      let count = Int(try u8())
      guard count <= limit else { throw .tooLong(field: "characteristics", limit: limit) }
      for _ in 0..<count {
        let id = try uuid()
        characteristics.append(GATTCharacteristic(uuid: id, properties: .init(rawValue: try u8())))
      }
      all.append(GATTService(uuid: service, characteristics: characteristics))
    }
    return all
  }
}

extension ByteWriter {
  mutating func address(_ address: BluetoothAddress) {
    u32le(UInt32(truncatingIfNeeded: address.value))
    u16le(UInt16(truncatingIfNeeded: address.value >> 32))
  }

  mutating func uuid(_ uuid: BluetoothUUID) {
    u64le(uuid.low)
    u64le(uuid.high)
  }

  mutating func characteristic(_ id: CharacteristicID) {
    uuid(id.service)
    uuid(id.characteristic)
  }

  mutating func value(_ value: [UInt8]) {
    let value = value.prefix(Int(UInt16.max))
    u16le(UInt16(value.count))
    append(value)
  }

  /// Cut, if it is too long, where a character ends.
  mutating func text(_ text: String) {
    var rest = text[...]
    while rest.utf8.count > AirWire.textLimit { rest.removeLast() }
    value(Array(rest.utf8))
  }

  mutating func duration(_ duration: Duration) {
    u64le(UInt64(max(0, duration.wholeNanoseconds)))
  }

  mutating func error(_ error: ATTError?) {
    u8(error?.rawValue ?? 0)
  }

  mutating func uuids(_ uuids: [BluetoothUUID]) {
    let uuids = uuids.prefix(AirWire.uuidLimit)
    u16le(UInt16(uuids.count))
    for id in uuids { uuid(id) }
  }

  mutating func services(_ services: [GATTService]) {
    let services = services.prefix(Int(UInt16.max))
    u16le(UInt16(services.count))
    for service in services {
      uuid(service.uuid)
      let characteristics = service.characteristics.prefix(AirWire.characteristicLimit)
      u8(UInt8(characteristics.count))
      for characteristic in characteristics {
        uuid(characteristic.uuid)
        u8(characteristic.properties.rawValue)
      }
    }
  }
}
