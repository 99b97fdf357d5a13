/// Why bytes could not be compressed or inflated.
public enum CompressionError: Error, Hashable, Sendable {
  /// The bytes are not what they should be; the payload is zlib's word for it.
  case corrupt(String)
  /// The bytes end before the stream does.
  case truncated
  /// The inflated bytes would be more than `limit`.
  case tooLarge(limit: Int)
  /// So many bytes are left over behind the end of the stream.
  case trailing(Int)
  /// zlib could not start, for want of memory.
  case unavailable
}

extension CompressionError: CustomStringConvertible {
  public var description: String {
    switch self {
    case .corrupt(let reason): "corrupt compressed bytes: \(reason)"
    case .truncated: "the compressed bytes end too early"
    case .tooLarge(let limit): "more than \(limit) bytes when inflated"
    case .trailing(let count): "\(count) bytes left over behind the compressed ones"
    case .unavailable: "zlib is not available"
    }
  }
}
