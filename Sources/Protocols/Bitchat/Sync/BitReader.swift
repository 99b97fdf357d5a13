/// Reads bits from bytes, most significant bit first.
struct BitReader {
  private let bytes: [UInt8]
  private var next = 0
  /// Prefetched bits, left-aligned.
  private var window: UInt64 = 0
  private var held = 0

  init(_ bytes: [UInt8]) {
    self.bytes = bytes
  }

  /// Reads ones up to a zero, and returns their number; nil if the bits end before a zero.
  mutating func ones() -> Int? {
    var count = 0
    while true {
      fill()
      guard held > 0 else { return nil }
      let run = min(held, (~window).leadingZeroBitCount)
      count += run
      guard run < held else {
        take(held)
        continue
      }
      take(run + 1)
      return count
    }
  }

  /// Reads the next `count` bits, 1 to 32, as a number; nil if there are fewer.
  mutating func bits(_ count: Int) -> UInt64? {
    fill()
    guard count <= held else { return nil }
    let value = window >> UInt64(64 - count)
    take(count)
    return value
  }

  private mutating func take(_ count: Int) {
    window = count < 64 ? window << UInt64(count) : 0
    held -= count
  }

  private mutating func fill() {
    while held <= 56, next < bytes.count {
      window |= UInt64(bytes[next]) << UInt64(56 - held)
      next += 1
      held += 8
    }
  }
}
