import Bytes

/// Why the plaintext of a Noise packet is not understood. It is dropped and not acknowledged.
public enum NoisePayloadError: Error, Hashable, Sendable {
  case empty
  /// A type that this implementation does not know, or knows and does not take.
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
