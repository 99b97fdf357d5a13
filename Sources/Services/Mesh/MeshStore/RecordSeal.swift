import Bytes
import Crypto
import Store

/// Seals rows with XChaCha20-Poly1305 under a key derived from the mesh's key. A row is bound to its number and time:
/// moved to another row, it cannot be opened.
///
/// | bytes | field |
/// |---|---|
/// | 24 | nonce, random |
/// | n | content, sealed; the number of the row and its time, 8 bytes each, big endian, are additional data |
/// | 16 | tag |
struct RecordSeal: Sendable {
  private let key: SecretBytes
  private let fileKey: SecretBytes
  private var random: any RandomSource & Sendable

  init(_ key: StoreKey, random: any RandomSource & Sendable = SystemRandom()) throws(StoreError) {
    self.key = try key.key(for: "records", count: XChaChaPoly.keySize)
    fileKey = try key.key(for: "files", count: XChaChaPoly.keySize)
    self.random = random
  }

  mutating func seal(_ content: [UInt8], id: Int64, time: UInt64) throws(StoreError) -> [UInt8] {
    do throws(CryptoError) {
      return try XChaChaPoly.sealWithNonce(content, key: key, aad: Self.place(id, time), randomFrom: &random)
    } catch {
      throw StoreError(.failed, "A record cannot be encrypted: \(error).")
    }
  }

  /// Opens a row. Nil if it was changed, or sealed with another key or for another row.
  func open(_ sealed: [UInt8], id: Int64, time: UInt64) -> [UInt8]? {
    try? XChaChaPoly.openWithNonce(sealed, key: key, aad: Self.place(id, time))
  }

  /// Seals the content of a file with a separate key, bound to its location.
  mutating func seal(file content: [UInt8], place: UInt64) throws(StoreError) -> [UInt8] {
    do throws(CryptoError) {
      return try XChaChaPoly.sealWithNonce(content, key: fileKey, aad: Self.place(0, place), randomFrom: &random)
    } catch {
      throw StoreError(.failed, "A file cannot be encrypted: \(error).")
    }
  }

  /// Opens the content of a file. Nil if it was changed.
  func open(file sealed: [UInt8], place: UInt64) -> [UInt8]? {
    try? XChaChaPoly.openWithNonce(sealed, key: fileKey, aad: Self.place(0, place))
  }

  private static func place(_ id: Int64, _ time: UInt64) -> [UInt8] {
    var writer = ByteWriter(capacity: 16)
    writer.u64be(UInt64(bitPattern: id))
    writer.u64be(time)
    return writer.bytes
  }
}
