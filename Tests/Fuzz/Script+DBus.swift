import DBus

/// Makes a value from a script's bytes.
typealias ValueMaker = @Sendable (inout Script) -> DBusValue

/// Values of strangers as bluetoothd passes them on: mostly valid, sometimes any value.
extension Script {
  /// One of the words, or text from the script, which may be invalid UTF-8.
  mutating func word(of words: [String]) -> String {
    let index = Int(byte())
    return index < 4 * words.count ? words[index % words.count] : String(decoding: value(), as: UTF8.self)
  }

  /// Any value that a message can hold, at most three levels deep.
  mutating func anyValue(depth: Int = 0) -> DBusValue {
    switch byte() % (depth < 3 ? 16 : 11) {
    case 0: .byte(byte())
    case 1: .bool(flag())
    case 2: .int16(Int16(truncatingIfNeeded: u16()))
    case 3: .uint16(UInt16(u16()))
    case 4: .int32(Int32(truncatingIfNeeded: u16() << 16 | u16()))
    case 5: .uint32(UInt32(u16() << 16 | u16()))
    case 6: .int64(flag() ? .max : .min)
    case 7: .uint64(flag() ? .max : 0)
    case 8: .string(String(decoding: value(), as: UTF8.self))
    case 9: .bytes(value())
    case 10: .objectPath("/org/bluez/hci0/dev_00_AA_03_00_00_01")
    case 11: .array(of: "s", (0..<byte() % 4).map { _ in .string(String(decoding: value(), as: UTF8.self)) })
    case 12: .variant(anyValue(depth: depth + 1))
    case 13:
      .dictionary(
        key: "s", value: "v",
        (0..<byte() % 4).map { _ in
          let key = String(decoding: value(), as: UTF8.self)
          return DBusEntry(.string(key), .variant(anyValue(depth: depth + 1)))
        })
    case 14:
      .dictionary(
        key: "q", value: "v",
        (0..<byte() % 4).map { _ in
          let key = UInt16(u16())
          return DBusEntry(.uint16(key), .variant(anyValue(depth: depth + 1)))
        })
    default: .structure([anyValue(depth: depth + 1), anyValue(depth: depth + 1)])
    }
  }

  /// The value that `body` makes of the script, or, one time in eight, any other value.
  mutating func mostly(_ body: ValueMaker) -> DBusValue {
    byte() & 0xE0 == 0xE0 ? anyValue() : body(&self)
  }

  /// Properties of the given names, each with the maker of its usual value, and some with unknown names.
  mutating func properties(_ usual: [(String, ValueMaker)]) -> [String: DBusValue] {
    var properties: [String: DBusValue] = [:]
    for _ in 0..<byte() % 8 {
      let index = Int(byte()) % (usual.count + 1)
      if usual.indices.contains(index) {
        properties[usual[index].0] = mostly(usual[index].1)
      } else {
        properties[String(decoding: value(), as: UTF8.self)] = anyValue()
      }
    }
    return properties
  }
}
