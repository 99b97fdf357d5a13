/// The reason why bytes could not be compressed or inflated.
public enum CompressionError: Error, Hashable, Sendable {
  /// The bytes are not a compressed stream; the payload is zlib's reason.
  case corrupt(String)
  /// The bytes end before the stream does.
  case truncated
  /// The inflated bytes would be more than `limit`.
  case tooLarge(limit: Int)
  /// The number of inflated bytes is less than the number that was announced.
  case wrongSize(expected: Int, got: Int)
  /// This many bytes follow the end of the stream.
  case trailing(Int)
  /// zlib could not allocate memory.
  case unavailable
}

extension CompressionError: CustomStringConvertible {
  public var description: String {
    switch self {
    case .corrupt(let reason): "corrupt compressed bytes: \(reason)"
    case .truncated: "the compressed bytes end too early"
    case .tooLarge(let limit): "more than \(limit) bytes when inflated"
    case .wrongSize(let expected, let got): "\(got) bytes when inflated, expected \(expected)"
    case .trailing(let count): "\(count) bytes follow the compressed ones"
    case .unavailable: "zlib is not available"
    }
  }
}
