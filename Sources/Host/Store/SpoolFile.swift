import Bytes
import Crypto

/// The file of one record: a `SpoolHeader`, then the record's content, sealed with ChaCha20-Poly1305 under a key that
/// is derived for this file. The header is the seal's additional data.
enum SpoolFile {
  enum Failure: Error, Hashable {
    /// The file's content is invalid; the text describes the error.
    case damaged(String)
    /// The file was sealed with a different key, and may be valid.
    case otherKey
    /// The file has the format of a different release.
    case otherVersion

    /// Converts a decoding error. A structure of another version is not damaged.
    init(_ error: WireError) {
      self = error == .badValue("version") ? .otherVersion : .damaged("\(error)")
    }
  }

  /// The size of a file with `count` bytes of content.
  static func size(ofContent count: Int) -> Int { SpoolHeader.size + count + ChaChaPoly.tagSize }

  /// Seals a record.
  ///
  /// - Throws: `tooLarge` for a content of 4 GiB and more.
  static func seal(_ record: SpoolRecord, id: SpoolID, nonce: [UInt8], key: SpoolKey) throws(StoreError) -> [UInt8] {
    guard let sealedCount = UInt32(exactly: record.content.count + ChaChaPoly.tagSize) else {
      throw StoreError(.tooLarge, "A record of \(record.content.count) bytes is too long for a spool file.")
    }
    let header = SpoolHeader(keyID: key.id, id: id, received: record.received, nonce: nonce, sealedCount: sealedCount)
    let fileKey = try key.key(for: id)
    do throws(CryptoError) {
      return header.bytes + (try ChaChaPoly.seal(record.content, key: fileKey, nonce: nonce, aad: header.bytes))
    } catch {
      throw StoreError(.failed, "A record cannot be sealed: \(error).")
    }
  }

  /// Opens the file of a record.
  ///
  /// - Parameter mark: the mark from the file's name.
  static func open(
    _ bytes: [UInt8], id: SpoolID, mark: UInt8 = 0, key: SpoolKey
  ) throws(Failure) -> SpoolRecord {
    let header: SpoolHeader
    let sealed: ArraySlice<UInt8>
    do throws(WireError) {
      var reader = ByteReader(bytes)
      header = try SpoolHeader(reading: &reader)
      sealed = try reader.bytes(Int(header.sealedCount))
      try reader.finish()
    } catch {
      throw Failure(error)
    }
    guard header.id == id else { throw .damaged("it belongs to another record") }
    guard header.keyID == key.id else { throw .otherKey }
    guard let fileKey = try? key.key(for: id),
      let content = try? ChaChaPoly.open(sealed, key: fileKey, nonce: header.nonce, aad: header.bytes)
    else { throw .damaged("it cannot be decrypted") }
    return SpoolRecord(received: header.received, mark: mark, content: content)
  }
}

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

  /// Decodes a header.
  ///
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
