import HTTP
import Loop
import Network
import TestSupport
import Testing
import Thali

extension HTTPResponseReader: HTTPResponseReading {
  public typealias Failure = HTTPError
}

/// A server for beacons, with its listener.
@LoopActor
final class BeaconServer {
  var stock = HTTPAnswer.Stock.nothing
  let clock = HandClock()
  private(set) var server: HTTPServer?
  private(set) var listener: TCPListener?

  init() throws {
    server = try HTTPServer(on: clock) { [weak self] request in
      let answer = HTTPAnswer(method: request.method, path: request.path, stock: self?.stock ?? .nothing)
      return HTTPServerResponse(
        status: answer.status, headers: answer.headers.map { ($0.name, $0.value) }, body: answer.body)
    }
    listener = try TCPListener(on: Endpoint(.loopback4, port: 0)) { [weak self] in self?.server?.serve($0) }
  }

  var local: Endpoint { listener?.local ?? Endpoint(.loopback4, port: 0) }
  var counters: HTTPServerCounters { server?.counters ?? HTTPServerCounters() }

  func close() {
    server?.close()
    listener?.close()
  }

  func connect(_ box: Mailbox<SocketStreamEvent>) -> SocketStream {
    SocketStream.connect(to: local, within: Patience.limit) { box.put($0) }
  }

  /// Sends bytes over a new connection, waits until the server closes it, and returns the response.
  func exchange(_ bytes: [UInt8]) async throws -> String {
    let box = Mailbox<SocketStreamEvent>()
    let stream = connect(box)
    _ = try await box.next()
    stream.send(bytes[...])
    var answer: [UInt8] = []
    while true {
      switch try await box.next() {
      case .received(let more): answer += more
      case .ended, .closed:
        stream.close()
        return String(decoding: answer, as: UTF8.self)
      case .connected, .writable, .hungUp: break
      }
    }
  }
}

/// Waits until the condition holds, and checks it every few milliseconds.
@LoopActor
func until(_ condition: @LoopActor () -> Bool) async throws {
  let box = Mailbox<Bool>()
  for _ in 0..<Patience.limit.components.seconds * 200 {
    if condition() { return }
    let timer = EventLoop.shared.schedule(after: .milliseconds(5)) { box.put(true) }
    _ = try await box.next()
    timer.cancel()
  }
  Issue.record("it did not become so")
}
