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
    data = try reader.advertisingStructures()
    try reader.finish()
  }

  /// Number of bytes before the data, including the length field.
  static let headerLength = 14

  func write(to writer: inout ByteWriter) {
    writer.bluetoothAddress(address)
    writer.u8(kind.rawValue)
    writer.u8(UInt8(bitPattern: rssi ?? Self.noRSSI))
    writer.u32le(flags)
    writer.advertisingStructures(data)
  }
}

extension ByteReader {
  /// Reads AD structures, preceded by their length in two bytes; at most `AdvertisingReport.limit` bytes.
  mutating func advertisingStructures() throws(WireError) -> [UInt8] {
    let length = Int(try u16le())
    guard length <= AdvertisingReport.limit else { throw .tooLong(field: "data", limit: AdvertisingReport.limit) }
    return Array(try bytes(length))
  }
}

extension ByteWriter {
  /// Writes AD structures, preceded by their length in two bytes. Bytes beyond `AdvertisingReport.limit` are cut.
  mutating func advertisingStructures(_ structures: [UInt8]) {
    let data = structures.prefix(AdvertisingReport.limit)
    u16le(UInt16(truncatingIfNeeded: data.count))
    append(data)
  }
}

/// The type of a device address, in the numbering of the management interface.
public enum AddressKind: UInt8, Hashable, Sendable {
  /// The address of a BR/EDR device.
  case classic = 0
  /// An LE public address, assigned by the manufacturer.
  case publicAddress = 1
  /// An LE random address, chosen by the device temporarily or permanently.
  case randomAddress = 2

  public var isLE: Bool { self != .classic }

  init(reading reader: inout ByteReader) throws(WireError) {
    guard let kind = AddressKind(rawValue: try reader.u8()) else { throw .badValue("address type") }
    self = kind
  }
}

/// A report of an advertiser for an advertisement monitor: Adv Monitor Device Found.
///
/// | offset | size | field |
/// | --- | --- | --- |
/// | 0 | 2 | handle of the monitor; 0 if the kernel does not report it |
/// | 2 | | as in Device Found |
public struct MonitoredReport: Hashable, Sendable {
  public var monitor: UInt16
  public var report: AdvertisingReport

  public init(monitor: UInt16, report: AdvertisingReport) {
    self.monitor = monitor
    self.report = report
  }

  init(reading reader: inout ByteReader) throws(WireError) {
    monitor = try reader.u16le()
    report = try AdvertisingReport(reading: &reader)
  }

  func write(to writer: inout ByteWriter) {
    writer.u16le(monitor)
    report.write(to: &writer)
  }

  /// The AD structures of a management packet that reports an advertiser, with either event, and the index of the
  /// controller. Nil for other packets, and for one with a wrong length. Nothing is allocated.
  static func data(in packet: ArraySlice<UInt8>) -> (data: ArraySlice<UInt8>, index: UInt16)? {
    let start = packet.startIndex
    guard packet.count >= ManagementPacket.headerLength, packet[start + 1] == 0 else { return nil }
    let header: Int
    switch packet[start] {
    case 0x12: header = ManagementPacket.headerLength + AdvertisingReport.headerLength
    case 0x2F: header = ManagementPacket.headerLength + 2 + AdvertisingReport.headerLength
    default: return nil
    }
    guard packet.count >= header else { return nil }
    let length = Int(packet[start + header - 2]) | Int(packet[start + header - 1]) << 8
    guard packet.count == header + length else { return nil }
    return (packet[(start + header)...], UInt16(packet[start + 2]) | UInt16(packet[start + 3]) << 8)
  }
}
