/// One type-length-value record.
///
///     type    1
///     length  1, or 2 big endian: the bytes of the value alone
///     value   length
public struct TLV: Hashable, Sendable {
  public var type: UInt8
  public var value: ArraySlice<UInt8>

  public init(type: UInt8, value: ArraySlice<UInt8>) {
    self.type = type
    self.value = value
  }

  public init(type: UInt8, value: [UInt8]) {
    self.init(type: type, value: value[...])
  }

  /// The width of the length field.
  public enum LengthField: Sendable, CaseIterable {
    case u8, u16be
  }

  /// Reads one record; throws `tooLong` if its value has more than `limit` bytes.
  public init(reading reader: inout ByteReader, length: LengthField, limit: Int) throws(WireError) {
    type = try reader.u8()
    let count =
      switch length {
      case .u8: Int(try reader.u8())
      case .u16be: Int(try reader.u16be())
      }
    guard count <= limit else { throw .tooLong(field: "TLV \(type)", limit: limit) }
    value = try reader.bytes(count)
  }

  /// Writes the record. Throws `tooLong` and writes nothing if the length field cannot hold the length.
  public func write(to writer: inout ByteWriter, length: LengthField) throws(WireError) {
    switch length {
    case .u8:
      guard let count = UInt8(exactly: value.count) else { throw tooLong(UInt8.max) }
      writer.u8(type)
      writer.u8(count)
    case .u16be:
      guard let count = UInt16(exactly: value.count) else { throw tooLong(UInt16.max) }
      writer.u8(type)
      writer.u16be(count)
    }
    writer.append(value)
  }

  /// Reads the records of a payload that contains nothing else, in order.
  ///
  /// Throws `tooLong` if a value has more than `limit` bytes or if there are more than `maximumCount` records.
  public static func all(
    in bytes: ArraySlice<UInt8>, length: LengthField, limit: Int, maximumCount: Int
  ) throws(WireError) -> [TLV] {
    var reader = ByteReader(bytes)
    var records: [TLV] = []
    while !reader.isAtEnd {
      guard records.count < maximumCount else { throw .tooLong(field: "TLV list", limit: maximumCount) }
      records.append(try TLV(reading: &reader, length: length, limit: limit))
    }
    return records
  }

  private func tooLong(_ limit: some FixedWidthInteger) -> WireError {
    .tooLong(field: "TLV \(type)", limit: Int(limit))
  }
}
