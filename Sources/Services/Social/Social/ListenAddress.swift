import ASN

/// An address at which the server listens, or to which a client connects, in the syntax of the setting `Listen=`:
///
///     unix:PATH   unix:///PATH
///     tcp:HOST:PORT   tcp://HOST:PORT
///     ws://HOST:PORT/PATH
///
/// Each may end with `?dialect=2015`. HOST is a numeric address, with IPv6 in brackets, `localhost`, or nothing for all
/// addresses.
public struct ListenAddress: Hashable, Sendable {
  public enum Place: Hashable, Sendable {
    case unix(path: String)
    case tcp(host: String, port: UInt16)
    case webSocket(host: String, port: UInt16, path: String)
    /// A socket that the service manager passed, by its name; with the path of WebSocket, if it speaks WebSocket.
    case inherited(name: String, path: String?)
  }

  /// The path of WebSocket at sockets of the service manager.
  public static let path = "/asn"
  /// Maximum bytes of a Unix socket's path.
  private static let unixLimit = 107

  public let place: Place
  public let dialect: Dialect

  public init(_ place: Place, dialect: Dialect = .seed) { (self.place, self.dialect) = (place, dialect) }

  /// Nil for anything but the syntax above.
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
      guard let (host, port) = Self.hostAndPort(address.hasPrefix("//") ? address.dropFirst(2) : address) else {
        return nil
      }
      self.init(.tcp(host: host, port: port), dialect: dialect)
    case "ws":
      guard address.hasPrefix("//") else { return nil }
      let authority = address.dropFirst(2)
      let slash = authority.firstIndex(of: "/") ?? authority.endIndex
      guard let (host, port) = Self.hostAndPort(authority[..<slash]) else { return nil }
      let path = slash == authority.endIndex ? "/" : String(authority[slash...])
      guard path.utf8.allSatisfy({ (33...126).contains($0) }) else { return nil }
      self.init(.webSocket(host: host, port: port, path: path), dialect: dialect)
    default: return nil
    }
  }

  /// A socket that the service manager passed. Its name is `asn` or `ws`, for WebSocket with the path `/asn`; `-2015`
  /// behind it selects the dialect.
  public init?(socketName name: String) {
    switch name {
    case "asn": self.init(.inherited(name: name, path: nil))
    case "asn-2015": self.init(.inherited(name: name, path: nil), dialect: .year2015)
    case "ws": self.init(.inherited(name: name, path: Self.path))
    case "ws-2015": self.init(.inherited(name: name, path: Self.path), dialect: .year2015)
    default: return nil
    }
  }

  /// The path that a client of WebSocket asks for; nil without WebSocket.
  public var webSocketPath: String? {
    switch place {
    case .webSocket(_, _, let path): path
    case .inherited(_, let path): path
    case .unix, .tcp: nil
    }
  }

  /// The address in the syntax of the setting.
  public var text: String {
    let place =
      switch place {
      case .unix(let path): "unix:\(path)"
      case .tcp(let host, let port): "tcp:\(Self.text(host, port))"
      case .webSocket(let host, let port, let path): "ws://\(Self.text(host, port))\(path)"
      case .inherited(let name, _): "systemd:\(name)"
      }
    return dialect == .seed ? place : "\(place)?dialect=\(dialect.rawValue)"
  }

  private static func text(_ host: String, _ port: UInt16) -> String {
    host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)"
  }

  private static func hostAndPort(_ text: Substring) -> (String, UInt16)? {
    guard let colon = text.lastIndex(of: ":"), let port = UInt16(text[colon...].dropFirst()), port > 0 else {
      return nil
    }
    let host = text[..<colon]
    if host.isEmpty { return ("::", port) }
    if host == "localhost" { return ("127.0.0.1", port) }
    if host.hasPrefix("["), host.hasSuffix("]") {
      let inner = host.dropFirst().dropLast()
      return inner.contains(":") ? (String(inner), port) : nil
    }
    return host.allSatisfy { $0.isASCII && ($0.isNumber || $0 == ".") } ? (String(host), port) : nil
  }
}
