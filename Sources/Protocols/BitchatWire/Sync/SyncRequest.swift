import Bytes

/// Payload of a sync request: the packets that the sender has. Records have one byte of type and two of length, big
/// endian, in any order; unknown types are skipped. Facts: bitchat.md section 9. Layout:
///
///     01  P of the filter, 1 byte
///     02  M of the filter, 4 bytes, big endian
///     03  bits of the filter, up to 1,024 bytes
///     04  `SyncTypes`; default: announces and messages
///     05  earliest timestamp of wanted packets, milliseconds since 1970, 8 bytes, big endian
///     06  up to 60 fragment IDs, 16 hexadecimal digits each, separated by commas
///
/// The packet has TTL 0 and a signature, and is sent to one peer.
public struct SyncRequest: WireValue, Hashable, Sendable {
  public let filter: SyncFilter
  /// Requested types; nil if the record is absent.
  public let types: SyncTypes?
  /// Earliest timestamp of wanted packets, in milliseconds since 1970; nil for no limit.
  public let since: UInt64?
  /// If not empty, only fragments with these IDs are wanted.
  public let fragments: [FragmentID]

  /// Throws `tooLong` for more than 60 fragment IDs.
  public init(
    filter: SyncFilter, types: SyncTypes? = nil, since: UInt64? = nil, fragments: [FragmentID] = []
  ) throws(WireError) {
    guard fragments.count <= Limits.requestedFragments else {
      throw .tooLong(field: "fragments", limit: Limits.requestedFragments)
    }
    self.filter = filter
    self.types = types
    self.since = since
    self.fragments = fragments
  }

  /// Reads the records to the end. As in the iOS app, an optional record of the wrong length counts as absent. Invalid
  /// fragment IDs, and those after the 60th, are skipped.
  ///
  /// Throws `badValue` with the name of a required record that is missing or invalid, and `tooLong` for a filter over
  /// 1,024 bytes.
  public init(reading reader: inout ByteReader) throws(WireError) {
    var (p, m, bits): (UInt8?, UInt32?, [UInt8]?)
    var types: SyncTypes?
    var since: UInt64?
    var fragments: [FragmentID] = []
    let records = try TLV.all(
      in: reader.rest(), length: .u16be, limit: Limits.payloadBytes, maximumCount: Self.maximumRecords)
    for record in records {
      var value = ByteReader(record.value)
      switch (record.type, record.value.count) {
      case (0x01, 1): p = try value.u8()
      case (0x02, 4): m = try value.u32be()
      case (0x03, let count):
        guard count <= Limits.acceptedFilterBytes else {
          throw .tooLong(field: "filter", limit: Limits.acceptedFilterBytes)
        }
        bits = Array(record.value)
      case (0x04, _): types = SyncTypes(record.value) ?? types
      case (0x05, 8): since = try value.u64be()
      case (0x06, ...Limits.acceptedFilterBytes): fragments = Self.fragments(record.value)
      default: continue
      }
    }
    guard let p else { throw .badValue("P") }
    guard let m else { throw .badValue("M") }
    guard let bits else { throw .badValue("filter") }
    try self.init(filter: SyncFilter(p: Int(p), m: m, bits: bits), types: types, since: since, fragments: fragments)
  }

  public func write(to writer: inout ByteWriter) {
    func record(_ type: UInt8, _ value: [UInt8]) {
      writer.u8(type)
      writer.u16be(UInt16(clamping: value.count))
      writer.append(value)
    }
    record(0x01, [UInt8(clamping: filter.p)])
    record(0x02, withUnsafeBytes(of: filter.m.bigEndian) { Array($0) })
    record(0x03, filter.bits)
    if let types { record(0x04, types.bytes) }
    if let since { record(0x05, withUnsafeBytes(of: since.bigEndian) { Array($0) }) }
    if !fragments.isEmpty { record(0x06, Array(fragments.map(\.description).joined(separator: ",").utf8)) }
  }

  private static let maximumRecords = 64

  private static func fragments(_ bytes: ArraySlice<UInt8>) -> [FragmentID] {
    bytes.split(separator: UInt8(ascii: ",")).prefix(Limits.requestedFragments).compactMap { digits in
      guard digits.count == 2 * FragmentID.size, let id = try? Hex.decode(String(decoding: digits, as: UTF8.self))
      else { return nil }
      return try? FragmentID(reading: id)
    }
  }
}

/// Packet types that a sync request asks for, one bit each. Facts: bitchat.md section 9.
public struct SyncTypes: OptionSet, Hashable, Sendable {
  public let rawValue: UInt64

  public init(rawValue: UInt64) {
    self.rawValue = rawValue
  }

  public static let announce = SyncTypes(rawValue: 1 << 0)
  public static let message = SyncTypes(rawValue: 1 << 1)
  public static let leave = SyncTypes(rawValue: 1 << 2)
  public static let noiseHandshake = SyncTypes(rawValue: 1 << 3)
  public static let noiseEncrypted = SyncTypes(rawValue: 1 << 4)
  public static let fragment = SyncTypes(rawValue: 1 << 5)
  public static let requestSync = SyncTypes(rawValue: 1 << 6)
  public static let fileTransfer = SyncTypes(rawValue: 1 << 7)
  public static let boardPost = SyncTypes(rawValue: 1 << 8)
  public static let prekeyBundle = SyncTypes(rawValue: 1 << 9)
  public static let groupMessage = SyncTypes(rawValue: 1 << 10)

  /// Types of a request without the record, such as the Android app's.
  public static let usual: SyncTypes = [.announce, .message]

  /// Reads a bit field. Nil unless there are 1 to 8 bytes.
  package init?(_ bytes: ArraySlice<UInt8>) {
    guard (1...8).contains(bytes.count) else { return nil }
    rawValue = LittleEndian.number(bytes)
  }

  package var bytes: [UInt8] { LittleEndian.bytes(rawValue) }
}
