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
  /// `ay` as one buffer; received values of type `ay` always have this form.
  case bytes([UInt8])
  /// Elements of one type, whose signature is explicit because the array may be empty.
  case array(of: String, [DBusValue])
  /// At least one member.
  case structure([DBusValue])
  /// `a{kv}`: the signature of the key (a basic type) and of the value, and the entries in order.
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
