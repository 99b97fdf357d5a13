import Radio
import Testing

@Suite("Advertising patterns")
struct AdvertisingPatternTests {
  private static let tilde = AdvertisingPattern(type: 0x09, bytes: [0x7E])
  private static let digit = AdvertisingPattern(type: 0x09, offset: 1, bytes: [0x30, 0x31])

  @Test(
    "A pattern matches an AD structure of its type that has its bytes at its offset, anywhere in the data",
    arguments: [
      ([], false, false),
      ([2, 9, 0x7E], true, false),
      ([2, 8, 0x7E], false, false),
      ([3, 9, 0x20, 0x7E], false, false),
      ([2, 1, 6, 4, 9, 0x7E, 0x30, 0x31], true, true),
      ([4, 9, 0x20, 0x30, 0x31], false, true),
      // The pattern matches the second structure of its type.
      ([2, 9, 0x20, 2, 9, 0x7E], true, false),
      // The pattern extends beyond the end of the structure.
      ([3, 9, 0x7E, 0x30, 2, 0x31, 0], true, false),
      // A truncated structure, one without a type, and the bytes after them.
      ([4, 9, 0x7E, 0x30], false, false),
      ([1, 9, 2, 9, 0x7E], true, false),
      ([0, 2, 9, 0x7E], false, false),
      ([0xFF], false, false),
    ] as [([UInt8], Bool, Bool)])
  func matching(data: [UInt8], isTilde: Bool, isDigit: Bool) {
    #expect(Self.tilde.matches(data[...]) == isTilde)
    #expect(Self.digit.matches(data[...]) == isDigit)
    let padded: [UInt8] = [7, 9, 9] + data
    #expect(Self.tilde.matches(padded[3...]) == isTilde, "a slice is read from where it begins")
  }

  @Test("An advertising pattern has at least one byte, and ends within 31 bytes")
  func validity() {
    let valid = [(0, 1), (0, 31), (30, 1)].map { AdvertisingPattern.isValid(offset: $0.0, count: $0.1) }
    let invalid = [(0, 0), (0, 32), (31, 1), (255, 255)].map { AdvertisingPattern.isValid(offset: $0.0, count: $0.1) }
    #expect(valid == [true, true, true] && invalid == [false, false, false, false])
  }

  @Test(
    "An empty list of patterns matches every packet, and other lists only packets that match one"
  )
  func listening() {
    #expect(Listening(patterns: []).wants([][...]))
    #expect(!Listening(services: []).wants([2, 9, 0x7E][...]))
    let both = Listening(patterns: [Self.tilde, Self.digit])
    #expect(both.wants([2, 9, 0x7E][...]) && both.wants([4, 9, 0, 0x30, 0x31][...]) && !both.wants([2, 9, 0][...]))
  }
}
