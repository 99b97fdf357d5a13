import SOCKS

/// The address of a WebSocket server. Its host is a name, not a numeric address: a proxy looks it up.
public struct WebSocketAddress: Hashable, Sendable {
  public let target: SOCKSTarget
  /// The path with the query, from its slash on.
  public let path: String
  /// Whether the connection is in TLS (`wss:`).
  public let isSecure: Bool

  /// Nil unless the path is printable ASCII and begins with a slash.
  public init?(_ target: SOCKSTarget, path: String, isSecure: Bool) {
    guard path.first == "/", path.utf8.allSatisfy({ (33...126).contains($0) }) else { return nil }
    (self.target, self.path, self.isSecure) = (target, path, isSecure)
  }

  public var host: String { target.host }
  public var port: UInt16 { target.port }

  /// The host, with the port unless it is the usual one: the field `Host` of the handshake.
  var authority: String { port == (isSecure ? 443 : 80) ? host : "\(host):\(port)" }
}
