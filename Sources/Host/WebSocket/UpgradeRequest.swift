import Bytes
import Common
import Crypto

/// The server's side of the WebSocket handshake (RFC 6455 section 4.2): one HTTP request with a head of at most 8 KiB.
///
/// `Origin` and subprotocols are not checked: the octets after the handshake are authenticated separately.
public struct UpgradeRequest: Sendable {
  /// Maximum length of a request's head, with the empty line at its end, in octets.
  public static let limit = 8 * 1024

  /// The next step of the server.
  public enum Step: Hashable, Sendable {
    /// The head is not complete.
    case wait
    /// Send the response. The octets after the head are the first ones of the frames.
    case accept(response: [UInt8], rest: [UInt8])
    /// Send the response, and close.
    case refuse(status: Int, response: [UInt8])
  }

  private let path: String
  private var head: [UInt8] = []

  /// - Parameter path: the only path that is served, from its slash on.
  public init(path: String) { self.path = path }

  /// Handles octets from the client, in portions of any size. No further step follows a step other than `wait`.
  public mutating func receive(_ bytes: [UInt8]) -> Step {
    let searched = max(0, head.count - 3)
    head += bytes
    guard let end = HTTPHead.end(of: head, from: searched), end <= Self.limit else {
      return head.count >= Self.limit ? Self.refuse(431, "Request Header Fields Too Large") : .wait
    }
    let rest = Array(head[end...])
    guard let parsed = HTTPHead(head[..<end]) else { return Self.refuse(400, "Bad Request") }
    head = []
    return answer(parsed, rest)
  }

  private func answer(_ head: HTTPHead, _ rest: [UInt8]) -> Step {
    let words = head.first.split(separator: " ", omittingEmptySubsequences: false)
    guard words.count == 3, words[2] == "HTTP/1.1" || words[2] == "HTTP/1.0" else {
      return Self.refuse(400, "Bad Request")
    }
    guard words[0] == "GET" else { return Self.refuse(405, "Method Not Allowed", ["Allow: GET"]) }
    guard words[1] == path else { return Self.refuse(404, "Not Found") }
    let upgrade = ["Upgrade: websocket", "Sec-WebSocket-Version: 13"]
    guard words[2] == "HTTP/1.1", head.lists("websocket", in: "upgrade"), head.lists("upgrade", in: "connection"),
      head.values("sec-websocket-version") == ["13"]
    else { return Self.refuse(426, "Upgrade Required", upgrade) }
    guard head.values("host").count == 1, let key = head.values("sec-websocket-key").first,
      head.values("sec-websocket-key").count == 1, UpgradeKey.isValid(key), let accept = UpgradeKey.answer(to: key)
    else { return Self.refuse(400, "Bad Request") }
    let lines = [
      "HTTP/1.1 101 Switching Protocols", "Upgrade: websocket", "Connection: Upgrade",
      "Sec-WebSocket-Accept: \(accept)",
    ]
    return .accept(response: Self.text(lines), rest: rest)
  }

  private static func refuse(_ status: Int, _ reason: String, _ fields: [String] = []) -> Step {
    let connection = status == 426 ? "Connection: Upgrade, close" : "Connection: close"
    let lines = ["HTTP/1.1 \(status) \(reason)", connection, "Content-Length: 0"] + fields
    return .refuse(status: status, response: text(lines))
  }

  private static func text(_ lines: [String]) -> [UInt8] {
    Array((lines.joined(separator: "\r\n") + "\r\n\r\n").utf8)
  }
}

/// The client's side of the handshake (RFC 6455 section 4.1).
public struct UpgradeResponse: Sendable {
  public enum Step: Hashable, Sendable {
    case wait
    /// The server accepted. The octets after the head are the first ones of the frames.
    case accepted(rest: [UInt8])
    /// The server refused, or did not answer as RFC 6455 requires: a sentence.
    case refused(String)
  }

  /// The request to send.
  public let request: [UInt8]
  private let key: String
  private var head: [UInt8] = []

  /// - Parameters:
  ///   - host: the host and the port, for the field `Host`.
  ///   - origin: the field `Origin`; nil for none. Some servers refuse requests without it.
  ///   - random: makes the key of the request.
  public init(
    host: String, path: String, origin: String? = "http://localhost", random: inout some RandomSource
  ) {
    key = UpgradeKey.text(random.bytes(16))
    let lines =
      ["GET \(path) HTTP/1.1", "Host: \(host)"] + (origin.map { ["Origin: \($0)"] } ?? []) + [
        "Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Key: \(key)", "Sec-WebSocket-Version: 13",
      ]
    request = Array((lines.joined(separator: "\r\n") + "\r\n\r\n").utf8)
  }

  /// Handles octets from the server, in portions of any size. No further step follows a step other than `wait`.
  public mutating func receive(_ bytes: [UInt8]) -> Step {
    let searched = max(0, head.count - 3)
    head += bytes
    guard let end = HTTPHead.end(of: head, from: searched), end <= UpgradeRequest.limit else {
      return head.count >= UpgradeRequest.limit ? .refused("The server's answer is too long.") : .wait
    }
    let rest = Array(head[end...])
    guard let parsed = HTTPHead(head[..<end]) else { return .refused("The server's answer is not HTTP.") }
    let words = parsed.first.split(separator: " ", maxSplits: 2)
    guard words.count >= 2, words[0] == "HTTP/1.1", let status = Int(digits: words[1]) else {
      return .refused("The server's answer is not HTTP.")
    }
    guard status == 101 else { return .refused("The server refused the connection with the HTTP status \(status).") }
    guard parsed.lists("websocket", in: "upgrade"), parsed.lists("upgrade", in: "connection"),
      let accept = UpgradeKey.answer(to: key), parsed.values("sec-websocket-accept") == [accept]
    else { return .refused("The server does not speak WebSocket.") }
    return .accepted(rest: rest)
  }
}

/// `Sec-WebSocket-Key` and the answer to it.
private enum UpgradeKey {
  private static let guid = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"

  static func text(_ bytes: [UInt8]) -> String { Base64.encode(bytes) }

  /// Whether the text is 16 octets in base64.
  static func isValid(_ key: String) -> Bool { (try? Base64.decode(key))?.count == 16 }

  static func answer(to key: String) -> String? { (try? SHA1.hash(Array((key + guid).utf8))).map { text($0) } }
}

/// The head of an HTTP message: the first line and the fields.
struct HTTPHead {
  private static let fieldLimit = 100

  let first: String
  private let fields: [(name: String, value: String)]

  /// The index after the empty line that ends a head; nil if the head is not complete.
  static func end(of bytes: [UInt8], from start: Int) -> Int? {
    guard bytes.count - 4 >= start else { return nil }
    return (start...(bytes.count - 4)).first { index in
      bytes[index] == 13 && bytes[index + 1] == 10 && bytes[index + 2] == 13 && bytes[index + 3] == 10
    }.map { $0 + 4 }
  }

  /// Parses a head. Nil unless every line is printable ASCII and every field has a name and a colon.
  init?(_ bytes: ArraySlice<UInt8>) {
    guard bytes.dropLast(4).allSatisfy({ (32...126).contains($0) || $0 == 9 || $0 == 13 || $0 == 10 }) else {
      return nil
    }
    var lines: [String] = []
    var line: [UInt8] = []
    var isEnding = false
    for byte in bytes.dropLast(2) {
      if isEnding {
        guard byte == 10 else { return nil }
        lines.append(String(decoding: line, as: UTF8.self))
        (line, isEnding) = ([], false)
      } else if byte == 13 {
        isEnding = true
      } else {
        guard byte != 10 else { return nil }
        line.append(byte)
      }
    }
    guard !isEnding, line.isEmpty, let first = lines.first, lines.count <= Self.fieldLimit else { return nil }
    var fields: [(String, String)] = []
    for line in lines.dropFirst() {
      guard let colon = line.firstIndex(of: ":"), colon != line.startIndex else { return nil }
      let name = line[..<colon]
      // A line that begins with a blank continues the one before, which RFC 9112 forbids.
      guard !name.contains(where: { $0 == " " || $0 == "\t" }) else { return nil }
      fields.append((name.lowercased(), Self.trimmed(line[line.index(after: colon)...])))
    }
    (self.first, self.fields) = (first, fields)
  }

  /// All values of a field, by its name in lower case.
  func values(_ name: String) -> [String] { fields.filter { $0.name == name }.map(\.value) }

  /// Whether a field lists the word, which is in lower case, among others with commas between them.
  func lists(_ word: String, in name: String) -> Bool {
    values(name).contains { $0.split(separator: ",").contains { Self.trimmed($0).lowercased() == word } }
  }

  private static func trimmed(_ text: Substring) -> String {
    let isBlank: (Character) -> Bool = { $0 == " " || $0 == "\t" }
    guard let first = text.firstIndex(where: { !isBlank($0) }), let last = text.lastIndex(where: { !isBlank($0) })
    else { return "" }
    return String(text[first...last])
  }
}
