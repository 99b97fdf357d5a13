import Compression

/// Reason why bytes are not a packet, or why a packet cannot be encoded.
public enum PacketError: Error, Hashable, Sendable {
  /// There are fewer bytes than in the shortest packet.
  case tooShort(Int)
  /// The version is neither 1 nor 2.
  case badVersion(UInt8)
  /// A section reaches past the end of the bytes.
  case truncated(needed: Int, available: Int)
  /// The payload, or its section, is longer than the limit.
  case payloadTooLong(Int)
  /// The compressed section has no deflate stream.
  case compressedEmpty
  /// The compressed section claims an original size of 0.
  case originalEmpty
  /// The compressed section claims an original size above `Limits.payloadBytes`.
  case originalTooLong(Int)
  /// The compressed section claims a larger original size than its deflate stream can have.
  case ratioTooHigh(original: Int, compressed: Int)
  /// The compressed section does not inflate to its original size.
  case notInflated(CompressionError)
  /// Only version 2 has routes and payloads over 65,535 bytes.
  case needsVersion2
  /// A route of more than 255 hops.
  case routeTooLong(Int)
  /// The signature is not 64 bytes long.
  case badSignature(Int)

  /// Stable name, for counters and programs.
  public var name: String {
    switch self {
    case .tooShort: "TooShort"
    case .badVersion: "BadVersion"
    case .truncated: "Truncated"
    case .payloadTooLong: "PayloadTooLong"
    case .compressedEmpty: "CompressedEmpty"
    case .originalEmpty: "OriginalEmpty"
    case .originalTooLong: "OriginalTooLong"
    case .ratioTooHigh: "RatioTooHigh"
    case .notInflated: "NotInflated"
    case .needsVersion2: "NeedsVersion2"
    case .routeTooLong: "RouteTooLong"
    case .badSignature: "BadSignature"
    }
  }
}

extension PacketError: CustomStringConvertible {
  public var description: String {
    switch self {
    case .tooShort(let count): "\(count) bytes are fewer than the \(Limits.smallestPacket) of the shortest packet"
    case .badVersion(let version): "the version is \(version), not 1 or 2"
    case .truncated(let needed, let available): "truncated: \(needed) bytes needed, \(available) available"
    case .payloadTooLong(let count): "the payload has \(count) bytes, more than its limit"
    case .compressedEmpty: "the compressed payload has no compressed bytes"
    case .originalEmpty: "the compressed payload states an original size of 0"
    case .originalTooLong(let count): "the payload would inflate to \(count) bytes, more than \(Limits.payloadBytes)"
    case .ratioTooHigh(let original, let compressed): "\(compressed) bytes cannot inflate to \(original)"
    case .notInflated(let error): "the payload does not inflate: \(error)"
    case .needsVersion2: "a route or a long payload needs version 2"
    case .routeTooLong(let hops): "a route of \(hops) hops is longer than its limit of \(Limits.routeHops)"
    case .badSignature(let count): "a signature has 64 bytes, not \(count)"
    }
  }
}
