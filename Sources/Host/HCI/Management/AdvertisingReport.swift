import Bytes
import Radio

/// A received advertiser: Device Found. If the kernel received both, the event contains the advertisement followed by
/// the scan response.
///
/// | offset | size | field |
/// | --- | --- | --- |
/// | 0 | 6 + 1 | address, least significant byte first; kind of address |
/// | 7 | 1 | signal strength in dBm, 127 if unknown |
/// | 8 | 4 | flags |
/// | 12 | 2 + n | AD structures, as received |
public struct AdvertisingReport: Hashable, Sendable {
  public var address: BluetoothAddress
  public var kind: AddressKind
  /// The signal strength in dBm; nil if unknown.
  public var rssi: Int8?
  public var flags: UInt32
  public var data: [UInt8]

  /// Maximum data of extended advertising, in bytes.
  public static let limit = 1650
  private static let noRSSI: Int8 = 127

  public init(address: BluetoothAddress, kind: AddressKind, rssi: Int8?, flags: UInt32, data: [UInt8]) {
    self.address = address
    self.kind = kind
    self.rssi = rssi
    self.flags = flags
    self.data = data
  }

  init(reading reader: inout ByteReader) throws(WireError) {
    address = try reader.bluetoothAddress()
    kind = try AddressKind(reading: &reader)
    let rssi = Int8(bitPattern: try reader.u8())
    self.rssi = rssi == Self.noRSSI ? nil : rssi
    flags = try reader.u32le()
    let length = Int(try reader.u16le())
    guard length <= Self.limit else { throw .tooLong(field: "data", limit: Self.limit) }
    data = Array(try reader.bytes(length))
    try reader.finish()
  }

  /// Number of bytes before the data, including the length field.
  static let headerLength = 14

  func write(to writer: inout ByteWriter) {
    writer.bluetoothAddress(address)
    writer.u8(kind.rawValue)
    writer.u8(UInt8(bitPattern: rssi ?? Self.noRSSI))
    writer.u32le(flags)
    let data = data.prefix(Self.limit)
    writer.u16le(UInt16(truncatingIfNeeded: data.count))
    writer.append(data)
  }
}
