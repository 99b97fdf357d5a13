import ASN
import Common

/// An address at which the server listens, or to which a client connects, in the syntax of the setting `Listen=`:
///
///     unix:PATH   unix:///PATH
///     tcp:HOST:PORT   tcp://HOST:PORT
///     ws://HOST:PORT/PATH
///     wss://HOST:PORT/PATH
///
/// Each may end with `?dialect=2015`. HOST is a numeric address, with IPv6 in brackets, a name, or nothing for all
/// addresses. Without a port, `ws:` has port 80, and `wss:` 443.
public struct ListenAddress: Hashable, Sendable {
  public enum Place: Hashable, Sendable {
    case unix(path: String)
    case tcp(host: String, port: UInt16)
    case webSocket(host: String, port: UInt16, path: String, isSecure: Bool = false)
    /// A socket that the service manager passed, by its name; with the path of WebSocket, if it is for WebSocket.
    case inherited(name: String, path: String?, isSecure: Bool = false)
  }

  /// The path of WebSocket at sockets from the service manager.
  public static let path = "/asn"
  /// Maximum bytes of a Unix socket's path.
  private static let unixLimit = 107
  /// Maximum bytes of a host name (RFC 1035 section 2.3.4), and of one label of it.
  private static let (nameLimit, labelLimit) = (253, 63)

  public let place: Place
  public let dialect: Dialect

  public init(_ place: Place, dialect: Dialect = .seed) { (self.place, self.dialect) = (place, dialect) }

  /// Parses an address; nil for anything but the syntax above.
  public init?(_ text: String) {
    var rest = Substring(text)
    var dialect = Dialect.seed
    if let mark = rest.lastIndex(of: "?") {
      let option = rest[mark...].dropFirst().split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
      guard option.count == 2, option[0] == "dialect", let found = Dialect(rawValue: String(option[1])) else {
        return nil
      }
      (dialect, rest) = (found, rest[..<mark])
    }
    guard !rest.contains(where: { $0 == " " || $0 == "?" || $0 == "\0" }), let colon = rest.firstIndex(of: ":") else {
      return nil
    }
    let (scheme, address) = (rest[..<colon], rest[colon...].dropFirst())
    switch scheme {
    case "unix":
      let path = address.hasPrefix("///") ? address.dropFirst(2) : address
      guard path.hasPrefix("/"), !path.hasPrefix("//"), path.utf8.count <= Self.unixLimit else { return nil }
      self.init(.unix(path: String(path)), dialect: dialect)
    case "tcp":
      let authority = address.hasPrefix("//") ? address.dropFirst(2) : address
      guard let (host, port) = Self.hostAndPort(authority, usual: nil) else { return nil }
      self.init(.tcp(host: host, port: port), dialect: dialect)
    case "ws", "wss":
      guard address.hasPrefix("//") else { return nil }
      let authority = address.dropFirst(2)
      let slash = authority.firstIndex(of: "/") ?? authority.endIndex
      let isSecure = scheme == "wss"
      guard let (host, port) = Self.hostAndPort(authority[..<slash], usual: isSecure ? 443 : 80) else { return nil }
      let path = slash == authority.endIndex ? "/" : String(authority[slash...])
      guard path.utf8.allSatisfy({ (33...126).contains($0) }) else { return nil }
      self.init(.webSocket(host: host, port: port, path: path, isSecure: isSecure), dialect: dialect)
    default: return nil
    }
  }

  /// Parses the name of a socket that the service manager passed: `asn`, or `ws` or `wss` for WebSocket with the path
  /// `/asn`. The ending `-2015` selects the dialect of 2015.
  public init?(socketName name: String) {
    let suffix = "-\(Dialect.year2015.rawValue)"
    let isOld = name.hasSuffix(suffix)
    let dialect = isOld ? Dialect.year2015 : .seed
    switch isOld ? String(name.dropLast(suffix.count)) : name {
    case "asn": self.init(.inherited(name: name, path: nil), dialect: dialect)
    case "ws": self.init(.inherited(name: name, path: Self.path), dialect: dialect)
    case "wss": self.init(.inherited(name: name, path: Self.path, isSecure: true), dialect: dialect)
    default: return nil
    }
  }

  /// The path in a WebSocket client's request; nil without WebSocket.
  public var webSocketPath: String? {
    switch place {
    case .webSocket(_, _, let path, _): path
    case .inherited(_, let path, _): path
    case .unix, .tcp: nil
    }
  }

  /// Whether connections use TLS.
  public var isSecure: Bool {
    switch place {
    case .webSocket(_, _, _, let isSecure), .inherited(_, _, let isSecure): isSecure
    case .unix, .tcp: false
    }
  }

  /// Host and port; nil unless the address is for TCP.
  public var target: (host: String, port: UInt16)? {
    switch place {
    case .tcp(let host, let port), .webSocket(let host, let port, _, _): (host, port)
    case .unix, .inherited: nil
    }
  }

  /// The address in the syntax of the setting.
  public var text: String {
    let place =
      switch place {
      case .unix(let path): "unix:\(path)"
      case .tcp(let host, let port): "tcp:\(Self.text(host, port))"
      case .webSocket(let host, let port, let path, let isSecure):
        "\(isSecure ? "wss" : "ws")://\(Self.text(host, port))\(path)"
      case .inherited(let name, _, _): "systemd:\(name)"
      }
    return dialect == .seed ? place : "\(place)?dialect=\(dialect.rawValue)"
  }

  private static func text(_ host: String, _ port: UInt16) -> String {
    host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)"
  }

  /// Parses host and port.
  ///
  /// - Parameter usual: the port if the text has none; nil if it must have one.
  private static func hostAndPort(_ text: Substring, usual: UInt16?) -> (String, UInt16)? {
    var (host, port) = (text, usual)
    // The colons of an IPv6 address are in brackets.
    if let colon = text.lastIndex(of: ":"), !text[colon...].contains("]") {
      port = UInt16(digits: text[colon...].dropFirst())
      host = text[..<colon]
    }
    guard let port, port > 0 else { return nil }
    if host.isEmpty { return ("::", port) }
    if host.hasPrefix("["), host.hasSuffix("]") {
      let inner = host.dropFirst().dropLast()
      return inner.contains(":") ? (String(inner), port) : nil
    }
    return isName(host) ? (String(host), port) : nil
  }

  /// Whether a text is a host name or a numeric IPv4 address.
  private static func isName(_ text: Substring) -> Bool {
    text.utf8.count <= nameLimit
      && text.split(separator: ".", omittingEmptySubsequences: false).allSatisfy { label in
        !label.isEmpty && label.utf8.count <= labelLimit && !label.hasPrefix("-") && !label.hasSuffix("-")
          && label.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber || $0 == "-") }
      }
  }
}
