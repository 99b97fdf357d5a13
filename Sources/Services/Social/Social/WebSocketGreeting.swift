import Crypto
import LocalSockets
import Loop
import Streams
import WebSocket

/// The server's side of a connection in the HTTP handshake of WebSocket. It ends within 10 s.
@LoopActor
final class WebSocketGreeting {
  enum Outcome {
    /// The handshake is complete. `rest` has the octets that arrived after it.
    case accepted(WebSocketStream, rest: [UInt8])
    /// The client did not request a WebSocket at this path, or exceeded the time limit. The connection is closed.
    case refused
    case disconnected
  }

  static let time = Duration.seconds(10)

  private let transport: any StreamConnection
  private var request: UpgradeRequest
  private var onEnd: (@LoopActor (Outcome) -> Void)?
  private var timer: Registration?

  /// Begins the handshake.
  ///
  /// - Parameters:
  ///   - path: the only path that is served.
  ///   - onEnd: called once, never from within this call.
  init(
    _ transport: any StreamConnection, path: String, scheduler: any Scheduler,
    onEnd: @escaping @LoopActor (Outcome) -> Void
  ) {
    (self.transport, request, self.onEnd) = (transport, UpgradeRequest(path: path), onEnd)
    transport.onEvent = { [weak self] event in self?.handle(event) }
    timer = scheduler.schedule(after: Self.time) { [weak self] in self?.refuse() }
  }

  /// Closes the connection. `onEnd` is not called.
  func close() {
    onEnd = nil
    timer = nil
    transport.close()
  }

  private func handle(_ event: StreamEvent) {
    switch event {
    case .received(let bytes):
      switch request.receive(bytes) {
      case .wait: break
      case .accept(let response, let rest):
        let stream = WebSocketStream(transport, role: .server, random: SystemRandom(), greeting: response)
        end(.accepted(stream, rest: rest))
      case .refuse(_, let response):
        transport.send(response)
        refuse()
      }
    case .ended:
      transport.close()
      end(.disconnected)
    case .written, .pong: break
    }
  }

  private func refuse() {
    transport.close()
    end(.refused)
  }

  private func end(_ outcome: Outcome) {
    let report = onEnd
    (onEnd, timer) = (nil, nil)
    report?(outcome)
  }
}
