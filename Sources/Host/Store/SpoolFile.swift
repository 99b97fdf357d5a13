import Bytes
import Crypto

/// The file of one kept credential: a `SpoolHeader`, then, sealed with ChaCha20-Poly1305 under a key of its own:
///
/// | bytes | field |
/// |---|---|
/// | 1 + n | dialect, UTF-8 |
/// | 1 + n | peer, UTF-8 |
/// | rest | credential |
enum SpoolFile {
  enum Failure: Error, Hashable {
    /// It is not what was written; the payload says where.
    case damaged(String)
    /// It may be whole, but another key sealed it.
    case otherKey
    /// Another release wrote it.
    case otherVersion
  }

  /// How large the file of an entry is; nil if one of its texts is too long.
  static func size(of entry: SpoolEntry) -> Int? {
    guard entry.dialect.utf8.count <= 0xFF, entry.peer.utf8.count <= 0xFF else { return nil }
    let plain = 2 + entry.dialect.utf8.count + entry.peer.utf8.count + entry.credential.count
    return SpoolHeader.size + plain + ChaChaPoly.tagSize
  }

  /// - Throws: `tooLarge` for what `size` has no answer to.
  static func seal(_ entry: SpoolEntry, id: SpoolID, nonce: [UInt8], key: SpoolKey) throws(StoreError) -> [UInt8] {
    guard let size = size(of: entry), let sealedCount = UInt32(exactly: size - SpoolHeader.size) else {
      throw StoreError(.tooLarge, "A credential, or what is to be kept with it, is too long for its file.")
    }
    let header = SpoolHeader(keyID: key.id, id: id, received: entry.received, nonce: nonce, sealedCount: sealedCount)
    var plain = ByteWriter(capacity: size)
    for text in [entry.dialect, entry.peer] {
      plain.u8(UInt8(text.utf8.count))
      plain.append(text.utf8)
    }
    plain.append(entry.credential)
    let fileKey = try key.key(for: id)
    do throws(CryptoError) {
      return header.bytes + (try ChaChaPoly.seal(plain.bytes, key: fileKey, nonce: nonce, aad: header.bytes))
    } catch {
      throw StoreError(.failed, "A credential cannot be sealed: \(error).")
    }
  }

  static func open(_ bytes: [UInt8], id: SpoolID, key: SpoolKey) throws(Failure) -> SpoolEntry {
    let header: SpoolHeader
    let sealed: ArraySlice<UInt8>
    do throws(WireError) {
      var reader = ByteReader(bytes)
      header = try SpoolHeader(reading: &reader)
      sealed = try reader.bytes(Int(header.sealedCount))
      try reader.finish()
    } catch {
      throw error == .badValue("version") ? .otherVersion : .damaged("\(error)")
    }
    guard header.id == id else { throw .damaged("it is the file of another credential") }
    guard header.keyID == key.id else { throw .otherKey }
    guard let fileKey = try? key.key(for: id),
      let plain = try? ChaChaPoly.open(sealed, key: fileKey, nonce: header.nonce, aad: header.bytes)
    else { throw .damaged("its seal is broken") }
    do throws(WireError) {
      return try SpoolEntry(received: header.received, plain: plain)
    } catch {
      throw .damaged("\(error)")
    }
  }
}

extension SpoolEntry {
  fileprivate init(received: Int64, plain: [UInt8]) throws(WireError) {
    var reader = ByteReader(plain)
    self.init(
      received: received, dialect: try reader.text("dialect"), peer: try reader.text("peer"),
      credential: Array(reader.rest()))
  }
}

extension ByteReader {
  fileprivate mutating func text(_ field: String) throws(WireError) -> String {
    let bytes = try bytes(Int(try u8()))
    guard let text = String(validating: bytes, as: UTF8.self) else { throw .badValue(field) }
    return text
  }
}
