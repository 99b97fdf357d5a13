import Network
import Thali

/// The address at which a local program accepts connections: a Unix socket, or a TCP port of the loopback interface.
enum LocalAddress: Hashable, Sendable {
  case socket(String)
  case loopback(Endpoint)

  private static let longestPath = 107

  /// Parses `/run/program/socket`, `127.0.0.1:8080` or `[::1]:8080`; nil for any other text.
  init?(_ text: String) {
    if text.hasPrefix("/") {
      guard text.utf8.count <= Self.longestPath, !text.utf8.contains(0) else { return nil }
      self = .socket(text)
      return
    }
    let hosts: [(String, IPAddress)] = [("127.0.0.1:", .loopback4), ("[::1]:", .loopback6)]
    guard let (host, address) = hosts.first(where: { text.hasPrefix($0.0) }) else { return nil }
    let digits = text.dropFirst(host.count)
    guard (1...5).contains(digits.utf8.count), digits.utf8.allSatisfy({ $0 > 47 && $0 < 58 }),
      let port = UInt16(digits), port > 0
    else { return nil }
    self = .loopback(Endpoint(address, port: port))
  }
}
