import HTTP
import Loop
import Network
import TestSupport
import Testing
import Thali

@Suite("The HTTP client of private presence", .serialized)
struct HTTPClientTests {
  typealias Outcome = Result<HTTPResponseReader.Response, HTTPClientError<HTTPError>>

  init() { EventLoop.shared.runInBackground() }

  /// The result of an HTTP client whose server answers each connection with these bytes. `closes`: whether the server
  /// then closes it.
  @LoopActor
  private static func fetch(_ answer: [UInt8], closes: Bool = true, clock: HandClock? = nil) async throws -> Outcome {
    let box = Mailbox<Int>()
    let outcomes = Mailbox<OutcomeBox>()
    let streams = Mailbox<SocketStream>()
    let listener = try TCPListener(on: Endpoint(.loopback4, port: 0)) { connection in
      let stream = SocketStream(connection)
      streams.put(stream)
      stream.start { [weak stream] event in
        guard case .received = event else { return }
        stream?.send(answer[...])
        if closes { stream?.finish() }
        box.put(1)
      }
    }
    defer { listener.close() }
    let scheduler: any Scheduler = if let clock { clock } else { EventLoop.shared }
    let exchange = HTTPClient.send(
      HTTPRequest.beacons(host: "127.0.0.1"), to: listener.local, reading: HTTPResponseReader(), on: scheduler
    ) { outcomes.put(OutcomeBox(outcome: $0)) }
    defer { exchange.cancel() }
    _ = try await box.next()
    clock?.advance(by: HTTPClient.time)
    return try await outcomes.next().outcome
  }

  private struct OutcomeBox: Sendable { let outcome: Outcome }

  private static func isRefused(_ outcome: Outcome, _ error: HTTPError) -> Bool {
    if case .failure(.response(error)) = outcome { true } else { false }
  }

  @Test("The HTTP client gets the announcement that the HTTP server serves")
  @LoopActor
  func own() async throws {
    let server = try BeaconServer()
    defer { server.close() }
    let bytes = (0..<4095).map { UInt8(truncatingIfNeeded: $0) }
    server.stock = .announcement(bytes)
    let box = Mailbox<BeaconResponse?>()
    let exchange = HTTPClient.send(
      HTTPRequest.beacons(host: "127.0.0.1"), to: server.local, reading: HTTPResponseReader()
    ) { box.put(try? BeaconResponse($0.get())) }
    defer { exchange.cancel() }
    #expect(try await box.next() == .announcement(bytes))
  }

  @Test("An HTTP body without a length ends with the connection, and one of 4,096 bytes is refused")
  @LoopActor
  func bodies() async throws {
    let head = Array("HTTP/1.1 200 OK\r\n\r\n".utf8)
    let body = [UInt8](repeating: 7, count: 4095)
    #expect(try await Self.fetch(head + body).get().body == body)
    #expect(Self.isRefused(try await Self.fetch(head + body + [7], closes: false), .bodyTooLong))
    #expect(Self.isRefused(try await Self.fetch(Array("HTTP/1.1 200 OK\r\nContent-Len".utf8)), .truncated))
    #expect(Self.isRefused(try await Self.fetch(Array("SSH-2.0-x\r\n\r\n".utf8)), .malformed))
  }

  @Test("A request fails if the HTTP server has not completed its response within 5 s")
  @LoopActor
  func timeout() async throws {
    let outcome = try await Self.fetch(Array("HTTP/1.1 200 OK\r\n".utf8), closes: false, clock: HandClock())
    if case .failure(.timedOut) = outcome {} else { Issue.record("\(outcome)") }
  }

  @Test("A connection to a port without a listener gives a network error")
  @LoopActor
  func refused() async throws {
    let listener = try TCPListener(on: Endpoint(.loopback4, port: 0)) { _ in }
    listener.close()
    let box = Mailbox<Bool>()
    let exchange = HTTPClient.send([1], to: listener.local, reading: HTTPResponseReader()) { outcome in
      if case .failure(.network(.refused)) = outcome { box.put(true) } else { box.put(false) }
    }
    defer { exchange.cancel() }
    #expect(try await box.next())
  }
}
