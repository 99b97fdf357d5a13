import CommandLine
import DBus

extension DBusValue {
  /// The value as JSON; bytes become an array of numbers, descriptors null.
  public var json: JSONValue {
    switch self {
    case .byte(let value): .int(Int64(value))
    case .bool(let value): .bool(value)
    case .int16(let value): .int(Int64(value))
    case .uint16(let value): .int(Int64(value))
    case .int32(let value): .int(Int64(value))
    case .uint32(let value): .int(Int64(value))
    case .int64(let value): .int(value)
    case .uint64(let value): .unsigned(value)
    case .double(let value): .double(value)
    case .string(let value), .signature(let value): .string(value)
    case .objectPath(let value): .string(value.string)
    case .descriptor: .null
    case .bytes(let bytes): .array(bytes.map { .int(Int64($0)) })
    case .array(_, let elements), .structure(let elements): .array(elements.map(\.json))
    case .dictionary(_, _, let entries):
      .object(entries.map { .init($0.key.text, $0.value.json) })
    case .variant(let value): value.json
    }
  }

  /// The value formatted for a person.
  public var text: String {
    switch unwrapped {
    case .string(let text): text
    case .objectPath(let path): path.string
    case .bool(let value): value ? "yes" : "no"
    case .array(_, let elements): elements.map(\.text).joined(separator: " ")
    case .dictionary(_, _, let entries): entries.map { "\($0.key.text)=\($0.value.text)" }.joined(separator: " ")
    default: asInteger.map(String.init) ?? ""
    }
  }
}

extension JSONValue {
  /// An object with its members sorted by name.
  public static func sorted(_ values: [String: JSONValue]) -> JSONValue {
    .object(values.sorted { $0.key < $1.key }.map { .init($0.key, $0.value) })
  }
}
