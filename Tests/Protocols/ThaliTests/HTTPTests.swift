import Bytes
import Common
import Testing

@testable import Thali

@Suite("HTTP messages of private presence")
struct HTTPTests {
  static let vectors = Vectors.shared.http

  private func read(_ text: String, portion: Int = .max) throws -> HTTPResponseReader.Response? {
    try read(Array(text.utf8), portion: portion)
  }

  private func read(_ bytes: [UInt8], portion: Int = .max) throws -> HTTPResponseReader.Response? {
    var reader = HTTPResponseReader()
    var unread = bytes[...]
    while !unread.isEmpty {
      if let response = try reader.receive(unread.prefix(portion)) { return response }
      unread = unread.dropFirst(portion)
    }
    return nil
  }

  private func error(_ text: String) -> HTTPError? {
    do {
      _ = try read(text)
      return nil
    } catch {
      return error as? HTTPError
    }
  }

  @Test("The recorded HTTP request for beacons is written and read")
  func request() throws {
    #expect(HTTPRequest.beacons(host: "192.168.1.23:49152") == Array(Self.vectors.request.utf8))
    let (head, count) = try #require(try HTTPHead.read(Array(Self.vectors.request.utf8)))
    let request = try HTTPRequest(head)
    #expect(count == Self.vectors.request.utf8.count)
    #expect(request.method == "GET" && request.path == "/NotificationBeacons")
    #expect(head.value("host") == "192.168.1.23:49152")
  }

  @Test("The recorded HTTP responses are written byte by byte")
  func answers() {
    let body = Self.vectors.body200.bytes
    let answer = HTTPAnswer(method: "GET", path: "/NotificationBeacons", stock: .announcement(body))
    #expect(answer.head == Array(Self.vectors.head200.utf8) && answer.body == body && answer.status == 200)
    let nothing = HTTPAnswer(method: "GET", path: "/NotificationBeacons", stock: .nothing)
    #expect(nothing.head + nothing.body == Array(Self.vectors.response204.utf8))
  }

  @Test("The recorded HTTP responses are read in portions of any size", arguments: [1, 2, 3, 50, 10_000])
  func responses(portion: Int) throws {
    let body = Self.vectors.body200.bytes
    let full = try #require(try read(Array(Self.vectors.head200.utf8) + body, portion: portion))
    #expect(BeaconResponse(full) == .announcement(body))
    let empty = try #require(try read(Self.vectors.response204, portion: portion))
    #expect(BeaconResponse(empty) == .nothing)
  }

  @Test("The HTTP status follows from the path, the method and the available beacons")
  func routes() {
    func status(_ method: String, _ path: String, _ stock: HTTPAnswer.Stock = .nothing) -> Int {
      HTTPAnswer(method: method, path: path, stock: stock).status
    }
    #expect(status("GET", "/NotificationBeacons") == 204)
    #expect(status("GET", "/NotificationsBeacons", .announcement([1])) == 200)
    for path in ["/", "/notificationbeacons", "/NotificationBeacons/", "/NotificationBeacon", ""] {
      #expect(status("GET", path, .announcement([1])) == 404)
    }
    for method in ["POST", "HEAD", "PUT", "get", "OPTIONS"] {
      let answer = HTTPAnswer(method: method, path: "/NotificationBeacons", stock: .announcement([1]))
      #expect(answer.status == 405 && answer.headers == [.init("Allow", "GET")] && answer.body.isEmpty)
    }
    let busy = HTTPAnswer(method: "GET", path: "/NotificationBeacons", stock: .busy(seconds: 30))
    #expect(busy.status == 503 && busy.headers == [.init("Retry-After", "30")])
  }

  @Test("A chunked HTTP body is read, and so is one that ends with the connection")
  func otherBodies() throws {
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\n"
    let chunks = head + "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nTrailer: 1\r\n\r\n"
    for portion in [1, 4, 1000] {
      let response = try #require(try read(chunks, portion: portion))
      #expect(response.body == Array("abcde".utf8))
    }
    var reader = HTTPResponseReader()
    #expect(try reader.receive(Array((head + "\r\nabc").utf8)[...]) == nil)
    #expect(try reader.finish().body == Array("abc".utf8))
    #expect(throws: HTTPError.truncated) {
      var reader = HTTPResponseReader()
      _ = try reader.receive(Array((head + "Content-Length: 4\r\n\r\nabc").utf8)[...])
      return try reader.finish()
    }
  }

  @Test("An HTTP body of 4,095 bytes is read and one of 4,096 is refused, in each form")
  func bodyLimit() throws {
    let head = "HTTP/1.1 200 OK\r\n"
    func body(_ count: Int) -> String { String(repeating: "x", count: count) }
    #expect(try read(head + "Content-Length: 4095\r\n\r\n" + body(4095))?.body.count == 4095)
    // The declared length suffices to refuse the response.
    #expect(error(head + "Content-Length: 4096\r\n\r\n") == .bodyTooLong)
    #expect(error(head + "Content-Length: 999999999\r\n\r\n") == .bodyTooLong)
    #expect(error(head + "Content-Length: 9999999999\r\n\r\n") == .badLength)
    #expect(
      try read(head + "Transfer-Encoding: chunked\r\n\r\nfff\r\n" + body(4095) + "\r\n0\r\n\r\n")?.body.count == 4095)
    #expect(error(head + "Transfer-Encoding: chunked\r\n\r\n1000\r\n") == .bodyTooLong)
    #expect(error(head + "Transfer-Encoding: chunked\r\n\r\nffe\r\n" + body(4094) + "\r\n2\r\n") == .bodyTooLong)
    #expect(error(head + "\r\n" + body(4096)) == .bodyTooLong)
  }

  @Test("An HTTP head of more than 2 KiB or 64 header lines is refused before its end arrives")
  func headLimit() throws {
    #expect(error("HTTP/1.1 200 OK\r\nA: " + String(repeating: "x", count: 2100)) == .headTooLong)
    let lines = String(repeating: "A: b\r\n", count: 65)
    #expect(error("HTTP/1.1 204 No Content\r\n" + lines + "\r\n") == .headTooLong)
    #expect(try read("HTTP/1.1 204 No Content\r\n" + lines.dropLast(5) + "\r\n") != nil)
  }

  @Test(
    "An HTTP message that two parsers could understand differently is refused",
    arguments: [
      ("Content-Length: 1\r\nContent-Length: 2\r\n", HTTPError.badLength),
      ("Content-Length: 1\r\nTransfer-Encoding: chunked\r\n", .badLength),
      ("Transfer-Encoding: gzip, chunked\r\n", .badLength),
      ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", .badLength),
      ("Content-Length: +1\r\n", .badLength), ("Content-Length: 0x1\r\n", .badLength),
      ("Content-Length: \r\n", .badLength),
      ("Content-Length : 1\r\n", .malformed), (" folded: 1\r\n", .malformed), ("No colon\r\n", .malformed),
      (": empty\r\n", .malformed), ("A: b\rc\r\n", .malformed), ("A: \u{0}\r\n", .malformed),
    ])
  func ambiguous(headers: String, expected: HTTPError) {
    #expect(error("HTTP/1.1 200 OK\r\n" + headers + "\r\n") == expected)
  }

  @Test("A start line that is not a response of HTTP/1 is refused by the HTTP client")
  func startLines() {
    for line in [
      "HTTP/2 200 OK", "HTTP/1.1 20 OK", "HTTP/1.1 abc OK", "ICY 200 OK", "200 OK", "HTTP/1.1", "HTTP/1.1 099 x",
      "HTTP/1.1 101 x",
    ] {
      #expect(error(line + "\r\n\r\n") == .malformed, "\(line)")
    }
    #expect(error("HTTP/1.1 204\r\n\r\n") == nil)
    for line in ["GET /x", "GET  /x HTTP/1.1", "GET x HTTP/1.1", "G T /x HTTP/1.1", "GET /x HTTP/2", "/x GET HTTP/1.1"]
    {
      #expect(throws: HTTPError.malformed, "\(line)") {
        try HTTPRequest(HTTPHead(startLine: line, headers: []))
      }
    }
  }

  @Test("Up to four interim HTTP responses are skipped, and a fifth is refused")
  func interim() throws {
    let interim = "HTTP/1.1 100 Continue\r\n\r\n"
    #expect(try read(interim + interim + Self.vectors.response204)?.status == 204)
    #expect(error(String(repeating: interim, count: 5)) == .malformed)
  }

  @Test("Redirects, other content types and statuses give named errors, and 503 gives the time of the next attempt")
  func meanings() throws {
    func meaning(_ head: String) throws -> BeaconResponse {
      BeaconResponse(try #require(try read("HTTP/1.1 " + head + "\r\nContent-Length: 0\r\n\r\n")))
    }
    #expect(try meaning("302 Found\r\nLocation: http://10.0.0.1:9999/x") == .refused(.redirect))
    #expect(try meaning("200 OK\r\nContent-Type: text/html") == .refused(.contentType))
    #expect(try meaning("200 OK\r\nContent-Type: application/octet-stream; charset=utf-8") == .refused(.contentType))
    #expect(try meaning("200 OK") == .refused(.contentType))
    for status in ["404 Not Found", "500 Oops", "201 Created", "206 Partial"] {
      #expect(try meaning(status) == .refused(.status))
    }
    #expect(try meaning("503 Busy\r\nRetry-After: 120") == .busy(seconds: 120))
    #expect(try meaning("503 Busy\r\nRetry-After: 65000") == .busy(seconds: 3600))
    #expect(try meaning("503 Busy\r\nRetry-After: Fri, 31 Dec 1999 23:59:59 GMT") == .busy(seconds: 30))
    #expect(try meaning("503 Busy\r\nRetry-After: +120") == .busy(seconds: 30))
    #expect(try meaning("503 Busy\r\nRetry-After: 0") == .busy(seconds: 1))
  }

  @Test("An HTTP header value with a line break is refused")
  func injection() {
    let bytes = HTTPHead(startLine: "GET / HTTP/1.1", headers: [.init("A", "b\r\nEvil: 1\u{0}")]).bytes
    #expect(bytes == Array("GET / HTTP/1.1\r\nA: bEvil: 1\r\n\r\n".utf8))
  }
}

@Suite("SSDP datagrams and their locations")
struct SSDPTests {
  static let vectors = Vectors.shared.ssdp
  static let source = NetworkAddress.v4(0xC0A8_0117)
  static let url = "http://192.168.1.23:49152/NotificationBeacons"

  private func name(_ text: String) throws -> ServiceName { try #require(ServiceName(text)) }
  private func read(_ text: String) throws -> SSDPMessage { try SSDPMessage(reading: Array(text.utf8)) }

  @Test("The recorded SSDP datagrams are written and read byte by byte")
  func datagrams() throws {
    let name = try name("urn:uuid:f81d4fae-7dec-11d0-a765-00a0c91e6bf6")
    for (text, message) in [
      (Self.vectors.alive, SSDPMessage.alive(name, location: Self.url)), (Self.vectors.byebye, .byebye(name)),
      (Self.vectors.search, .search(name, maximumWait: 3)),
      (Self.vectors.searchResponse, .response(name, location: Self.url)),
    ] {
      #expect(String(decoding: message.bytes(for: .ipv4), as: UTF8.self) == text)
      #expect(try read(text) == message)
    }
  }

  @Test("A recorded phone's SSDP datagram is read, and written except for its server name")
  func phone() throws {
    let message = SSDPMessage.alive(
      try name("data:f81d4fae-7dec-11d0-a765-00a0c91e6bf6:0"), location: "http://192.168.1.23:49152")
    #expect(try read(Self.vectors.phoneAlive) == message)
    let lines = Self.vectors.phoneAlive.split(separator: "\r\n").filter { !$0.hasPrefix("SERVER") }
    #expect(
      String(decoding: message.bytes(for: .phones), as: UTF8.self) == lines.joined(separator: "\r\n") + "\r\n\r\n")
  }

  @Test("All variants of SSDP datagrams that the vectors require a reader to accept are accepted")
  func tolerance() throws {
    #expect(Self.vectors.acceptOnInput.count == 5)
    let uuid = "f81d4fae-7dec-11d0-a765-00a0c91e6bf6"
    for text in ["uuid:\(uuid)", "urn:uuid:\(uuid)", "URN:UUID:\(uuid.uppercased())"] {
      let datagram = Self.vectors.alive.split(separator: "urn:uuid:\(uuid)").joined(separator: text)
      #expect(try read(datagram) == read(Self.vectors.alive))
    }
    #expect(try name("data:\(uuid):7").generation == 7)
    let spaced = Self.vectors.alive.split(separator: "max-age=60").joined(separator: "max-age = 60")
    #expect(try read(spaced) == read(Self.vectors.alive))
    let lower = Self.vectors.alive.split(separator: "\r\n").dropFirst().map { line in
      line.prefix { $0 != ":" }.lowercased() + line.drop { $0 != ":" }
    }
    #expect(
      try read("NOTIFY * HTTP/1.1\r\n" + lower.joined(separator: "\r\n") + "\r\n\r\n") == read(Self.vectors.alive))
    // The empty line may be missing.
    #expect(try read(String(Self.vectors.alive.dropLast(1))) == read(Self.vectors.alive))
  }

  @Test("A name (USN) that is not a UUID in one of the accepted forms is refused")
  func badNames() {
    let uuid = "f81d4fae-7dec-11d0-a765-00a0c91e6bf6"
    for text in [
      "", "f81d4fae", uuid, "uuid:1234", "urn:uuid:\(uuid):1", "uuid:\(uuid)x", "data:\(uuid)", "data:\(uuid):",
      "data:\(uuid):-1", "data:\(uuid):-0",
      "data:\(uuid):+1", "data:\(uuid):4294967296", "urn:isbn:\(uuid)",
    ] { #expect(ServiceName(text) == nil, "\(text)") }
  }

  @Test("SSDP datagrams that are malformed, of other services, or lack name or location are dropped by reason")
  func drops() {
    func drop(_ text: String) -> SSDPMessage.Drop? {
      do throws(SSDPMessage.Drop) {
        _ = try SSDPMessage(reading: Array(text.utf8))
        return nil
      } catch {
        return error
      }
    }
    func changed(_ old: String, _ new: String) -> String {
      Self.vectors.alive.split(separator: old, omittingEmptySubsequences: false).joined(separator: new)
    }
    #expect(drop(changed("NT: http://www.thaliproject.org/ssdp", "NT: upnp:rootdevice")) == .otherService)
    #expect(drop(changed("ssdp:alive", "ssdp:update")) == .otherService)
    #expect(drop(changed("NOTIFY *", "NOTIFY /x")) == .otherService)
    #expect(drop(changed("urn:uuid:", "urn:x:")) == .badName)
    #expect(drop(changed("LOCATION:", "X-LOCATION:")) == .noLocation)
    #expect(drop("") == .malformed && drop("\u{1}\u{2}\r\n\r\n") == .malformed)
    #expect(drop(Self.vectors.alive + String(repeating: "x", count: 1500)) == .malformed)
    #expect(drop("HTTP/1.1 404 Not Found\r\nST: http://www.thaliproject.org/ssdp\r\n\r\n") == .otherService)
    #expect(drop("M-SEARCH * HTTP/1.1\r\nST: ssdp:all\r\nMAN: \"ssdp:discover\"\r\n\r\n") == .otherService)
  }

  @Test("An SSDP location is used only at its sender's address, over http, from port 1024 on")
  func locations() throws {
    func refusal(_ text: String, _ source: NetworkAddress = Self.source) -> Location.Refusal? {
      do throws(Location.Refusal) {
        _ = try Location(text, from: source)
        return nil
      } catch {
        return error
      }
    }
    #expect(try Location(Self.url, from: Self.source) == Location(address: Self.source, port: 49152))
    for text in ["http://192.168.1.23:49152", "http://192.168.1.23:49152/", "HTTP://192.168.1.23:49152/#x"] {
      #expect(try Location(text, from: Self.source).path == "/NotificationBeacons")
    }
    #expect(try Location("http://192.168.1.23:49152/a?b", from: Self.source).path == "/a?b")
    for text in [
      "http://192.168.1.24:49152/", "http://127.0.0.1:49152/", "http://[::1]:49152/",
      "http://[::ffff:192.168.1.23]:49152/",
    ] {
      #expect(refusal(text) == .otherHost, "\(text)")
    }
    for text in [
      "https://192.168.1.23:49152/", "ftp://192.168.1.23:49152/", "//192.168.1.23:49152/", "http://name:49152/",
      "http://user@192.168.1.23:49152/", "http://192.168.1.23@10.0.0.1:49152/", "http://192.168.1.23\\@10.0.0.1:49152/",
      "http://192.168.1.23:49152 /", "http://192.168.1.23:x/", "http://192.168.1.23:65536/",
      "http://0300.0250.1.23:49152/",
      "http://3232235799:49152/", "http://192.168.1.23:49152\r\nX: y", "http://192.168.1.23:49152?x", "",
      "http://[192.168.1.23]:49152/", "http://[fe80::1%25eth0]:49152/",
    ] { #expect(refusal(text) == .notHTTP, "\(text)") }
    for text in [
      "http://192.168.1.23/", "http://192.168.1.23:80/", "http://192.168.1.23:1023/", "http://192.168.1.23:0/",
      "http://192.168.1.23:/",
    ] {
      #expect(refusal(text) == .lowPort, "\(text)")
    }
    #expect(refusal("http://192.168.1.23:1024/" + String(repeating: "x", count: 256)) == .pathTooLong)
    #expect(refusal("http://192.168.1.23:1024/" + String(repeating: "x", count: 255)) == nil)
    #expect(refusal("http://" + String(repeating: "1", count: 1000)) == .pathTooLong)
  }

  @Test("IPv6 addresses are read in all forms and compared by value")
  func ipv6() throws {
    let link = NetworkAddress.v6(high: 0xFE80 << 48, low: 1)
    for text in ["fe80::1", "FE80::0001", "fe80:0:0:0:0:0:0:1", "fe80::0:0.0.0.1"] {
      #expect(NetworkAddress(text) == link, "\(text)")
    }
    #expect(NetworkAddress("::") == .v6(high: 0, low: 0) && NetworkAddress("::1") == .v6(high: 0, low: 1))
    #expect(NetworkAddress("1::") == .v6(high: 1 << 48, low: 0))
    for text in [
      "fe80::1::2", ":::", ":1", "1:", "1:2:3:4:5:6:7", "1:2:3:4:5:6:7:8:9", "1:2:3:4:5:6:7::8:9", "12345::", "::g",
      "::+1", "::1.2.3",
      "1.2.3.4::", "", ":", "1.2.3", "1.2.3.4.5", "256.1.1.1", "01.1.1.1", "1.1.1.+1", "1.1.1.",
      String(repeating: "1", count: 60),
    ] { #expect(NetworkAddress(text) == nil, "\(text)") }
    let location = try Location("http://[fe80::1]:5000", from: link)
    #expect(location.host == "[fe80:0:0:0:0:0:0:1]:5000")
    #expect(try Location(location.url, from: link) == location)
    #expect(NetworkAddress("10.1.2.3")?.urlText == "10.1.2.3")
    #expect(
      SSDPGroup.allCases.map(\.address.urlText) == ["239.255.255.250", "[ff02:0:0:0:0:0:0:c]", "228.227.226.225"])
  }
}
