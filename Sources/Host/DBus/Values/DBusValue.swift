import Common

/// One typed D-Bus value.
///
/// A value from the bus is well-formed. A value that this process creates is checked when it is sent: texts without
/// NUL, valid signatures, array elements of the declared type, and the limits on depth and size.
public enum DBusValue: Hashable, Sendable {
  case byte(UInt8)
  case bool(Bool)
  case int16(Int16)
  case uint16(UInt16)
  case int32(Int32)
  case uint32(UInt32)
  case int64(Int64)
  case uint64(UInt64)
  case double(Double)
  case string(String)
  case objectPath(ObjectPath)
  case signature(String)
  case descriptor(FileDescriptor)
  /// A byte array (`ay`) as one buffer. Received values of type `ay` always have this form.
  case bytes([UInt8])
  /// Elements of one type, whose signature is explicit because the array may be empty.
  case array(of: String, [DBusValue])
  /// A structure with at least one member.
  case structure([DBusValue])
  /// A dictionary `a{kv}`: the signature of the key (a basic type) and of the value, and the entries in order.
  indirect case dictionary(key: String, value: String, [DBusEntry])
  indirect case variant(DBusValue)

  /// The signature of this value's type.
  public var signature: String {
    switch self {
    case .byte: "y"
    case .bool: "b"
    case .int16: "n"
    case .uint16: "q"
    case .int32: "i"
    case .uint32: "u"
    case .int64: "x"
    case .uint64: "t"
    case .double: "d"
    case .string: "s"
    case .objectPath: "o"
    case .signature: "g"
    case .descriptor: "h"
    case .bytes: "ay"
    case .array(let element, _): "a" + element
    case .structure(let members): "(" + members.signature + ")"
    case .dictionary(let key, let value, _): "a{" + key + value + "}"
    case .variant: "v"
    }
  }
}

/// One entry of a dictionary.
public struct DBusEntry: Hashable, Sendable {
  public let key: DBusValue
  public let value: DBusValue

  public init(_ key: DBusValue, _ value: DBusValue) {
    self.key = key
    self.value = value
  }
}

extension [DBusValue] {
  /// The concatenated signatures of all values.
  public var signature: String {
    reduce(into: "") { $0 += $1.signature }
  }
}

/// Typed access to values. Each accessor unwraps variants, and returns nil if the value is of another type.
extension DBusValue {
  /// The value without the variants around it.
  public var unwrapped: DBusValue {
    var value = self
    while case .variant(let inner) = value { value = inner }
    return value
  }

  public var asString: String? {
    if case .string(let value) = unwrapped { value } else { nil }
  }

  public var asObjectPath: ObjectPath? {
    if case .objectPath(let value) = unwrapped { value } else { nil }
  }

  public var asBool: Bool? {
    if case .bool(let value) = unwrapped { value } else { nil }
  }

  public var asByte: UInt8? {
    if case .byte(let value) = unwrapped { value } else { nil }
  }

  public var asUInt16: UInt16? {
    if case .uint16(let value) = unwrapped { value } else { nil }
  }

  public var asUInt32: UInt32? {
    if case .uint32(let value) = unwrapped { value } else { nil }
  }

  public var asUInt64: UInt64? {
    if case .uint64(let value) = unwrapped { value } else { nil }
  }

  /// The value of an integer of any type, if it fits into `Int`.
  public var asInteger: Int? {
    switch unwrapped {
    case .byte(let value): Int(value)
    case .int16(let value): Int(value)
    case .uint16(let value): Int(value)
    case .int32(let value): Int(value)
    case .uint32(let value): Int(value)
    case .int64(let value): Int(exactly: value)
    case .uint64(let value): Int(exactly: value)
    default: nil
    }
  }

  public var asDescriptor: FileDescriptor? {
    if case .descriptor(let value) = unwrapped { value } else { nil }
  }

  /// The bytes of `ay`, in either representation.
  public var asBytes: [UInt8]? {
    switch unwrapped {
    case .bytes(let bytes): return bytes
    case .array("y", let elements):
      let bytes = elements.compactMap(\.asByte)
      return bytes.count == elements.count ? bytes : nil
    default: return nil
    }
  }

  /// The elements of an array, or the members of a structure.
  public var asArray: [DBusValue]? {
    switch unwrapped {
    case .array(_, let elements): elements
    case .structure(let members): members
    case .bytes(let bytes): bytes.map { .byte($0) }
    default: nil
    }
  }

  /// The elements of an array of strings (`as`).
  public var asStrings: [String]? {
    guard case .array("s", let elements) = unwrapped else { return nil }
    return elements.compactMap(\.asString)
  }

  /// A dictionary whose keys are strings or object paths, with its values unwrapped. If several entries have equal
  /// keys, the last one counts.
  public var asDictionary: [String: DBusValue]? {
    guard case .dictionary(let key, _, let entries) = unwrapped, key == "s" || key == "o" else { return nil }
    var dictionary: [String: DBusValue] = [:]
    for entry in entries {
      guard let key = entry.key.asString ?? entry.key.asObjectPath?.string else { continue }
      dictionary[key] = entry.value.unwrapped
    }
    return dictionary
  }

  /// The unwrapped value of a dictionary entry; nil if this is not a dictionary or has no such entry.
  public subscript(key: String) -> DBusValue? {
    guard case .dictionary(_, _, let entries) = unwrapped else { return nil }
    return entries.last { ($0.key.asString ?? $0.key.asObjectPath?.string) == key }?.value.unwrapped
  }
}

/// Creates frequently used values.
extension DBusValue {
  /// Creates an array of strings (`as`).
  public static func strings(_ strings: some Sequence<String>) -> DBusValue {
    .array(of: "s", strings.map { .string($0) })
  }

  /// Creates a dictionary of counts (`a{st}`), in the given order.
  public static func tallies(_ tallies: some Sequence<Tally>) -> DBusValue {
    .dictionary(key: "s", value: "t", tallies.map { DBusEntry(.string($0.name), .uint64($0.count)) })
  }

  /// Creates a dictionary of variants (`a{sv}`), sorted by key. Each value is wrapped in a variant, unless it is one.
  public static func options(_ options: [String: DBusValue]) -> DBusValue {
    .dictionary(
      key: "s", value: "v",
      options.sorted { $0.key < $1.key }.map { DBusEntry(.string($0.key), $0.value.inVariant) })
  }

  /// The value wrapped in a variant, unless it is one.
  var inVariant: DBusValue {
    if case .variant = self { self } else { .variant(self) }
  }
}

/// D-Bus type codes as libdbus's integers. libdbus defines them as macros that Swift does not import.
enum TypeCode {
  static let byte = Int32(UInt8(ascii: "y"))
  static let bool = Int32(UInt8(ascii: "b"))
  static let int16 = Int32(UInt8(ascii: "n"))
  static let uint16 = Int32(UInt8(ascii: "q"))
  static let int32 = Int32(UInt8(ascii: "i"))
  static let uint32 = Int32(UInt8(ascii: "u"))
  static let int64 = Int32(UInt8(ascii: "x"))
  static let uint64 = Int32(UInt8(ascii: "t"))
  static let double = Int32(UInt8(ascii: "d"))
  static let string = Int32(UInt8(ascii: "s"))
  static let objectPath = Int32(UInt8(ascii: "o"))
  static let signature = Int32(UInt8(ascii: "g"))
  static let descriptor = Int32(UInt8(ascii: "h"))
  static let array = Int32(UInt8(ascii: "a"))
  static let variant = Int32(UInt8(ascii: "v"))
  static let structure = Int32(UInt8(ascii: "r"))
  static let dictionaryEntry = Int32(UInt8(ascii: "e"))
  static let none: Int32 = 0
}
