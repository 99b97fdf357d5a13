import Bytes
import Common

/// Reads one response of HTTP/1.1 from a connection, in portions. (RFC 9112 sections 4, 6 and 7.)
///
/// The body ends after its declared length, after its chunks, or with the connection. At most 4,095 bytes of body and 2
/// KiB of head are stored.
public struct HTTPResponseReader: Sendable {
  public struct Response: Hashable, Sendable {
    public let status: Int
    public let head: HTTPHead
    public let body: [UInt8]
  }

  private enum State: Sendable {
    case head
    /// Reading a body of a known length.
    ///
    /// - Parameter remaining: remaining bytes; nil means until the connection ends.
    case body(remaining: Int?)
    case chunkSize
    case chunk(remaining: Int)
    /// Reading the line end after a chunk.
    case chunkEnd
    case trailer
    case over
  }

  /// Maximum length of the line with a chunk's size, including an extension, in characters.
  private static let chunkLine = 64

  private var state = State.head
  private var unread: [UInt8] = []
  private var status = 0
  private var head = HTTPHead(startLine: "", headers: [])
  private var body: [UInt8] = []
  private var trailerCount = 0

  public init() {}

  /// Handles the next bytes of the connection.
  ///
  /// - Returns: the response when it is complete; bytes after it are ignored. Nil means that more bytes are needed.
  /// - Throws: `malformed`, `headTooLong`, `bodyTooLong`, `badLength`. The reader must not be used after that.
  public mutating func receive(_ bytes: ArraySlice<UInt8>) throws(HTTPError) -> Response? {
    unread += bytes
    while true {
      switch state {
      case .head:
        guard let (head, count) = try HTTPHead.read(unread) else { return nil }
        unread.removeFirst(count)
        try begin(head)
      case .body(let remaining):
        let count = min(unread.count, remaining ?? unread.count)
        try append(count)
        guard let remaining else { return nil }
        state = remaining == count ? .over : .body(remaining: remaining - count)
        if remaining > count { return nil }
      case .chunkSize:
        guard let line = try line() else { return nil }
        let digits = HTTPHead.trimmed(line.prefix { $0 != ";" })
        guard (1...8).contains(digits.utf8.count), digits.utf8.allSatisfy(Self.isHexDigit),
          let size = Int(digits, radix: 16)
        else { throw .malformed }
        guard body.count + size <= Limits.announcementBytes else { throw .bodyTooLong }
        state = size == 0 ? .trailer : .chunk(remaining: size)
      case .chunk(let remaining):
        let count = min(unread.count, remaining)
        try append(count)
        guard remaining == count else {
          state = .chunk(remaining: remaining - count)
          return nil
        }
        state = .chunkEnd
      case .chunkEnd:
        guard let line = try line() else { return nil }
        guard line.isEmpty else { throw .malformed }
        state = .chunkSize
      case .trailer:
        guard let line = try line() else { return nil }
        trailerCount += 1
        guard trailerCount <= Limits.headerLines else { throw .headTooLong }
        if line.isEmpty { state = .over }
      case .over: return Response(status: status, head: head, body: body)
      }
    }
  }

  /// Handles the end of the connection.
  ///
  /// - Returns: the response, if its body ends with the connection.
  /// - Throws: `truncated`.
  public mutating func finish() throws(HTTPError) -> Response {
    guard case .body(remaining: nil) = state else { throw .truncated }
    state = .over
    return Response(status: status, head: head, body: body)
  }

  private mutating func begin(_ head: HTTPHead) throws(HTTPError) {
    let words = head.startLine.split(separator: " ", maxSplits: 2, omittingEmptySubsequences: false)
    guard words.count >= 2, words[0] == "HTTP/1.1" || words[0] == "HTTP/1.0", words[1].utf8.count == 3,
      words[1].utf8.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }), let status = Int(words[1]),
      status >= 100
    else { throw .malformed }
    // An interim response comes before the one that counts.
    if status < 200 {
      trailerCount += 1
      guard status != 101, trailerCount <= 4 else { throw .malformed }
      return
    }
    (self.status, self.head, trailerCount) = (status, head, 0)
    let lengths = Set(head.values("Content-Length"))
    let codings = head.values("Transfer-Encoding")
    if status == 204 || status == 304 {
      state = .over
    } else if !codings.isEmpty {
      guard lengths.isEmpty, codings.count == 1, codings[0].lowercased() == "chunked" else { throw .badLength }
      state = .chunkSize
    } else if let text = lengths.first {
      guard lengths.count == 1, (1...9).contains(text.utf8.count),
        text.utf8.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }), let length = Int(text)
      else { throw .badLength }
      guard length <= Limits.announcementBytes else { throw .bodyTooLong }
      state = .body(remaining: length)
    } else {
      state = .body(remaining: nil)
    }
  }

  private mutating func append(_ count: Int) throws(HTTPError) {
    guard body.count + count <= Limits.announcementBytes else { throw .bodyTooLong }
    body += unread.prefix(count)
    unread.removeFirst(count)
  }

  /// Returns and removes a line from `unread`, without its end; nil if it is not complete.
  private mutating func line() throws(HTTPError) -> Substring? {
    guard let end = unread.firstIndex(of: UInt8(ascii: "\n")) else {
      guard unread.count <= lineLimit else { throw .malformed }
      return nil
    }
    var line = unread[..<end]
    if line.last == UInt8(ascii: "\r") { line.removeLast() }
    guard line.count <= lineLimit else { throw .malformed }
    let text = String(decoding: line, as: UTF8.self)
    unread.removeSubrange(...end)
    return text[...]
  }

  private var lineLimit: Int {
    if case .trailer = state { Limits.httpHeadBytes } else { Self.chunkLine }
  }

  private static func isHexDigit(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "a")...UInt8(ascii: "f"),
      UInt8(ascii: "A")...UInt8(ascii: "F"):
      true
    default: false
    }
  }
}

/// The meaning of a response to a request for beacons. Facts: thali.md section 2.
public enum BeaconResponse: Hashable, Sendable {
  /// Status 200 with an announcement, which was not checked yet.
  case announcement([UInt8])
  /// Status 204: the peer announces nothing at present.
  case nothing
  /// Status 503: the peer is overloaded, and requests another attempt after 1 to 3,600 s. `NearbyPeers` waits for at
  /// most 300 s.
  case busy(seconds: Int)
  case refused(Refusal)

  public enum Refusal: Int, CaseIterable, Hashable, Sendable {
    /// A redirect (status 3xx), which is not followed.
    case redirect
    /// Status 200 with a content type other than `application/octet-stream`.
    case contentType
    /// A response with any other status.
    case status

    /// The name of the response's counter.
    public var name: String {
      switch self {
      case .redirect: "Redirects"
      case .contentType: "OtherContentTypes"
      case .status: "OtherStatuses"
      }
    }
  }

  public init(_ response: HTTPResponseReader.Response) {
    switch response.status {
    case 200:
      let types = response.head.values("Content-Type")
      self =
        types == [HTTPAnswer.contentType] ? .announcement(response.body) : .refused(.contentType)
    case 204: self = .nothing
    case 300..<400: self = .refused(.redirect)
    case 503:
      let seconds = response.head.value("Retry-After").flatMap { UInt16(digits: $0) } ?? 30
      self = .busy(seconds: min(max(1, Int(seconds)), 3600))
    default: self = .refused(.status)
    }
  }
}
