/// Numbers in the encoding of bit fields: little endian, without trailing zero bytes, at least one byte.
enum LittleEndian {
  /// Returns the number in the first eight bytes.
  static func number(_ bytes: ArraySlice<UInt8>) -> UInt64 {
    bytes.prefix(8).reversed().reduce(0) { $0 << 8 | UInt64($1) }
  }

  static func bytes(_ number: UInt64) -> [UInt8] {
    var bytes: [UInt8] = []
    var rest = number
    repeat {
      bytes.append(UInt8(truncatingIfNeeded: rest))
      rest >>= 8
    } while rest > 0
    return bytes
  }
}
