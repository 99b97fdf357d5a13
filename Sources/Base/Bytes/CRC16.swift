/// Sixteen-bit checksums. They detect accidental damage, not deliberate changes.
public enum CRC16 {
  /// CRC-16/KERMIT: polynomial 0x1021 reflected, start 0, no final xor. The checksum of "123456789" is 0x2189.
  ///
  /// CRC-16/CCITT-FALSE, with the same polynomial, is a different checksum: that of "123456789" is 0x29B1.
  public static func kermit(_ bytes: some Collection<UInt8>) -> UInt16 {
    bytes.withContiguousStorageIfAvailable(kermit(buffer:)) ?? kermit(Array(bytes)[...])
  }

  /// Returns the CRC-16/KERMIT of the bytes of a slice.
  public static func kermit(_ bytes: ArraySlice<UInt8>) -> UInt16 {
    bytes.withUnsafeBufferPointer(kermit(buffer:))
  }

  private static func kermit(buffer bytes: UnsafeBufferPointer<UInt8>) -> UInt16 {
    let bytes = UnsafeRawBufferPointer(bytes)
    return tables.withUnsafeBufferPointer { table in
      var crc: UInt16 = 0
      var index = 0
      // Eight bytes in one step: each byte goes through the table for its distance from the end of the step. The eight
      // table reads do not depend on each other.
      while index + 8 <= bytes.count {
        let word = UInt64(littleEndian: bytes.loadUnaligned(fromByteOffset: index, as: UInt64.self)) ^ UInt64(crc)
        crc =
          table[0x700 + byte(word, 0)] ^ table[0x600 + byte(word, 1)] ^ table[0x500 + byte(word, 2)]
          ^ table[0x400 + byte(word, 3)] ^ table[0x300 + byte(word, 4)] ^ table[0x200 + byte(word, 5)]
          ^ table[0x100 + byte(word, 6)] ^ table[byte(word, 7)]
        index += 8
      }
      while index < bytes.count {
        crc = crc >> 8 ^ table[Int(UInt8(truncatingIfNeeded: crc) ^ bytes[index])]
        index += 1
      }
      return crc
    }
  }

  @inline(__always)
  private static func byte(_ word: UInt64, _ index: UInt64) -> Int {
    Int(UInt8(truncatingIfNeeded: word &>> (8 &* index)))
  }

  /// Eight tables of 256 entries. Table `n` gives the effect of a byte that `n` zero bytes follow.
  private static let tables: [UInt16] = {
    var tables: [UInt16] = []
    for byte in UInt16(0)..<256 {
      var crc = byte
      for _ in 0..<8 { crc = crc & 1 == 0 ? crc >> 1 : crc >> 1 ^ 0x8408 }
      tables.append(crc)
    }
    for index in 256..<2048 {
      let before = tables[index - 256]
      tables.append(before >> 8 ^ tables[Int(before & 0xFF)])
    }
    return tables
  }()
}
