import Crypto
import Testing

@testable import WebSocket

@Suite("The opening handshake of WebSocket")
struct UpgradeTests {
  /// The request of RFC 6455 section 1.3, without a subprotocol.
  private static func request(
    _ line: String = "GET /chat HTTP/1.1", without name: String = "", adding fields: [String] = []
  ) -> String {
    let all = [
      "Host: server.example.com", "Upgrade: websocket", "Connection: keep-alive, Upgrade",
      "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "Origin: http://example.com", "Sec-WebSocket-Version: 13",
    ]
    let kept = all.filter { name.isEmpty || !$0.hasPrefix(name + ":") }
    return ([line] + kept + fields).joined(separator: "\r\n") + "\r\n\r\n"
  }

  private static func step(_ text: String) -> UpgradeRequest.Step {
    var request = UpgradeRequest(path: "/chat")
    return request.receive(Array(text.utf8))
  }

  @Test("The example request of RFC 6455 gets its example answer, and the bytes after the request stay available")
  func sample() throws {
    guard case .accept(let response, let rest) = Self.step(Self.request() + "frames") else {
      Issue.record("refused")
      return
    }
    let text = String(decoding: response, as: UTF8.self)
    #expect(text.hasPrefix("HTTP/1.1 101 "))
    #expect(text.contains("\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"))
    #expect(rest == Array("frames".utf8))
  }

  @Test("An HTTP upgrade request that arrives byte by byte is answered at its last byte")
  func portions() {
    var request = UpgradeRequest(path: "/chat")
    let bytes = Array(Self.request().utf8)
    for byte in bytes.dropLast() {
      let step = request.receive([byte])
      #expect(step == .wait)
    }
    guard case .accept = request.receive([10]) else {
      Issue.record("refused")
      return
    }
  }

  @Test(
    "A WebSocket upgrade request that cannot be accepted gets the HTTP status for its error",
    arguments: [
      ("GET /other HTTP/1.1", "", 404), ("POST /chat HTTP/1.1", "", 405), ("GET /chat HTTP/1.0", "", 426),
      ("GET /chat", "", 400), ("GET /chat HTTP/1.1", "Upgrade", 426), ("GET /chat HTTP/1.1", "Connection", 426),
      ("GET /chat HTTP/1.1", "Sec-WebSocket-Version", 426), ("GET /chat HTTP/1.1", "Sec-WebSocket-Key", 400),
      ("GET /chat HTTP/1.1", "Host", 400),
    ])
  func refused(line: String, without: String, status: Int) {
    guard case .refuse(let found, let response) = Self.step(Self.request(line, without: without)) else {
      Issue.record("accepted")
      return
    }
    let text = String(decoding: response, as: UTF8.self)
    #expect(found == status && text.hasPrefix("HTTP/1.1 \(status) ") && text.contains("close"))
    #expect(text.contains("Sec-WebSocket-Version: 13") == (status == 426))
  }

  @Test(
    "A malformed head of a WebSocket upgrade request is refused",
    arguments: [
      "\r\n\r\n", "GET /chat HTTP/1.1\r\nHost\r\n\r\n", "GET /chat HTTP/1.1\r\n Host: a\r\n\r\n",
      "GET /chat HTTP/1.1\r\nA: b\n\r\n\r\n", "GET /chat HTTP/1.1\r\nA: \u{7F}\r\n\r\n", ": a\r\n: b\r\n\r\n",
    ])
  func malformed(text: String) {
    guard case .refuse(let status, _) = Self.step(text) else {
      Issue.record("accepted")
      return
    }
    #expect(status == 400)
  }

  @Test("A WebSocket upgrade request with two keys, or a key that is not 16 bytes long, is refused")
  func keys() {
    for fields in [["Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="], ["Host: other"]] {
      guard case .refuse(400, _) = Self.step(Self.request(adding: fields)) else {
        Issue.record("accepted twice: \(fields)")
        continue
      }
    }
    for key in ["", "AAAA", "dGhlIHNhbXBsZSBub25jZQ", "dGhlIHNhbXBsZSBub25jZ_==", "********************=="] {
      let text = Self.request(without: "Sec-WebSocket-Key", adding: ["Sec-WebSocket-Key: \(key)"])
      guard case .refuse(400, _) = Self.step(text) else {
        Issue.record("accepted \(key)")
        continue
      }
    }
  }

  @Test("A WebSocket upgrade request with a head of more than 8 KiB is refused before its end arrives")
  func long() {
    var request = UpgradeRequest(path: "/chat")
    var step = request.receive(Array("GET /chat HTTP/1.1\r\n".utf8))
    var count = 0
    while step == .wait, count < 10 {
      step = request.receive([UInt8](repeating: UInt8(ascii: "a"), count: 1024))
      count += 1
    }
    guard case .refuse(431, _) = step else {
      Issue.record("not refused")
      return
    }
    #expect(count == 8)
  }

  @Test("The WebSocket server accepts the client's request, and the client accepts the server's answer")
  func bothSides() {
    var random = SeededRandom(seed: 1)
    var client = UpgradeResponse(host: "localhost:80", path: "/chat", random: &random)
    guard case .accept(let response, _) = Self.step(String(decoding: client.request, as: UTF8.self)) else {
      Issue.record("refused")
      return
    }
    var strict = client
    #expect(client.receive(Array(response.dropLast(1))) == .wait)
    #expect(client.receive([10, 0x82]) == .accepted(rest: [0x82]))
    let signed = Array("HTTP/1.1 +101".utf8) + response.dropFirst("HTTP/1.1 101".utf8.count)
    #expect(strict.receive(signed) == .refused("The server's answer is not HTTP."))
  }

  @Test("The WebSocket client refuses an upgrade answer to another key, with another status, or without an end")
  func clientRefuses() {
    var random = SeededRandom(seed: 1)
    guard case .accept(let response, _) = Self.step(Self.request()),
      case .refuse(_, let refusal) = Self.step(Self.request("GET / HTTP/1.1"))
    else {
      Issue.record("no answers")
      return
    }
    for bytes in [response, refusal, [UInt8](repeating: 65, count: 9000)] {
      var client = UpgradeResponse(host: "a", path: "/chat", random: &random)
      guard case .refused = client.receive(bytes) else {
        Issue.record("accepted")
        continue
      }
    }
  }
}
