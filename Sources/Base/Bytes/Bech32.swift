/// Bytes as text with a prefix that names their meaning and a checksum of six characters (BIP-173). The checksum finds
/// any four wrong characters.
///
///     text  prefix, "1", five bits per character, checksum 6 characters
public enum Bech32 {
  /// Maximum length of a text, in characters (BIP-173).
  public static let limit = 90

  /// The bytes as text in lower case.
  ///
  /// - Parameter prefix: 1 or more characters in lower case, without upper-case letters.
  public static func encode(_ bytes: some Collection<UInt8>, prefix: String) -> String {
    var values: [UInt8] = []
    var pending: UInt32 = 0
    var bits = 0
    for byte in bytes {
      pending = pending << 8 | UInt32(byte)
      bits += 8
      while bits >= 5 {
        bits -= 5
        values.append(UInt8(truncatingIfNeeded: pending >> bits) & 0x1F)
      }
    }
    if bits > 0 { values.append(UInt8(truncatingIfNeeded: pending << (5 - bits)) & 0x1F) }
    let check = polymod(expanded(Array(prefix.utf8)) + values + [UInt8](repeating: 0, count: 6)) ^ 1
    values += (0..<6).map { UInt8(truncatingIfNeeded: check >> UInt32(5 * (5 - $0))) & 0x1F }
    return prefix + "1" + String(decoding: values.map { alphabet[Int($0)] }, as: UTF8.self)
  }

  /// Decodes a text in lower or upper case, and returns its bytes.
  ///
  /// Throws `tooLong` over 90 characters, and `badValue("bech32")` for mixed case, another prefix, a character outside
  /// the alphabet, a wrong checksum, or unused bits that are not zero.
  public static func decode(_ text: some StringProtocol, prefix: String) throws(WireError) -> [UInt8] {
    let characters = Array(text.utf8)
    guard characters.count <= limit else { throw .tooLong(field: "bech32", limit: limit) }
    let hasLower = characters.contains { (UInt8(ascii: "a")...UInt8(ascii: "z")).contains($0) }
    let hasUpper = characters.contains { (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains($0) }
    guard !(hasLower && hasUpper) else { throw .badValue("bech32") }
    let small = hasUpper ? characters.map { isUpper($0) ? $0 | 0x20 : $0 } : characters
    let head = Array(prefix.utf8) + [UInt8(ascii: "1")]
    guard small.starts(with: head), small.count >= head.count + 6 else { throw .badValue("bech32") }
    var values: [UInt8] = []
    for character in small.dropFirst(head.count) {
      guard let value = alphabet.firstIndex(of: character) else { throw .badValue("bech32") }
      values.append(UInt8(value))
    }
    guard polymod(expanded(Array(prefix.utf8)) + values) == 1 else { throw .badValue("bech32") }
    var bytes: [UInt8] = []
    var pending: UInt32 = 0
    var bits = 0
    for value in values.dropLast(6) {
      pending = pending << 5 | UInt32(value)
      bits += 5
      if bits >= 8 {
        bits -= 8
        bytes.append(UInt8(truncatingIfNeeded: pending >> bits))
      }
    }
    guard bits < 5, pending & (1 << bits - 1) == 0 else { throw .badValue("bech32") }
    return bytes
  }

  private static let alphabet = Array("qpzry9x8gf2tvdw0s3jn54khce6mua7l".utf8)

  private static func isUpper(_ byte: UInt8) -> Bool { (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains(byte) }

  /// The prefix as the checksum covers it: the high bits, a zero, the low bits.
  private static func expanded(_ prefix: [UInt8]) -> [UInt8] {
    prefix.map { $0 >> 5 } + [0] + prefix.map { $0 & 0x1F }
  }

  private static func polymod(_ values: [UInt8]) -> UInt32 {
    let generators: [UInt32] = [0x3B6A_57B2, 0x2650_8E6D, 0x1EA1_19FA, 0x3D42_33DD, 0x2A14_62B3]
    var check: UInt32 = 1
    for value in values {
      let top = check >> 25
      check = (check & 0x1FF_FFFF) << 5 ^ UInt32(value)
      for (index, generator) in generators.enumerated() where top >> UInt32(index) & 1 == 1 { check ^= generator }
    }
    return check
  }
}
