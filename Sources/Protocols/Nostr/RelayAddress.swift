import Common

/// Why a program's request or a setting is refused.
public enum NostrError: CodedError, Hashable {
  /// The text is not the address of a relay.
  case badAddress(String)
  /// The address has no TLS, which the configuration does not allow.
  case plainAddress(String)
  /// Too many messages wait for a receipt, in all or for this recipient.
  case outboxFull
  /// A message with this ID waits already.
  case knownMessage
  /// The text is empty or too long. The payload is its length in bytes.
  case badLength(Int)
  /// The message ID is empty or too long.
  case badMessageID
  /// The recipient is not a contact.
  case unknownRecipient
  /// The configuration has no channel of this geohash.
  case unknownChannel
  /// No relay of the channel is connected, or each has too many events that it has not answered.
  case noRelay
  /// A cryptographic library returned an error; the sentence names the library.
  case cryptoFailed(String)

  public var code: String {
    switch self {
    case .badAddress, .plainAddress, .badLength, .badMessageID: "InvalidArgs"
    case .outboxFull: "LimitExceeded"
    case .knownMessage: "AlreadyExists"
    case .unknownRecipient, .unknownChannel: "NotFound"
    case .noRelay: "NotReady"
    case .cryptoFailed: "Failed"
    }
  }

  public var sentence: String {
    switch self {
    case .badAddress(let text):
      "\"\(text)\" is not the address of a relay. An address has the form wss://relay.example.org or wss://host:port/path."
    case .plainAddress(let text): "\"\(text)\" has no TLS. Use an address that begins with wss://."
    case .outboxFull:
      "\(NostrLimits.outboxOfOne) messages for one recipient, or \(NostrLimits.outbox) in all, wait for a receipt. "
        + "Try again later."
    case .knownMessage: "A message with this ID waits for its receipt already."
    case .badLength(let count):
      "The text has \(count) bytes. It must have 1 to \(NostrLimits.contentBytes) bytes, and "
        + "\(NostrLimits.channelTextBytes) at most in a geohash channel."
    case .badMessageID: "A message ID has 1 to \(NostrLimits.messageIDBytes) bytes."
    case .unknownRecipient: "The recipient is not a mutual favourite with a Nostr key."
    case .unknownChannel: "The configuration has no channel of this geohash."
    case .noRelay: "No relay of the channel accepts an event now. Try again in some seconds."
    case .cryptoFailed(let what): "The crypto library failed: \(what)."
    }
  }
}

/// The address of a relay: `wss://host`, optionally with a port and a path. `ws://` is for development.
public struct RelayAddress: Hashable, Sendable, CustomStringConvertible {
  /// The address in its canonical form: lower case, without the default port and a path of "/".
  public let text: String
  /// Whether the connection has TLS.
  public let isSecure: Bool
  /// A host name in lower case, an IPv4 address, or an IPv6 address without its brackets.
  public let host: String
  public let port: UInt16
  /// The path with its leading "/", and the query.
  public let path: String

  /// Reads an address.
  ///
  /// - Parameter allowsPlain: whether `ws://` is accepted.
  /// - Throws: `badAddress`; `plainAddress` for `ws://` if it is not allowed.
  public init(_ text: String, allowsPlain: Bool = false) throws(NostrError) {
    guard text.utf8.count <= NostrLimits.addressBytes, text.utf8.allSatisfy({ (0x21...0x7E).contains($0) }) else {
      throw .badAddress(text)
    }
    let lower = text.lowercased()
    isSecure = lower.hasPrefix("wss://")
    guard isSecure || lower.hasPrefix("ws://") else { throw .badAddress(text) }
    let rest = text.dropFirst(isSecure ? 6 : 5)
    let authority = rest.prefix { $0 != "/" && $0 != "?" && $0 != "#" }
    let tail = rest[authority.endIndex...]
    guard !tail.contains("#"), !authority.contains("@"), let place = Self.place(authority.lowercased()) else {
      throw .badAddress(text)
    }
    let standard: UInt16 = isSecure ? 443 : 80
    host = place.host
    port = place.port ?? standard
    path = tail.isEmpty ? "/" : (tail.first == "?" ? "/" + tail : String(tail))
    let shownHost = host.contains(":") ? "[\(host)]" : host
    self.text =
      (isSecure ? "wss://" : "ws://") + shownHost + (port == standard ? "" : ":\(port)") + (path == "/" ? "" : path)
    guard isSecure || allowsPlain else { throw .plainAddress(text) }
  }

  public var description: String { text }

  /// Splits `host` or `host:port`; nil if the host or the port is malformed.
  private static func place(_ authority: String) -> (host: String, port: UInt16?)? {
    if authority.hasPrefix("[") {
      guard let end = authority.firstIndex(of: "]") else { return nil }
      let host = authority[authority.index(after: authority.startIndex)..<end]
      let isAddress = host.contains(":") && host.utf8.allSatisfy(Set("0123456789abcdef:.".utf8).contains)
      let tail = authority[authority.index(after: end)...]
      guard isAddress else { return nil }
      guard !tail.isEmpty else { return (String(host), nil) }
      guard tail.hasPrefix(":"), let port = Self.port(tail.dropFirst()) else { return nil }
      return (String(host), port)
    }
    let parts = authority.split(separator: ":", omittingEmptySubsequences: false)
    guard let host = parts.first, parts.count <= 2, isName(host) else { return nil }
    guard parts.count == 2 else { return (String(host), nil) }
    return Self.port(parts[1]).map { (String(host), $0) }
  }

  private static func port(_ text: some StringProtocol) -> UInt16? {
    guard (1...5).contains(text.utf8.count), text.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else { return nil }
    return UInt16(text).flatMap { $0 == 0 ? nil : $0 }
  }

  private static func isName(_ host: some StringProtocol) -> Bool {
    let letters = Set("abcdefghijklmnopqrstuvwxyz0123456789-_".utf8)
    return host.utf8.count <= 253
      && host.split(separator: ".", omittingEmptySubsequences: false).allSatisfy {
        (1...63).contains($0.utf8.count) && $0.utf8.allSatisfy(letters.contains)
      }
  }

  /// The addresses of the relays that the iOS app uses. Facts: bitchat.md section 11.
  public static let apps = ["wss://relay.damus.io", "wss://nos.lol", "wss://relay.primal.net", "wss://offchain.pub"]
}

/// The use of a connection. Each purpose has connections of its own: otherwise a relay could link this machine's
/// key with its keys in geohash channels.
public enum RelayPurpose: Hashable, Sendable {
  /// The connection carries private messages.
  case messages
  case channel(Geohash)
}

/// One connection: a relay, and its purpose. The owner isolates each from the others, with SOCKS credentials of its
/// own.
public struct RelayLink: Hashable, Sendable {
  public let address: RelayAddress
  public let purpose: RelayPurpose

  public init(_ address: RelayAddress, _ purpose: RelayPurpose = .messages) {
    (self.address, self.purpose) = (address, purpose)
  }
}
