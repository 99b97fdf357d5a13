import Common
import Crypto
import LocalSockets
import Loop
import WebSocket

/// A connection in WebSocket frames, after the handshake: each `send` is one frame, and each event `received` is
/// one message from the peer.
@LoopActor
public final class WebSocketStream: StreamConnection {
  public var onEvent: @LoopActor (StreamEvent) -> Void = { _ in }
  public var isReading: Bool {
    get { transport.isReading }
    set { transport.isReading = newValue }
  }

  /// Called when the peer has sent pings or an empty message, which are no events.
  public var onControl: @LoopActor () -> Void = {}

  private let transport: any StreamConnection
  private let framing: WebSocketFraming
  private var unwritten = UnwrittenOutput()
  /// Number of waiting frames without a message, such as answers to pings. At the limit a peer gets no more until it
  /// reads.
  private var controls = 0
  /// The last control frame above the limit, which is sent when another one is written, because the peer expects an
  /// answer to its last ping.
  private var late: [UInt8]?
  private var isClosed = false

  private static let controlLimit = 16

  /// Makes a stream.
  ///
  /// - Parameters:
  ///   - sends: the kind of the messages that are sent.
  ///   - limit: maximum length of a message of the peer, in octets.
  ///   - greeting: octets to send before the frames, for example the response of a handshake.
  public init(
    _ transport: any StreamConnection, role: WebSocketFraming.Role, sends: WebSocketFraming.MessageKind = .binary,
    limit: Int = 64 << 10, random: any RandomSource, greeting: [UInt8] = []
  ) {
    self.transport = transport
    framing = WebSocketFraming(role: role, sends: sends, limit: limit, random: random)
    transport.onEvent = { [weak self] event in self?.handle(event) }
    write(greeting, payload: 0)
  }

  /// Handles octets that arrived with the end of the handshake. Call it once, before the transport reports others.
  public func receive(_ bytes: [UInt8]) { if !bytes.isEmpty { handle(.received(bytes)) } }

  public func send(_ bytes: [UInt8]) {
    write(framing.send(bytes), payload: bytes.count)
  }

  public func ping() {
    write(framing.ping(), payload: 0)
  }

  public func close() {
    guard !isClosed else { return }
    (isClosed, onEvent, onControl) = (true, { _ in }, {})
    transport.send(framing.close(.normal))
    transport.close()
  }

  public func abort() {
    (isClosed, onEvent, onControl) = (true, { _ in }, {})
    transport.abort()
  }

  private func write(_ frame: [UInt8], payload: Int) {
    guard !frame.isEmpty else { return }
    if payload == 0 {
      guard controls < Self.controlLimit else {
        late = frame
        return
      }
      controls += 1
    }
    unwritten.append(wire: frame.count, payload: payload)
    transport.send(frame)
  }

  private func handle(_ event: StreamEvent) {
    switch event {
    case .received(let bytes):
      for action in framing.receive(bytes) where !isClosed {
        switch action {
        case .message(let message): if message.isEmpty { onControl() } else { onEvent(.received(message)) }
        case .pong: onEvent(.pong)
        case .send(let frame):
          write(frame, payload: 0)
          onControl()
        case .close:
          // The close frame, if any, was sent before.
          isClosed = true
          transport.close()
          onEvent(.ended)
        }
      }
    case .written(let count):
      let written = unwritten.remove(written: count)
      controls -= written.controls
      if controls < Self.controlLimit, let frame = late {
        late = nil
        write(frame, payload: 0)
      }
      if written.payload > 0 { onEvent(.written(written.payload)) }
    case .pong: break
    case .ended:
      isClosed = true
      onEvent(.ended)
    }
  }
}
