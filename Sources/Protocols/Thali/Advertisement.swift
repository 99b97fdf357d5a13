import Bytes
import Common

/// A Bluetooth device address of a peer nearby: six bytes, most significant first, as in its text form.
public struct DeviceAddress: Hashable, Sendable {
  public static let size = 6

  /// The address as a number; the upper 16 bits are zero.
  public let value: UInt64

  public init(_ value: UInt64) { self.value = value & 0xFFFF_FFFF_FFFF }

  /// Reads six bytes, most significant first. If there are fewer, the missing ones are zero.
  init(_ bytes: ArraySlice<UInt8>) { self.init(bytes.prefix(Self.size).reduce(UInt64(0)) { $0 << 8 | UInt64($1) }) }

  /// The six bytes, most significant first.
  public var bytes: [UInt8] { (0..<Self.size).map { UInt8(truncatingIfNeeded: value >> UInt64(8 * (5 - $0))) } }

  var isZero: Bool { value == 0 }
}

extension DeviceAddress: CustomStringConvertible {
  /// Constant text, because addresses must not appear in logs.
  public var description: String { "device address" }
}

/// The content of a BLE advertisement of the protocol. Facts: thali.md section 4.
public enum Advertisement: Hashable, Sendable {
  /// A peer has beacons to fetch over RFCOMM. The generation increases by one, modulo 256, with every change of the
  /// beacons.
  ///
  /// The generation is nil in the literal form of the document, whose octet is always 0.
  case beacons(generation: UInt8?, DeviceAddress)
  /// An iOS device, which has no RFCOMM.
  case iOSDevice
  /// A phone that asks peers for its own Bluetooth address. The advertisement has no address to connect to.
  case addressRequest

  /// The service UUID, in the byte order of its text.
  public static let service: [UInt8] = [
    0xB6, 0xA4, 0x4A, 0xD1, 0xD3, 0x19, 0x4B, 0x3A, 0x81, 0x5D, 0x8B, 0x80, 0x5A, 0x47, 0xFB, 0x51,
  ]
  /// The 16-bit UUID of the service data that Android 5 to 7 sends: the low 16 bits of the first 32 bits of the service
  /// UUID.
  public static let serviceDataKey: UInt16 = 0x4AD1
  /// The company identifier, in an advertisement that carries the protocol as manufacturer data.
  public static let company: UInt16 = 7413
  /// Maximum length of advertising data that is read, in bytes: one report of extended advertising.
  static let maximumCount = 255

  /// The encoding of a sent advertisement.
  public enum Form: Hashable, Sendable {
    /// 29 bytes without Flags: the UUID as an incomplete list, and 16-bit service data 4AD1 as Android 5 to 7 sends it.
    case recommended
    /// 30 bytes as the document prints them: Flags, the UUID, and service data whose 16-bit UUID is missing. Its
    /// first two bytes of data claim a foreign UUID.
    case literal
  }

  /// Advertising data that announces beacons.
  ///
  ///     recommended  11 06 UUID (16, little endian)  0A 16 D1 4A generation address (6)
  ///     literal      02 01 06  11 06 UUID (16, little endian)  08 16 00 address (6)
  ///
  /// In the literal form, the octet is a flag that an address follows, so that a change of the beacons shows only in
  /// a change of the advertiser's own address.
  public static func bytes(generation: UInt8, address: DeviceAddress, form: Form = .recommended) -> [UInt8] {
    let value = [form == .literal ? 0 : generation] + address.bytes
    let list = [17, ADType.incompleteList] + service.reversed()
    switch form {
    case .recommended:
      return list + [UInt8(value.count + 3), ADType.serviceData16] + serviceDataKey.littleEndianBytes + value
    case .literal:
      return [2, ADType.flags, 0x06] + list + [UInt8(value.count + 1), ADType.serviceData16] + value
    }
  }

  private enum ADType {
    static let flags: UInt8 = 0x01
    static let incompleteList: UInt8 = 0x06
    static let completeList: UInt8 = 0x07
    static let serviceData16: UInt8 = 0x16
    static let serviceData128: UInt8 = 0x21
    static let manufacturerData: UInt8 = 0xFF
  }

  /// Reads advertising data, possibly followed by a scan response. It accepts all forms that peers send:
  ///
  /// | AD structure | value | from |
  /// |---|---|---|
  /// | 16 | 00 or generation, address; or 01 alone | the document; needs the UUID in a list |
  /// | 16 | D1 4A, generation, address | Android 5 to 7; needs the UUID in a list |
  /// | 21 | UUID, generation, address | Android 8 and later |
  /// | FF | F5 1C 02 15, UUID big endian, generation, address | Android without service data |
  ///
  /// The UUID may be in either byte order in a list (06 or 07). Its last six bytes may be a request number; then the
  /// address is zero. Nil for other advertisements, malformed ones and those of more than 255 bytes.
  public init?(reading data: [UInt8]) {
    guard data.count <= Self.maximumCount, let structures = try? Self.structures(data) else { return nil }
    let isListed = structures.contains { $0.isList && Self.holdsService($0.value) }
    for structure in structures {
      guard let found = structure.content(isListed: isListed) else { continue }
      self = found
      return
    }
    return nil
  }

  fileprivate struct Structure {
    let type: UInt8
    let value: ArraySlice<UInt8>

    var isList: Bool { type == ADType.incompleteList || type == ADType.completeList }

    /// The content of the AD structure; nil if it does not belong to the protocol. `isListed` is whether the data lists
    /// the service UUID, which two of the forms require.
    func content(isListed: Bool) -> Advertisement? {
      switch type {
      case ADType.serviceData16 where isListed:
        if value.elementsEqual([1]) { return .iOSDevice }
        let key = Advertisement.serviceDataKey.littleEndianBytes
        if value.count == key.count + 1 + DeviceAddress.size, value.starts(with: key) {
          return Advertisement(value: value.dropFirst(key.count))
        }
        guard case .beacons(0, let address) = Advertisement(value: value) else { return Advertisement(value: value) }
        return .beacons(generation: nil, address)
      case ADType.serviceData128:
        guard Advertisement.isService(value.prefix(16)) else { return nil }
        return Advertisement(value: value.dropFirst(16))
      case ADType.manufacturerData:
        let header = Advertisement.company.littleEndianBytes + [0x02, 0x15]
        let rest = value.dropFirst(header.count)
        guard value.starts(with: header), Advertisement.isService(rest.prefix(16)) else { return nil }
        return Advertisement(value: rest.dropFirst(16))
      default: return nil
      }
    }
  }

  /// Reads generation and address, seven bytes; nil for any other number.
  private init?(value: ArraySlice<UInt8>) {
    guard let generation = value.first, value.count == 1 + DeviceAddress.size else { return nil }
    let address = DeviceAddress(value.dropFirst())
    self = address.isZero ? .addressRequest : .beacons(generation: generation, address)
  }

  /// The AD structures up to the end or to a length of 0. Throws `truncated` if the last one exceeds the end.
  private static func structures(_ data: [UInt8]) throws(WireError) -> [Structure] {
    var reader = ByteReader(data)
    var structures: [Structure] = []
    while !reader.isAtEnd {
      let length = Int(try reader.u8())
      guard length > 0 else { break }
      structures.append(Structure(type: try reader.u8(), value: try reader.bytes(length - 1)))
    }
    return structures
  }

  private static func holdsService(_ list: ArraySlice<UInt8>) -> Bool {
    stride(from: 0, to: list.count - 15, by: 16).contains { isService(list.dropFirst($0).prefix(16)) }
  }

  /// Whether the first ten bytes of a UUID in either byte order are those of the service.
  fileprivate static func isService(_ uuid: ArraySlice<UInt8>) -> Bool {
    let prefix = service.prefix(10)
    return uuid.count == 16 && (uuid.starts(with: prefix) || uuid.reversed().starts(with: prefix))
  }
}

extension UInt16 {
  fileprivate var littleEndianBytes: [UInt8] {
    [UInt8(truncatingIfNeeded: self), UInt8(truncatingIfNeeded: self >> 8)]
  }
}
