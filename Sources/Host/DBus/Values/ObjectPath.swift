/// The path of an object on the bus: `/`, or elements of `[A-Za-z0-9_]`, each preceded by a slash.
public struct ObjectPath: Hashable, Sendable, ExpressibleByStringLiteral, CustomStringConvertible {
  public let string: String

  /// Validates `string`; nil if it is not a path.
  public init?(_ string: String) {
    guard Validity.isPath(string) else { return nil }
    self.string = string
  }

  /// A path in the source code; `StaticString`, so that input cannot be passed.
  public init(stringLiteral literal: StaticString) {
    let string = literal.description
    precondition(Validity.isPath(string), "not an object path: \(string)")
    self.string = string
  }

  /// A path that libdbus or this type has validated.
  init(checked string: String) {
    self.string = string
  }

  public static let root: ObjectPath = "/"

  public var description: String { string }

  /// The elements between the slashes; an empty list for `/`.
  public var elements: [Substring] { string.split(separator: "/") }

  /// The last element; empty for `/`.
  public var lastElement: String { elements.last.map(String.init) ?? "" }

  /// The path without its last element; nil for `/`.
  public var parent: ObjectPath? {
    guard self != .root, let slash = string.lastIndex(of: "/") else { return nil }
    return slash == string.startIndex ? .root : ObjectPath(checked: String(string[..<slash]))
  }

  /// Appends an element. An invalid element is escaped. An external name, such as a nickname or a file name, should
  /// always be escaped, so that no two names give one path: `child(ObjectPath.escape(name))`.
  public func child(_ element: String) -> ObjectPath {
    let element = Validity.isPathElement(element) ? element : Self.escape(element)
    return ObjectPath(checked: self == .root ? "/" + element : string + "/" + element)
  }

  /// Whether this is `ancestor` or below it.
  public func isWithin(_ ancestor: ObjectPath) -> Bool {
    self == ancestor || ancestor == .root || string.utf8.starts(with: (ancestor.string + "/").utf8)
  }

  /// Encodes `name` as one element: each byte except letters and digits becomes `_` and two hex digits, as does a
  /// leading digit. An empty name becomes `_`. The encoding is that of systemd, and can be reversed.
  public static func escape(_ name: String) -> String {
    guard !name.isEmpty else { return "_" }
    var element = ""
    for (index, byte) in name.utf8.enumerated() {
      let isDigit = (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte)
      if Validity.isASCIIAlphanumeric(byte), index > 0 || !isDigit {
        element.unicodeScalars.append(Unicode.Scalar(byte))
      } else {
        element += byte < 16 ? "_0" : "_"
        element += String(byte, radix: 16)
      }
    }
    return element
  }
}
