/// Writes bits into bytes, most significant bit first.
struct BitWriter {
  private var bytes: [UInt8] = []
  /// Bits of the incomplete last byte, right-aligned.
  private var pending: UInt64 = 0
  private var count = 0

  init(capacity: Int) {
    bytes.reserveCapacity(capacity)
  }

  /// Writes `number` ones and a zero.
  mutating func ones(_ number: Int) {
    var left = number
    while left >= 32 {
      bits(0xFFFF_FFFF, 32)
      left -= 32
    }
    bits((1 << UInt64(left) - 1) << 1, left + 1)
  }

  /// Writes the lowest `width` bits of the value, up to 33.
  mutating func bits(_ value: UInt64, _ width: Int) {
    pending = pending << UInt64(width) | value
    count += width
    while count >= 8 {
      count -= 8
      bytes.append(UInt8(truncatingIfNeeded: pending >> UInt64(count)))
    }
  }

  /// Returns the bytes; the last one is filled with zeros.
  mutating func finish() -> [UInt8] {
    if count > 0 { bits(0, 8 - count) }
    return bytes
  }
}
