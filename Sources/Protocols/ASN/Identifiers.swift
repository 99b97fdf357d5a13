import Bytes
import Crypto

/// A user: its public encryption key, 32 octets (Curve25519). Keys are ordered by their octets.
public struct UserKey: Hashable, Sendable, Comparable {
  public static let size = 32
  private let words: Words

  /// Checks the length. Throws `badValue` for anything but 32 octets.
  public init(_ bytes: some Collection<UInt8>) throws(WireError) {
    guard bytes.count == Self.size else { throw .badValue("user key") }
    words = Words(bytes)
  }

  public init(_ key: X25519.PublicKey) {
    words = key.withBytes { Words($0) }
  }

  /// Reads a key of 32 octets.
  public init(reading reader: inout ByteReader) throws(WireError) {
    words = Words(try reader.bytes(Self.size))
  }

  public var bytes: [UInt8] { words.bytes }
  /// The key as 64 lower-case hexadecimal digits.
  public var hex: String { Hex.encode(bytes) }

  public static func < (left: UserKey, right: UserKey) -> Bool { left.words < right.words }
}

extension UserKey: CustomStringConvertible {
  public var description: String { String(hex.prefix(16)) }
}

/// The SHA-512 of a whole blob, 64 octets. A blob is named, stored and referenced by its sum.
public struct Sum: Hashable, Sendable, Comparable {
  public static let size = SHA512.size
  private let high: Words
  private let low: Words

  /// Checks the length. Throws `badValue` for anything but 64 octets.
  public init(_ bytes: some Collection<UInt8>) throws(WireError) {
    guard bytes.count == Self.size else { throw .badValue("sum") }
    self.init(checked: Array(bytes))
  }

  /// Computes the sum of the octets of a blob.
  public init(of blob: some Collection<UInt8>) {
    self.init(checked: SHA512.hash(blob))
  }

  private init(checked bytes: [UInt8]) {
    high = Words(bytes.prefix(32))
    low = Words(bytes.dropFirst(32))
  }

  public var bytes: [UInt8] { high.bytes + low.bytes }
  /// The sum as 128 lower-case hexadecimal digits.
  public var hex: String { Hex.encode(bytes) }

  public static func < (left: Sum, right: Sum) -> Bool {
    left.high == right.high ? left.low < right.low : left.high < right.high
  }

  /// Decodes a list of sums of 64 octets each. Throws `badValue` if the list is empty or ends within a sum.
  public static func list(_ content: ArraySlice<UInt8>) throws(WireError) -> [Sum] {
    guard !content.isEmpty, content.count.isMultiple(of: size) else { throw .badValue("list of sums") }
    return stride(from: content.startIndex, to: content.endIndex, by: size).map {
      Sum(checked: Array(content[$0..<$0 + size]))
    }
  }
}

extension Sum: CustomStringConvertible {
  public var description: String { String(hex.prefix(16)) }
}

/// Thirty-two octets as four numbers, most significant octet first, so that they are ordered as by `memcmp`.
private struct Words: Hashable, Sendable, Comparable {
  private let first, second, third, fourth: UInt64

  /// Uses the first 32 octets of the collection; missing octets count as 0.
  init(_ bytes: some Collection<UInt8>) {
    var words: [UInt64] = [0, 0, 0, 0]
    for (index, byte) in bytes.prefix(32).enumerated() {
      words[index / 8] |= UInt64(byte) << UInt64(56 - 8 * (index % 8))
    }
    (first, second, third, fourth) = (words[0], words[1], words[2], words[3])
  }

  var bytes: [UInt8] {
    [first, second, third, fourth].flatMap { word in
      (0..<8).map { UInt8(truncatingIfNeeded: word >> UInt64(56 - 8 * $0)) }
    }
  }

  static func < (left: Words, right: Words) -> Bool {
    if left.first != right.first { return left.first < right.first }
    if left.second != right.second { return left.second < right.second }
    if left.third != right.third { return left.third < right.third }
    return left.fourth < right.fourth
  }
}

/// A prefix of hexadecimal digits, by which people abbreviate keys and sums.
public struct HexPrefix: Hashable, Sendable {
  /// The digits in lower case, at least one.
  public let digits: String

  /// Parses a prefix; nil if the text is empty or has a character that is not a hexadecimal digit. Upper-case digits
  /// are converted to lower case.
  public init?(_ text: some StringProtocol) {
    guard !text.isEmpty, text.utf8.allSatisfy(Self.isDigit) else { return nil }
    digits = text.lowercased()
  }

  static func isDigit(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "a")...UInt8(ascii: "f"),
      UInt8(ascii: "A")...UInt8(ascii: "F"):
      true
    default: false
    }
  }

  /// The smallest value of `count` octets (32 or 64) with this prefix: the digits are followed by zeros.
  public func lowerBound(count: Int) -> [UInt8] { padded("0", count: count) }

  /// The largest value of `count` octets with this prefix: the digits are followed by `f`.
  public func upperBound(count: Int) -> [UInt8] { padded("f", count: count) }

  private func padded(_ digit: Character, count: Int) -> [UInt8] {
    let text = String(digits.prefix(2 * count))
    let padding = String(repeating: digit, count: max(0, 2 * count - text.utf8.count))
    return (try? Hex.decode(text + padding)) ?? []
  }
}

/// The form of acknowledgements, command input and references of an ASN peer. Facts: asn.md sections 4 to 6
public enum Dialect: String, Sendable, CaseIterable {
  /// The form of the published document and of the 2014 server: no time in acknowledgements, `-` NUL before input.
  case seed
  /// The form of the 2015 server: an 8-octet time in acknowledgements, `-` NUL NUL before input, `~USER` and `$SUM`.
  case year2015 = "2015"
}

/// The result of a request: the result octet of an acknowledgement.
public enum ResultCode: UInt8, Sendable, CaseIterable {
  case success = 0
  case denied = 1
  case failure = 2
  case illFormatted = 3
  case incompatible = 4
  case redirect = 5
  case short = 6
  case unexpected = 7
  case unknown = 8
  case unsupported = 9

  /// The sentence that the original servers send if there is no more specific one.
  public var sentence: String {
    switch self {
    case .success: "Success"
    case .denied: "Permission denied"
    case .failure: "Unspecified request PDU Failure"
    case .illFormatted: "Il formatted PDU"
    case .incompatible: "Incompatible version"
    case .redirect: "Resource redirection"
    case .short: "Short PDU header"
    case .unexpected: "Unexpected PDU"
    case .unknown: "Unknown PDU"
    case .unsupported: "Unsupported PDU"
    }
  }
}

/// Eight octets that the sender of a request chooses; the acknowledgement repeats them.
public struct Requester: Hashable, Sendable {
  public static let size = 8
  public let bytes: [UInt8]

  /// Uses the first eight octets; missing octets are 0.
  public init(_ bytes: some Collection<UInt8>) {
    var padded = Array(bytes.prefix(Self.size))
    while padded.count < Self.size { padded.append(0) }
    self.bytes = padded
  }

  /// Uses the text in the form of the original servers: `exec` is `exec`, NUL, NUL, NUL, NUL.
  public init(_ text: String) { self.init(Array(text.utf8)) }

  public static let none = Requester([UInt8]())
}
