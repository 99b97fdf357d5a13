import Bytes

/// Notification beacon: an iBeacon with the protocol's UUID.
///
///     off  len   value
///     0    3     02 01 06: Flags
///     3    2     1A FF: manufacturer data
///     5    2     4C 00: company 0x004C, little endian
///     7    2     02 15: iBeacon, 21 bytes follow
///     9    16    40B74E09-F1E9-4992-87AD-77E4882EECF3, big endian
///     25   2     major, big endian
///     27   2     minor, big endian
///     29   1     power at one metre in dBm, signed
///
/// Facts: pblec.md section 4.
public struct NotifyBeacon: Hashable, Sendable {
  /// AD type of manufacturer data.
  public static let manufacturerData: UInt8 = 0xFF
  /// Company identifier of iBeacons.
  public static let company: UInt16 = 0x004C
  /// First bytes of the manufacturer data, by which the protocol's beacons are recognized: company, type, length, UUID.
  public static let prefix: [UInt8] = [
    0x4C, 0x00, 0x02, 0x15,
    0x40, 0xB7, 0x4E, 0x09, 0xF1, 0xE9, 0x49, 0x92, 0x87, 0xAD, 0x77, 0xE4, 0x88, 0x2E, 0xEC, 0xF3,
  ]
  /// Length of the manufacturer data in bytes.
  static let size = 25

  public let major: UInt16
  public let minor: UInt16
  /// Power at one metre, in dBm.
  public let power: Int8

  public init(major: UInt16, minor: UInt16, power: Int8 = -59) {
    (self.major, self.minor, self.power) = (major, minor, power)
  }

  /// Parses manufacturer data that starts with `prefix`.
  init(reading data: ArraySlice<UInt8>) throws(WireError) {
    var reader = ByteReader(data)
    guard try reader.bytes(Self.prefix.count).elementsEqual(Self.prefix) else { throw .badValue("beacon") }
    major = try reader.u16be()
    minor = try reader.u16be()
    power = Int8(bitPattern: try reader.u8())
    try reader.finish()
  }

  /// Major and minor, by which duplicates are recognized.
  public var pair: UInt32 { UInt32(major) << 16 | UInt32(minor) }

  /// Manufacturer data, starting with the company.
  public var data: [UInt8] {
    var writer = ByteWriter(capacity: Self.size)
    writer.append(Self.prefix)
    writer.u16be(major)
    writer.u16be(minor)
    writer.u8(UInt8(bitPattern: power))
    return writer.bytes
  }

  /// Advertising data: 30 bytes.
  public var bytes: [UInt8] {
    [2, 0x01, MessagePacket.flags, UInt8(1 + Self.size), Self.manufacturerData] + data
  }
}
