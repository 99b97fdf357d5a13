import Bytes

/// File in the mesh: the payload of a packet of type 22, and of Noise payload 20. Records have one byte of type and a
/// length, in any order; unknown types are skipped. Facts: bitchat.md section 10. Layout:
///
///     01  name, UTF-8, length of 2 bytes
///     02  size of the content, 4 bytes, length of 2 bytes; older apps write 8
///     03  MIME type, UTF-8, length of 2 bytes
///     04  content, length of 4 bytes; older apps write a length of 2, and the content in several such records
///
/// All numbers are big endian. Decoding does not check the type of the content; see `FileKind`.
public struct SharedFile: WireValue, Hashable, Sendable {
  /// Name as the sender wrote it; empty if absent. People and disks get `plainName`.
  public let name: String
  /// MIME type as the sender wrote it; nil if absent.
  public let mime: String?
  /// Content of the file, 1 byte to 1 MiB.
  public let content: [UInt8]

  /// Throws `tooLong` for a content over 1 MiB or a text over 65,535 bytes, and `badValue("content")` for an empty one.
  public init(name: String, mime: String?, content: [UInt8]) throws(WireError) {
    guard !content.isEmpty else { throw .badValue("content") }
    guard content.count <= Limits.fileBytes else { throw .tooLong(field: "content", limit: Limits.fileBytes) }
    for (text, field) in [(name, "name"), (mime ?? "", "MIME type")] where text.utf8.count > Int(UInt16.max) {
      throw .tooLong(field: field, limit: Int(UInt16.max))
    }
    self.name = name
    self.mime = mime
    self.content = content
  }

  /// Reads the records to the end. The last name, MIME type or size counts.
  ///
  /// Throws `badValue` with the name of an invalid record: a text that is not UTF-8, a size that differs from the
  /// content's, or no content. Throws `tooLong` for a content over 1 MiB, and `truncated`.
  public init(reading reader: inout ByteReader) throws(WireError) {
    var name = ""
    var mime: String?
    var size: UInt64?
    var content: [UInt8] = []
    while !reader.isAtEnd {
      switch try reader.u8() {
      case 0x01: name = try Self.text(&reader, "name")
      case 0x02: size = try Self.size(&reader)
      case 0x03: mime = try Self.text(&reader, "MIME type")
      case 0x04:
        let part = try Self.content(&reader)
        guard content.count + part.count <= Limits.fileBytes else {
          throw .tooLong(field: "content", limit: Limits.fileBytes)
        }
        content.append(contentsOf: part)
      default: _ = try Self.value(&reader)
      }
    }
    guard size.map({ $0 == UInt64(content.count) }) ?? true else { throw .badValue("size") }
    try self.init(name: name, mime: mime, content: content)
  }

  public func write(to writer: inout ByteWriter) {
    func text(_ type: UInt8, _ text: String) {
      writer.u8(type)
      writer.u16be(UInt16(clamping: text.utf8.count))
      writer.append(text.utf8)
    }
    text(0x01, name)
    writer.u8(0x02)
    writer.u16be(4)
    writer.u32be(UInt32(clamping: content.count))
    if let mime { text(0x03, mime) }
    writer.u8(0x04)
    writer.u32be(UInt32(clamping: content.count))
    writer.append(content)
  }

  private static func value(_ reader: inout ByteReader) throws(WireError) -> ArraySlice<UInt8> {
    let count = Int(try reader.u16be())
    return try reader.bytes(count)
  }

  private static func text(_ reader: inout ByteReader, _ field: String) throws(WireError) -> String {
    guard let text = String(validating: try value(&reader), as: UTF8.self) else { throw .badValue(field) }
    return text
  }

  private static func size(_ reader: inout ByteReader) throws(WireError) -> UInt64 {
    let value = try value(&reader)
    guard value.count == 4 || value.count == 8 else { throw .badValue("size") }
    return value.reduce(0) { $0 << 8 | UInt64($1) }
  }

  /// Reads a length of two bytes if one of four bytes would exceed the payload.
  private static func content(_ reader: inout ByteReader) throws(WireError) -> ArraySlice<UInt8> {
    var long = reader
    if let count = try? long.u32be(), Int(count) <= long.remaining {
      reader = long
      return try reader.bytes(Int(count))
    }
    return try value(&reader)
  }
}
