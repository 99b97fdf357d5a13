/// The name of a program's service, which a peer requests on an authenticated stream.
///
/// The protocol has one stream to each peer and does not name services. Earshot adds a request at the beginning of the
/// stream, inside TLS. A stream without a request, as other implementations send it, belongs to the service `default`.
public struct ServiceLabel: Hashable, Sendable {
  public static let longest = 64
  /// The service `default`, to which a stream without a request belongs.
  public static let unnamed = ServiceLabel(unchecked: "default")

  public let text: String

  /// Checks a name.
  ///
  /// - Returns: nil unless the text has 1 to 64 characters, each of them a letter or digit of ASCII, `.`, `_` or `-`.
  public init?(_ text: String) {
    guard (1...Self.longest).contains(text.utf8.count), text.utf8.allSatisfy(Self.isAllowed) else { return nil }
    self.text = text
  }

  private init(unchecked text: String) { self.text = text }

  private static func isAllowed(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
      UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "."), UInt8(ascii: "_"), UInt8(ascii: "-"):
      true
    default: false
    }
  }

  /// The request that a client sends first; empty for `unnamed`.
  ///
  ///     mark    1  00
  ///     length  1  1 to 64
  ///     name       `length` bytes
  public var request: [UInt8] {
    self == .unnamed ? [] : [ServiceRequestReader.mark, UInt8(text.utf8.count)] + Array(text.utf8)
  }
}

/// The server's answer to a request: one octet. After `accepted` the stream follows; after any other octet it ends.
public enum ServiceAnswer: UInt8, CaseIterable, Hashable, Sendable {
  case accepted = 0
  /// No program has registered the service.
  case unknownService = 1
  /// The program that has registered the service does not accept connections, or the limit of streams is reached.
  case unavailable = 2
}

/// Reads the request at the beginning of a stream.
public struct ServiceRequestReader: Sendable {
  public enum Outcome: Hashable, Sendable {
    /// More bytes are needed.
    case incomplete
    /// The request is complete.
    ///
    /// - Parameters:
    ///   - isAnswered: whether the client waits for a `ServiceAnswer`.
    ///   - rest: the first bytes of the stream itself.
    case service(ServiceLabel, isAnswered: Bool, rest: [UInt8])
    /// The request has a length of 0 or above 64, or a name with a forbidden character.
    case malformed
  }

  /// The first octet of a request. Streams without a request do not begin with it.
  static let mark: UInt8 = 0

  private var bytes: [UInt8] = []

  public init() {}

  /// Handles the next bytes. It must not be called again after an outcome other than `incomplete`.
  public mutating func receive(_ more: ArraySlice<UInt8>) -> Outcome {
    bytes += more
    guard let first = bytes.first else { return .incomplete }
    guard first == Self.mark else { return .service(.unnamed, isAnswered: false, rest: bytes) }
    guard bytes.count > 1 else { return .incomplete }
    let length = Int(bytes[1])
    guard (1...ServiceLabel.longest).contains(length) else { return .malformed }
    guard bytes.count >= 2 + length else { return .incomplete }
    guard let text = String(validating: bytes[2..<2 + length], as: UTF8.self), let label = ServiceLabel(text) else {
      return .malformed
    }
    return .service(label, isAnswered: true, rest: Array(bytes[(2 + length)...]))
  }
}
