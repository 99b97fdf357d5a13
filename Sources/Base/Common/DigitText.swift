extension FixedWidthInteger {
  /// Parses a number that consists of ASCII digits alone, for text of peers, users and files.
  ///
  /// It is nil for an empty text, for any other character, and for a number out of range. The initializers of the
  /// standard library also accept a sign: `+5` for all types, and `-0` for unsigned ones.
  ///
  /// - Parameter radix: 2 to 36; digits above 9 are letters of either case.
  @inlinable
  public init?(digits text: some StringProtocol, radix: Int = 10) {
    guard let first = text.utf8.first, first != UInt8(ascii: "+"), first != UInt8(ascii: "-") else { return nil }
    self.init(text, radix: radix)
  }
}
