import Bytes
import Crypto

/// The header of a record's file, in clear text. It is authenticated together with the sealed part that follows.
///
/// | bytes | field |
/// |---|---|
/// | 8 | `EARSPOOL` |
/// | 2 | version, 2, big endian |
/// | 8 | ID of the key |
/// | 16 | ID of the record, as in the file's name |
/// | 8 | date of receipt: seconds since 1970-01-01 UTC, big endian, signed |
/// | 12 | nonce |
/// | 4 | length of the sealed part, big endian |
struct SpoolHeader: Hashable {
  static let magic = Array("EARSPOOL".utf8)
  static let version: UInt16 = 2
  static let size = 58

  var keyID: [UInt8]
  var id: SpoolID
  var received: Int64
  var nonce: [UInt8]
  var sealedCount: UInt32

  init(keyID: [UInt8], id: SpoolID, received: Int64, nonce: [UInt8], sealedCount: UInt32) {
    self.keyID = keyID
    self.id = id
    self.received = received
    self.nonce = nonce
    self.sealedCount = sealedCount
  }

  /// - Throws: `badValue("version")` for any other version, `badValue("magic")` for another kind of file.
  init(reading reader: inout ByteReader) throws(WireError) {
    guard try reader.bytes(Self.magic.count).elementsEqual(Self.magic) else { throw .badValue("magic") }
    guard try reader.u16be() == Self.version else { throw .badValue("version") }
    keyID = Array(try reader.bytes(SpoolKey.idSize))
    id = try SpoolID(reading: &reader)
    received = Int64(bitPattern: try reader.u64be())
    nonce = Array(try reader.bytes(ChaChaPoly.nonceSize))
    sealedCount = try reader.u32be()
  }

  func write(to writer: inout ByteWriter) {
    writer.append(Self.magic)
    writer.u16be(Self.version)
    writer.append(keyID)
    writer.append(id.bytes)
    writer.u64be(UInt64(bitPattern: received))
    writer.append(nonce)
    writer.u32be(sealedCount)
  }

  var bytes: [UInt8] {
    var writer = ByteWriter(capacity: Self.size)
    write(to: &writer)
    return writer.bytes
  }
}
