import Glibc
import HTTP
import Loop
import Network
import TestSupport
import Testing
import Thali

@Suite("The HTTP server of private presence", .serialized)
struct HTTPServerTests {
  init() { EventLoop.shared.runInBackground() }

  private static func get(_ path: String, method: String = "GET") -> [UInt8] {
    Array("\(method) \(path) HTTP/1.1\r\nHost: x\r\n\r\n".utf8)
  }

  @Test("A request for beacons gets the HTTP status that the engine decides: 200, 204, 404, 405 or 503")
  @LoopActor
  func statuses() async throws {
    let server = try BeaconServer()
    defer { server.close() }
    let path = HTTPRequest.beaconsPath
    #expect(try await server.exchange(Self.get(path)).hasPrefix("HTTP/1.1 204 "))
    server.stock = .busy(seconds: 30)
    #expect(try await server.exchange(Self.get(path)).contains("\r\nRetry-After: 30\r\n"))
    server.stock = .announcement([65, 66, 67])
    let answer = try await server.exchange(Self.get(path))
    #expect(answer.hasPrefix("HTTP/1.1 200 OK\r\n") && answer.hasSuffix("\r\n\r\nABC"))
    for header in [
      "Content-Type: application/octet-stream", "Cache-Control: no-cache", "Content-Length: 3", "Connection: close",
    ] { #expect(answer.contains("\r\n\(header)\r\n"), "\(header)") }
    #expect(!answer.contains("Date:"))
    #expect(try await server.exchange(Self.get("/NotificationsBeacons?x=1")).hasSuffix("ABC"))
    #expect(try await server.exchange(Self.get("/other")).hasPrefix("HTTP/1.1 404 "))
    for method in ["POST", "HEAD", "DELETE"] {
      let answer = try await server.exchange(Self.get(path, method: method))
      #expect(answer.hasPrefix("HTTP/1.1 405 ") && answer.contains("\r\nAllow: GET\r\n"), "\(method)")
    }
    #expect(server.counters.answered == [200: 2, 204: 1, 404: 1, 405: 3, 503: 1])
    #expect(server.counters.unreadable == 0)
  }

  @Test("An HTTP request that arrives byte by byte is answered")
  @LoopActor
  func slowly() async throws {
    let server = try BeaconServer()
    defer { server.close() }
    let box = Mailbox<SocketStreamEvent>()
    let stream = server.connect(box)
    _ = try await box.next()
    for byte in Self.get(HTTPRequest.beaconsPath) { stream.send([byte]) }
    let event = try await box.next()
    if case .received(let bytes) = event {
      #expect(String(decoding: bytes, as: UTF8.self).hasPrefix("HTTP/1.1 204 "))
    } else {
      Issue.record("\(event)")
    }
  }

  @Test("An HTTP head of 2,048 bytes is answered, a longer one gets 431, and one of 1 MB ends the connection")
  @LoopActor
  func heads() async throws {
    let server = try BeaconServer()
    defer { server.close() }
    func head(_ count: Int) -> [UInt8] {
      let start = "GET \(HTTPRequest.beaconsPath) HTTP/1.1\r\nHost: x\r\nX: "
      return Array((start + String(repeating: "a", count: count - start.utf8.count - 4) + "\r\n\r\n").utf8)
    }
    #expect(try await server.exchange(head(2048)).hasPrefix("HTTP/1.1 204 "))
    #expect(try await server.exchange(head(2049)).hasPrefix("HTTP/1.1 431 "))
    #expect(server.counters.headsTooLong == 1)
    #expect(!(try await server.exchange(head(200_000)).hasPrefix("HTTP/1.1 2")))
    try await until { server.counters.unreadable == 1 }
  }

  @Test("Bytes that are not an HTTP request are refused, and the next request is answered")
  @LoopActor
  func malformed() async throws {
    let server = try BeaconServer()
    defer { server.close() }
    let path = HTTPRequest.beaconsPath
    for text in ["GET\r\n\r\n", "GET \(path) HTTP/1.1\r\nHost\r\n\r\n", "GET \(path) HTTP/1.1\r\n\r\n"] {
      #expect(!(try await server.exchange(Array(text.utf8)).hasPrefix("HTTP/1.1 2")), "\(text)")
    }
    try await until { server.counters.unreadable == 2 }
    #expect(server.counters.answered == [400: 1])
    let old = Array("GET \(path) HTTP/1.0\r\n\r\n".utf8)
    #expect(try await server.exchange(old).hasPrefix("HTTP/1.1 204 "))
    #expect(try await server.exchange(Self.get(path)).hasPrefix("HTTP/1.1 204 "))
  }

  @Test("An HTTP connection is closed after 5 s, even if the client sends a byte now and then")
  @LoopActor
  func slowloris() async throws {
    let server = try BeaconServer()
    defer { server.close() }
    let box = Mailbox<SocketStreamEvent>()
    let stream = server.connect(box)
    _ = try await box.next()
    stream.send(Array("GET /".utf8)[...])
    // The answer to another client shows that the server has read what came before.
    _ = try await server.exchange(Self.get("/"))
    server.clock.advance(by: .seconds(4))
    stream.send([65])
    _ = try await server.exchange(Self.get("/"))
    try await until { server.server?.connectionCount == 1 }
    server.clock.advance(by: .seconds(1))
    let end = try await box.next()
    #expect(end == .ended || end == .closed(.reset))
    try await until { server.listener?.connectionCount == 0 }
    #expect(server.counters.timedOut == 1 && server.counters.unreadable == 0)
  }

  @Test("Up to four HTTP connections from one address are open at a time, and a fifth is closed")
  @LoopActor
  func limits() async throws {
    let server = try BeaconServer()
    defer { server.close() }
    var streams: [SocketStream] = []
    for _ in 0..<4 {
      let box = Mailbox<SocketStreamEvent>()
      streams.append(server.connect(box))
      _ = try await box.next()
    }
    #expect(try await server.exchange(Self.get("/")) == "")
    #expect(server.listener?.counters.tooManyOfAddress == 1)
  }

  @Test("From 60 HTTP connections on, a further one ends the oldest and is answered")
  @LoopActor
  func eviction() async throws {
    let server = try BeaconServer()
    defer { server.close() }
    var streams: [SocketStream] = []
    var boxes: [Mailbox<SocketStreamEvent>] = []
    for _ in 0..<60 {
      let (stream, other) = try SocketStream.pair()
      let box = Mailbox<SocketStreamEvent>()
      stream.start { box.put($0) }
      server.server?.serve(owning: other)
      stream.send(Array("GET /".utf8)[...])
      streams.append(stream)
      boxes.append(box)
    }
    for number in 0..<3 {
      #expect(try await server.exchange(Self.get("/")).hasPrefix("HTTP/1.1 404 "))
      _ = try await boxes[number].next()
      try await until { server.server?.connectionCount == 59 }
      // After that 60 connections are open again.
      let (stream, other) = try SocketStream.pair()
      stream.start { _ in }
      server.server?.serve(owning: other)
      streams.append(stream)
    }
    #expect(server.counters.evicted == 3 && server.counters.tooMany == 0)
    #expect(server.counters.unreadable == 0 && boxes[3].all.isEmpty)
    for stream in streams { stream.close() }
  }

  @Test("The HTTP server can serve one end of a socket pair, and closes its connections when it is closed")
  @LoopActor
  func pair() async throws {
    let server = try BeaconServer()
    server.stock = .announcement([1, 2])
    var ends: [Int32] = [0, 0]
    let isMade = socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0, &ends) == 0
    try #require(isMade)
    server.server?.serve(owning: ends[0])
    let box = Mailbox<SocketStreamEvent>()
    let stream = SocketStream(owning: ends[1])
    stream.start { box.put($0) }
    stream.send(Self.get(HTTPRequest.beaconsPath)[...])
    var answer: [UInt8] = []
    while case .received(let bytes) = try await box.next() { answer += bytes }
    #expect(Array(answer.suffix(2)) == [1, 2])
    let idle = Mailbox<SocketStreamEvent>()
    let waiting = server.connect(idle)
    _ = try await idle.next()
    _ = try await server.exchange(Self.get("/"))
    server.close()
    #expect(try await idle.next() == .ended)
    waiting.close()
  }
}
