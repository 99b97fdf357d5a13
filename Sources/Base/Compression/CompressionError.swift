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
    case .corrupt(let reason): "the compressed data is corrupt: \(reason)"
    case .truncated: "the compressed data is truncated"
    case .tooLarge(let limit): "inflates to more than \(limit) bytes"
    case .wrongSize(let expected, let got): "inflates to \(got) bytes instead of \(expected)"
    case .trailing(let count): "\(count) bytes follow the compressed data"
    case .unavailable: "zlib is not available"
    }
  }
}
