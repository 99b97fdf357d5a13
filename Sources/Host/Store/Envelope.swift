import Bytes
import Crypto

/// The header of a file, which detects damage before the content is parsed.
///
/// | bytes | field |
/// |---|---|
/// | 8 | `EARSHOT1` |
/// | 2 | version of the content, big endian |
/// | 4 | length of the content, big endian |
/// | 32 | SHA-256, or HMAC-SHA-256 with a key, of the fields above, the file's name and the content |
/// | rest | content |
struct Envelope {
  static let magic = Array("EARSHOT1".utf8)
  static let headerSize = 14 + SHA256.size

  let name: String
  let key: SecretBytes?

  func seal(_ content: some Collection<UInt8>, version: UInt16) -> [UInt8] {
    var writer = ByteWriter(capacity: Self.headerSize + content.count)
    writer.append(Self.magic)
    writer.u16be(version)
    writer.u32be(UInt32(clamping: content.count))
    let code = code(writer.bytes[...], content)
    writer.append(code)
    writer.append(content)
    return writer.bytes
  }

  /// Verifies the header of a file that `seal` encoded, and returns the version and the content.
  func open(_ bytes: [UInt8]) throws(WireError) -> (version: UInt16, content: ArraySlice<UInt8>) {
    var reader = ByteReader(bytes)
    guard try reader.bytes(Self.magic.count).elementsEqual(Self.magic) else { throw .badValue("magic") }
    let version = try reader.u16be()
    let length = try reader.u32be()
    let head = bytes[..<(bytes.count - reader.remaining)]
    let code = try reader.bytes(SHA256.size)
    let content = try reader.bytes(Int(length))
    try reader.finish()
    guard ConstantTime.equal(code, self.code(head, content)) else { throw .badValue("checksum") }
    return (version, content)
  }

  private func code(_ head: ArraySlice<UInt8>, _ content: some Collection<UInt8>) -> [UInt8] {
    // The name is preceded by its length, so that no other split into name and content gives the same bytes.
    let name = Array(self.name.utf8)
    guard let key else {
      var hash = SHA256()
      hash.update(head)
      hash.update([UInt8(clamping: name.count)] + name)
      hash.update(content)
      return hash.finish()
    }
    return HMACSHA256.authenticationCode(for: head + [UInt8(clamping: name.count)] + name + content, key: key)
  }
}
