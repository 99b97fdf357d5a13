import Common

/// An address of IPv4 or IPv6, without a zone.
public enum NetworkAddress: Hashable, Sendable {
  case v4(UInt32)
  case v6(high: UInt64, low: UInt64)

  /// Parses `192.168.1.23` or `fe80::1`; nil for any other text, including addresses with a zone or brackets, and IPv4
  /// with leading zeros.
  public init?(_ text: some StringProtocol) {
    guard text.utf8.count <= 45 else { return nil }
    if text.contains(":") {
      guard let value = Self.v6(text) else { return nil }
      self = value
    } else {
      guard let value = Self.v4(text) else { return nil }
      self = .v4(value)
    }
  }

  /// The text form for a URL, with brackets around IPv6.
  public var urlText: String {
    switch self {
    case .v4(let value):
      return Self.parts(of: UInt64(value), bits: 8).map { String($0) }.joined(separator: ".")
    case .v6(let high, let low):
      let parts = Self.parts(of: high, bits: 16) + Self.parts(of: low, bits: 16)
      return "[" + parts.map { String($0, radix: 16) }.joined(separator: ":") + "]"
    }
  }

  /// The four parts of a number, the highest first, each of `bits` bits.
  private static func parts(of number: UInt64, bits: Int) -> [UInt64] {
    let mask: UInt64 = (1 << bits) - 1
    return (0..<4).map { index in (number >> (bits * (3 - index))) & mask }
  }

  private static func v4(_ text: some StringProtocol) -> UInt32? {
    let parts = String(text).split(separator: ".", omittingEmptySubsequences: false)
    guard parts.count == 4 else { return nil }
    var value: UInt32 = 0
    for part in parts {
      // Some parsers read "010" as octal 8, and others as 10.
      guard (1...3).contains(part.utf8.count), part == "0" || part.first != "0", part.utf8.allSatisfy(isDigit),
        let byte = UInt8(part)
      else { return nil }
      value = value << 8 | UInt32(byte)
    }
    return value
  }

  private static func v6(_ text: some StringProtocol) -> NetworkAddress? {
    // The text in front of "::" and the text behind it; "::" may stand there once.
    var sides: [[UInt16]] = [[]]
    var words = String(text).split(separator: ":", omittingEmptySubsequences: false).map(String.init)
    if words.first == "" {
      guard words.count > 2, words[1] == "" else { return nil }
      words.removeFirst()
    }
    if words.last == "" {
      guard words.count > 1, words[words.count - 2] == "" else { return nil }
      words.removeLast()
    }
    for (index, word) in words.enumerated() {
      if word.isEmpty {
        guard sides.count == 1 else { return nil }
        sides.append([])
      } else if word.contains(".") {
        guard index == words.count - 1, let value = v4(word) else { return nil }
        sides[sides.count - 1] += [UInt16(value >> 16), UInt16(value & 0xFFFF)]
      } else {
        guard word.utf8.count <= 4, let value = UInt16(digits: word, radix: 16) else { return nil }
        sides[sides.count - 1].append(value)
      }
    }
    let count = sides.map(\.count).reduce(0, +)
    guard sides.count == 1 ? count == 8 : count < 8 else { return nil }
    let zeros = [UInt16](repeating: 0, count: 8 - count)
    let all = sides.count == 1 ? sides[0] : sides[0] + zeros + sides[1]
    func half(_ groups: some Collection<UInt16>) -> UInt64 { groups.reduce(UInt64(0)) { $0 << 16 | UInt64($1) } }
    return .v6(high: half(all.prefix(4)), low: half(all.suffix(4)))
  }

  private static func isDigit(_ byte: UInt8) -> Bool { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) }
}

extension NetworkAddress: CustomStringConvertible {
  /// Constant text, because addresses must not appear in logs.
  public var description: String { "network address" }
}

/// The network location at which a peer serves its beacons.
public struct Location: Hashable, Sendable {
  public let address: NetworkAddress
  public let port: UInt16
  public let path: String

  /// Reason why a location is not followed.
  public enum Refusal: Int, CaseIterable, Error, Hashable, Sendable {
    /// The text is not an HTTP URL with a numeric address as its host. It may have the scheme https, a host name, user
    /// data, or a character that a URL must not have.
    case notHTTP
    /// The host is not the sender's address of the datagram.
    case otherHost
    /// The port is missing or below 1024.
    case lowPort
    /// The path has more than 256 bytes.
    case pathTooLong

    /// The name of the reason's counter.
    public var name: String {
      switch self {
      case .notHTTP: "LocationsNotHTTP"
      case .otherHost: "LocationsOfOtherHosts"
      case .lowPort: "LocationsWithLowPorts"
      case .pathTooLong: "LocationPathsTooLong"
      }
    }
  }

  /// Makes a location.
  ///
  /// - Parameter path: the path of the announcement; locations of old phones have none.
  public init(address: NetworkAddress, port: UInt16, path: String = HTTPRequest.beaconsPath) {
    (self.address, self.port, self.path) = (address, port, path)
  }

  /// Reads the location of a datagram. An empty path and "/" mean `HTTPRequest.beaconsPath`. Facts: thali.md section 7.
  ///
  /// - Parameter source: the sender's address of the datagram. Other hosts are refused, because a datagram must not
  ///   cause requests to a third party.
  /// - Throws: a `Refusal`.
  public init(_ text: String, from source: NetworkAddress) throws(Refusal) {
    let scheme = "http://"
    guard text.utf8.count <= 2 * Limits.pathBytes else { throw .pathTooLong }
    // Only visible ASCII is accepted. A backslash is refused, because some parsers read it as a slash.
    guard text.utf8.allSatisfy({ $0 > 32 && $0 < 127 && $0 != UInt8(ascii: "\\") }),
      text.prefix(scheme.count).lowercased() == scheme
    else { throw .notHTTP }
    let rest = text.dropFirst(scheme.count)
    let authority = rest.prefix { $0 != "/" && $0 != "?" && $0 != "#" }
    let path = String(rest.dropFirst(authority.count).prefix { $0 != "#" })
    guard let (host, port) = Self.split(authority), let address = NetworkAddress(host) else { throw .notHTTP }
    guard address == source else { throw .otherHost }
    guard let port, port >= 1024 else { throw .lowPort }
    guard path.utf8.count <= Limits.pathBytes else { throw .pathTooLong }
    guard path.isEmpty || path.first == "/" else { throw .notHTTP }
    self.init(address: address, port: port, path: path.isEmpty || path == "/" ? HTTPRequest.beaconsPath : path)
  }

  /// The value of the header `Host`.
  public var host: String { address.urlText + ":\(port)" }

  public var url: String { "http://" + host + path }

  /// Splits host and port of `1.2.3.4:80` and `[::1]:80`. The port is nil if there is none. Nil for any other text.
  private static func split(_ authority: Substring) -> (host: Substring, port: UInt16?)? {
    let host: Substring
    var rest: Substring
    if authority.first == "[" {
      guard let end = authority.firstIndex(of: "]") else { return nil }
      host = authority[..<end].dropFirst()
      guard host.contains(":") else { return nil }
      rest = authority[authority.index(after: end)...]
    } else {
      host = authority.prefix { $0 != ":" }
      rest = authority.dropFirst(host.count)
    }
    guard !rest.isEmpty else { return (host, nil) }
    guard rest.popFirst() == ":", rest.utf8.allSatisfy(isDigit) else { return nil }
    guard !rest.isEmpty else { return (host, nil) }
    guard let port = UInt16(rest) else { return nil }
    return (host, port)
  }

  private static func isDigit(_ byte: UInt8) -> Bool { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) }
}
