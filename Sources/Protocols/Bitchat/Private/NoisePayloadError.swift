import Bytes

/// Reason why the plaintext of a Noise packet is rejected. It is dropped and not acknowledged.
public enum NoisePayloadError: Error, Hashable, Sendable {
  case empty
  /// The type is unknown, or known and not supported.
  case unknownType(UInt8)
  case malformed(WireError)
}

extension NoisePayloadError: CustomStringConvertible {
  public var description: String {
    switch self {
    case .empty: "an empty Noise payload"
    case .unknownType(let type): "unknown Noise payload type \(type)"
    case .malformed(let error): "a malformed Noise payload: \(error)"
    }
  }
}
