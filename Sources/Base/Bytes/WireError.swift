/// The reason why bytes or text from an untrusted source are refused.
public enum WireError: Error, Hashable, Sendable {
  /// A field needs more bytes than are unread.
  case truncated(needed: Int, available: Int)
  /// A field has a value that its protocol does not allow; the payload names the field.
  case badValue(String)
  /// A field is longer than its limit, in bytes unless the field counts something else.
  case tooLong(field: String, limit: Int)
  /// This many bytes follow the last field.
  case trailing(Int)
}

extension WireError: CustomStringConvertible {
  public var description: String {
    switch self {
    case .truncated(let needed, let available): "truncated: \(needed) bytes needed, \(available) available"
    case .badValue(let field): "bad value in \(field)"
    case .tooLong(let field, let limit): "\(field) is longer than its limit of \(limit)"
    case .trailing(let count): "\(count) bytes follow the last field"
    }
  }
}
