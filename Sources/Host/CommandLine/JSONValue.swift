/// A JSON value; an object keeps its members in the order they were given.
public enum JSONValue: Sendable, Equatable {
  /// A name in an object and what it stands for.
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
  /// For numbers that may be beyond ``int(_:)``.
  case unsigned(UInt64)
  /// Infinity and NaN, which JSON does not have, are written as `null`.
  case double(Double)
  /// A number that was read, as its digits.
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
