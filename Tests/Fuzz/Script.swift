/// An input read as a sequence of steps, which ends with the input.
struct Script {
  private var rest: ArraySlice<UInt8>

  init(_ bytes: UnsafeRawBufferPointer) {
    rest = Array(bytes)[...]
  }

  var isAtEnd: Bool { rest.isEmpty }

  /// One byte; 0 at the end.
  mutating func byte() -> UInt8 { rest.popFirst() ?? 0 }

  mutating func flag() -> Bool { byte() & 1 == 1 }

  mutating func u16() -> Int { Int(byte()) << 8 | Int(byte()) }

  mutating func bytes(_ count: Int) -> [UInt8] {
    defer { rest = rest.dropFirst(count) }
    return Array(rest.prefix(count))
  }

  /// A length byte, and this number of bytes.
  mutating func value() -> [UInt8] { bytes(Int(byte())) }

  mutating func choice<Element>(of elements: [Element]) -> Element { elements[Int(byte()) % elements.count] }
}
