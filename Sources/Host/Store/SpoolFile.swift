import Bytes
import Crypto

/// The file of one record: a `SpoolHeader`, then the record's content, sealed with ChaCha20-Poly1305 under a key that
/// is derived for this file. The header is the seal's additional data.
enum SpoolFile {
  enum Failure: Error, Hashable {
    /// The file's content is invalid; the payload describes the error.
    case damaged(String)
    /// The file may be valid, but was sealed with another key.
    case otherKey
    /// The file is of a different release.
    case otherVersion

    /// Converts a decoding error. A structure of another version is not damaged.
    init(_ error: WireError) {
      self = error == .badValue("version") ? .otherVersion : .damaged("\(error)")
    }
  }

  /// The size of a file with `count` bytes of content.
  static func size(ofContent count: Int) -> Int { SpoolHeader.size + count + ChaChaPoly.tagSize }

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
