import Bytes

/// Reason why an HTTP or SSDP message is refused.
public enum HTTPError: Int, CaseIterable, Error, Hashable, Sendable {
  /// The head is not HTTP/1.0 or 1.1: a bad start line, header line, line end or character.
  case malformed
  /// The head has more than 2 KiB, or more than 64 header lines.
  case headTooLong
  /// The body, or its declared length, exceeds 4,095 bytes.
  case bodyTooLong
  /// The length of the body is ambiguous: two different lengths, a length and chunks, or another transfer encoding.
  case badLength
  /// The connection ended before the message did.
  case truncated

  /// The name of the reason's counter.
  public var name: String {
    switch self {
    case .malformed: "MalformedMessages"
    case .headTooLong: "HeadsTooLong"
    case .bodyTooLong: "BodiesTooLong"
    case .badLength: "BadBodyLengths"
    case .truncated: "TruncatedMessages"
    }
  }
}

/// The head of an HTTP/1.1 message: a start line and header lines, up to an empty line. SSDP datagrams are such heads.
/// (RFC 9112 sections 2 to 5.)
public struct HTTPHead: Hashable, Sendable {
  public struct Header: Hashable, Sendable {
    /// The name as in the message. Names are compared without regard to case.
    public let name: String
    public let value: String

    public init(_ name: String, _ value: String) { (self.name, self.value) = (name, value) }
  }

  public let startLine: String
  public let headers: [Header]

  public init(startLine: String, headers: [Header]) { (self.startLine, self.headers) = (startLine, headers) }

  /// The head with CRLF line ends and the empty line. Characters that would end a line are omitted from values.
  public var bytes: [UInt8] {
    var text = startLine + "\r\n"
    for header in headers {
      text +=
        header.name + ": " + String(header.value.unicodeScalars.filter { $0.value >= 32 }.map(Character.init))
        + "\r\n"
    }
    return Array((text + "\r\n").utf8)
  }

  /// The values of all headers with one name, in order.
  public func values(_ name: String) -> [String] {
    let name = name.lowercased()
    return headers.filter { $0.name.lowercased() == name }.map(\.value)
  }

  /// The value of the first header with one name.
  public func value(_ name: String) -> String? { values(name).first }

  /// Reads a complete head. Bytes after the empty line are not part of it.
  ///
  /// - Returns: the head, and its length in bytes; nil if the empty line has not arrived.
  /// - Throws: `headTooLong`, `malformed`.
  public static func read(
    _ bytes: some Collection<UInt8>, limit: Int = Limits.httpHeadBytes
  ) throws(HTTPError) -> (head: HTTPHead, count: Int)? {
    var lines: [String] = []
    var line: [UInt8] = []
    for (index, byte) in bytes.enumerated() {
      guard index < limit else { throw .headTooLong }
      guard byte == UInt8(ascii: "\n") else {
        line.append(byte)
        continue
      }
      if line.last == UInt8(ascii: "\r") { line.removeLast() }
      if line.isEmpty {
        // An empty line before the start line is skipped (RFC 9112 section 2.2).
        guard !lines.isEmpty else { continue }
        return (try HTTPHead(lines: lines), index + 1)
      }
      guard lines.count <= Limits.headerLines else { throw .headTooLong }
      guard line.allSatisfy({ $0 >= 32 && $0 != 127 || $0 == UInt8(ascii: "\t") }),
        let text = String(validating: line, as: UTF8.self)
      else { throw .malformed }
      lines.append(text)
      line.removeAll(keepingCapacity: true)
    }
    return nil
  }

  private init(lines: [String]) throws(HTTPError) {
    var headers: [Header] = []
    for line in lines.dropFirst() {
      guard let colon = line.utf8.firstIndex(of: UInt8(ascii: ":")), colon > line.startIndex else { throw .malformed }
      let name = line[..<colon]
      // A blank in a name is a smuggling attempt or a folded line.
      guard name.utf8.allSatisfy(Self.isToken) else { throw .malformed }
      headers.append(Header(String(name), Self.trimmed(line[line.utf8.index(after: colon)...])))
    }
    self.init(startLine: lines.first ?? "", headers: headers)
  }

  /// Whether the byte is allowed in a method or a header name (RFC 9110 section 5.6.2).
  static func isToken(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
      UInt8(ascii: "a")...UInt8(ascii: "z"):
      true
    default: "!#$%&'*+-.^_`|~".utf8.contains(byte)
    }
  }

  static func trimmed(_ text: Substring) -> String {
    var text = text
    while let first = text.first, first == " " || first == "\t" { text.removeFirst() }
    while let last = text.last, last == " " || last == "\t" { text.removeLast() }
    return String(text)
  }
}

/// The head of a request (RFC 9112 section 3).
public struct HTTPRequest: Hashable, Sendable {
  public let method: String
  /// The path without its query.
  public let path: String
  public let head: HTTPHead

  /// The HTTP path at which a peer serves its beacons.
  public static let beaconsPath = "/NotificationBeacons"
  /// The misspelt path that occurs once in the document. The server accepts it as well.
  public static let misspeltPath = "/NotificationsBeacons"

  /// Parses the head of a request.
  ///
  /// - Throws: `malformed` if the start line is not a request of HTTP/1.0 or 1.1 for an absolute path.
  public init(_ head: HTTPHead) throws(HTTPError) {
    let words = head.startLine.split(separator: " ", omittingEmptySubsequences: false)
    guard words.count == 3, !words[0].isEmpty, words[0].utf8.allSatisfy(HTTPHead.isToken),
      words[1].utf8.first == UInt8(ascii: "/"), words[2] == "HTTP/1.1" || words[2] == "HTTP/1.0"
    else { throw .malformed }
    method = String(words[0])
    path = String(words[1].prefix { $0 != "?" })
    self.head = head
  }

  /// The request for beacons that a client sends. The connection is closed after the response.
  ///
  /// - Parameters:
  ///   - host: the address, in brackets if it is IPv6, and the port.
  public static func beacons(host: String, path: String = beaconsPath) -> [UInt8] {
    HTTPHead(
      startLine: "GET \(path) HTTP/1.1", headers: [.init("Host", host), .init("Connection", "close")]
    ).bytes
  }
}

/// A response of the server of beacons. Facts: thali.md section 2.
public struct HTTPAnswer: Hashable, Sendable {
  public let status: Int
  public let headers: [HTTPHead.Header]
  public let body: [UInt8]

  /// The content type of beacons, which clients compare byte by byte.
  public static let contentType = "application/octet-stream"

  /// The beacons that the server can serve at present.
  public enum Stock: Hashable, Sendable {
    case announcement([UInt8])
    /// Nothing is announced.
    case nothing
    /// There are too many requests: the client should try again after this number of seconds.
    case busy(seconds: Int)
  }

  /// The response to a request.
  ///
  /// | request | status |
  /// |---|---|
  /// | `GET` of the path or of the misspelt one | 200 with the announcement, 204 without one, 503 with `Retry-After` |
  /// | another method for these paths | 405 with `Allow: GET` |
  /// | any other path | 404 |
  public init(method: String, path: String, stock: Stock) {
    func answer(_ status: Int, _ headers: [HTTPHead.Header] = [], _ body: [UInt8] = []) -> HTTPAnswer {
      HTTPAnswer(status: status, headers: headers, body: body)
    }
    let uncached = HTTPHead.Header("Cache-Control", "no-cache")
    guard path == HTTPRequest.beaconsPath || path == HTTPRequest.misspeltPath else {
      self = answer(404)
      return
    }
    guard method == "GET" else {
      self = answer(405, [.init("Allow", "GET")])
      return
    }
    switch stock {
    case .announcement(let bytes): self = answer(200, [.init("Content-Type", Self.contentType), uncached], bytes)
    case .nothing: self = answer(204, [uncached])
    case .busy(let seconds): self = answer(503, [.init("Retry-After", "\(seconds)")])
    }
  }

  private init(status: Int, headers: [HTTPHead.Header], body: [UInt8]) {
    (self.status, self.headers, self.body) = (status, headers, body)
  }

  /// The head of the response. A server that adds `Content-Length` itself uses `headers`.
  public var head: [UInt8] {
    let reasons = [
      200: "OK", 204: "No Content", 404: "Not Found", 405: "Method Not Allowed", 503: "Service Unavailable",
    ]
    let length = status == 204 ? [] : [HTTPHead.Header("Content-Length", "\(body.count)")]
    return HTTPHead(startLine: "HTTP/1.1 \(status) \(reasons[status] ?? "")", headers: headers + length).bytes
  }
}
