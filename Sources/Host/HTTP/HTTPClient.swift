import Common
import Loop
import Network

/// Reads one response from the bytes of a connection. An engine of a protocol implements it, with its own limit on
/// stored bytes.
public protocol HTTPResponseReading {
  associatedtype Response: Sendable
  associatedtype Failure: Error

  /// Handles the next bytes.
  ///
  /// - Returns: the response when it is complete; nil if more bytes are needed.
  /// - Throws: the reason why the response is refused.
  mutating func receive(_ bytes: ArraySlice<UInt8>) throws(Failure) -> Response?

  /// Handles the end of the bytes.
  ///
  /// - Throws: the reason why the response is refused.
  mutating func finish() throws(Failure) -> Response
}

/// Reason for which a request got no usable response.
public enum HTTPClientError<Failure: Error>: Error {
  case network(NetworkError)
  /// The exchange took longer than its limit.
  case timedOut
  /// The response is refused.
  case response(Failure)
}

/// Sends one request over a connection of its own, and reads one response.
@LoopActor
public enum HTTPClient {
  /// Maximum duration of an exchange.
  public static let time = Duration.seconds(5)

  /// Sends a request over a new connection.
  ///
  /// - Parameters:
  ///   - request: the head of the request, complete.
  ///   - reader: reads the response.
  ///   - then: called once on the loop, never from within this call.
  /// - Returns: the exchange, which ends without a call of `then` if the registration is dropped.
  public static func send<Reader: HTTPResponseReading>(
    _ request: [UInt8], to server: Endpoint, reading reader: Reader, within limit: Duration = time,
    on scheduler: any Scheduler = EventLoop.shared,
    then: @escaping @LoopActor (Result<Reader.Response, HTTPClientError<Reader.Failure>>) -> Void
  ) -> Registration {
    let exchange = HTTPExchange(request, reader, then)
    exchange.open(server, within: limit, on: scheduler)
    return Registration { exchange.close() }
  }

  /// Sends a request over a connected stream, which the exchange owns from now on.
  ///
  /// - Parameter then: called once on the loop, never from within this call.
  public static func send<Reader: HTTPResponseReading>(
    _ request: [UInt8], over stream: SocketStream, reading reader: Reader, within limit: Duration = time,
    on scheduler: any Scheduler = EventLoop.shared,
    then: @escaping @LoopActor (Result<Reader.Response, HTTPClientError<Reader.Failure>>) -> Void
  ) -> Registration {
    let exchange = HTTPExchange(request, reader, then)
    exchange.begin(on: stream, within: limit, on: scheduler)
    return Registration { exchange.close() }
  }
}

@LoopActor
private final class HTTPExchange<Reader: HTTPResponseReading> {
  typealias Outcome = Result<Reader.Response, HTTPClientError<Reader.Failure>>

  private let request: [UInt8]
  private var reader: Reader
  private var then: (@LoopActor (Outcome) -> Void)?
  private var stream: SocketStream?
  private var timer: Registration?

  init(_ request: [UInt8], _ reader: Reader, _ then: @escaping @LoopActor (Outcome) -> Void) {
    (self.request, self.reader, self.then) = (request, reader, then)
  }

  func open(_ server: Endpoint, within limit: Duration, on scheduler: any Scheduler) {
    timer = scheduler.schedule(after: limit) { [weak self] in self?.end(.failure(.timedOut)) }
    stream = SocketStream.connect(to: server, within: limit * 2, on: scheduler) { [weak self] in self?.handle($0) }
  }

  func begin(on stream: SocketStream, within limit: Duration, on scheduler: any Scheduler) {
    timer = scheduler.schedule(after: limit) { [weak self] in self?.end(.failure(.timedOut)) }
    self.stream = stream
    stream.start { [weak self] in self?.handle($0) }
    stream.send(request[...])
  }

  func close() {
    then = nil
    stream?.close()
    (stream, timer) = (nil, nil)
  }

  private func handle(_ event: SocketStreamEvent) {
    do throws(Reader.Failure) {
      switch event {
      // The sending side stays open: some servers take its end for the end of the client.
      case .connected: stream?.send(request[...])
      case .received(let bytes):
        if let response = try reader.receive(bytes[...]) { end(.success(response)) }
      case .ended: end(.success(try reader.finish()))
      case .writable, .hungUp: break
      case .closed(let error): end(.failure(.network(error ?? .reset)))
      }
    } catch {
      end(.failure(.response(error)))
    }
  }

  private func end(_ outcome: Outcome) {
    let report = then
    close()
    report?(outcome)
  }
}
