/// A JSON value; an object preserves the order of its members.
public enum JSONValue: Sendable, Equatable {
  /// A name in an object, and its value.
  public struct Member: Sendable, Equatable {
    public let name: String
    public let value: JSONValue

    public init(_ name: String, _ value: JSONValue) {
      self.name = name
      self.value = value
    }
  }

  case null
  case bool(Bool)
  case int(Int64)
  /// An integer that may be outside the range of ``int(_:)``.
  case unsigned(UInt64)
  /// Infinity and NaN, which JSON cannot represent, are written as `null`.
  case double(Double)
  /// A number from a JSON text, as its digits.
  case number(String)
  case string(String)
  case array([JSONValue])
  case object([Member])

  /// Null if there is no string.
  public static func optional(_ string: String?) -> JSONValue {
    string.map { .string($0) } ?? .null
  }

  /// The value of the object's member with this name; nil if there is no such member, or if this is not an object.
  public subscript(name: String) -> JSONValue? {
    guard case .object(let members) = self else { return nil }
    return members.first { $0.name == name }?.value
  }

  /// The text of a string; nil for any other value.
  public var asString: String? {
    if case .string(let text) = self { text } else { nil }
  }
}

extension JSONValue: ExpressibleByStringLiteral, ExpressibleByIntegerLiteral, ExpressibleByFloatLiteral,
  ExpressibleByBooleanLiteral, ExpressibleByNilLiteral, ExpressibleByArrayLiteral, ExpressibleByDictionaryLiteral
{
  public init(stringLiteral value: String) { self = .string(value) }
  public init(integerLiteral value: Int64) { self = .int(value) }
  public init(floatLiteral value: Double) { self = .double(value) }
  public init(booleanLiteral value: Bool) { self = .bool(value) }
  public init(nilLiteral: ()) { self = .null }
  public init(arrayLiteral elements: JSONValue...) { self = .array(elements) }
  public init(dictionaryLiteral elements: (String, JSONValue)...) {
    self = .object(elements.map { Member($0.0, $0.1) })
  }
}
