import Crypto

/// The frames of one WebSocket connection after its handshake (RFC 6455): octets are inputs; messages, and octets to
/// send, are outputs.
///
/// Text and binary messages are treated alike: a text message is not checked for UTF-8. Messages that are sent are
/// all text or all binary, each in one frame. A connection without an extension has no reserved bits.
///
/// | input | close code |
/// |---|---|
/// | a client's frame without a mask, a server's frame with one | 1002 |
/// | reserved bits, an unknown opcode, a control frame that is long or a fragment, a length that is not minimal | 1002 |
/// | a continuation of nothing, a new message before the last one ended | 1002 |
/// | a close frame with one octet, or with a code that is not allowed | 1002 |
/// | a close frame whose reason is not UTF-8 | 1007 |
/// | a message of more octets than the limit | 1009 |
///
/// One thread at a time uses it.
public final class WebSocketFraming {
  public enum Role: Sendable { case client, server }

  public enum MessageKind: Sendable { case text, binary }

  public enum Action: Hashable, Sendable {
    /// A whole message.
    case message([UInt8])
    /// The peer answered a ping.
    case pong
    /// Send these octets to the peer.
    case send([UInt8])
    /// Close the transport when everything is sent. No further action follows.
    case close(CloseCode)
  }

  private enum Phase { case open, closing, closed }
  private enum Opcode: UInt8 {
    case continuation = 0
    case text = 1
    case binary = 2
    case close = 8
    case ping = 9
    case pong = 10

    var isControl: Bool { rawValue >= 8 }
  }

  private struct Failure: Error { let code: CloseCode }

  private let role: Role
  private let sends: MessageKind
  private let limit: Int
  private let codec: FrameCodec
  private var phase = Phase.open
  /// The fragments of the message so far; nil between messages.
  private var message: [UInt8]?
  /// The payload so far of the frame that is being received.
  private var control: [UInt8] = []
  private var received: UInt64 = 0

  /// - Parameters:
  ///   - sends: the kind of the messages that are sent. The caller sends only UTF-8 as text.
  ///   - limit: maximum length of a message, in octets.
  ///   - random: makes a client's masks.
  public init(role: Role, sends: MessageKind = .binary, limit: Int = 64 * 1024, random: any RandomSource) {
    (self.role, self.sends, self.limit) = (role, sends, limit)
    codec = FrameCodec(random: random)
  }

  /// Handles octets from the peer, in portions of any size.
  public func receive(_ bytes: some Collection<UInt8>) -> [Action] {
    guard phase != .closed else { return [] }
    codec.take(bytes)
    var actions: [Action] = []
    // RFC 6455 section 5.5.3: of several pings the last one needs an answer. So a flood of pings costs little output.
    var ping: [UInt8]?
    do throws(Failure) {
      while phase != .closed, let portion = try nextPortion() {
        guard let (opcode, isFinal) = try accept(portion) else { continue }
        switch opcode {
        case .ping: ping = takeControl()
        case .pong:
          control = []
          if phase == .open { actions.append(.pong) }
        case .close:
          let code = try closeCode(takeControl())
          let reply = code == .absent ? [] : [UInt8(code.rawValue >> 8), UInt8(code.rawValue & 0xFF)]
          if phase == .open { actions.append(.send(frame(.close, reply))) }
          actions.append(.close(code))
          phase = .closed
        case .continuation, .text, .binary:
          guard isFinal, let whole = message else { continue }
          message = nil
          if phase == .open { actions.append(.message(whole)) }
        }
      }
    } catch {
      actions += fail(error.code)
    }
    if phase == .open, let ping { actions.append(.send(frame(.pong, ping))) }
    return actions
  }

  /// The frame of a message; empty when the connection is closing.
  public func send(_ message: [UInt8]) -> [UInt8] {
    phase == .open ? frame(sends == .text ? .text : .binary, message) : []
  }

  /// A ping; empty when the connection is closing.
  public func ping() -> [UInt8] { phase == .open ? frame(.ping, []) : [] }

  /// Begins to close: the close frame to send, empty if the connection is closing already. The peer answers with its
  /// own, which ends the connection; the caller waits for it only for a limited time.
  public func close(_ code: CloseCode) -> [UInt8] {
    guard phase == .open else { return [] }
    phase = .closing
    message = nil
    return frame(.close, [UInt8(code.rawValue >> 8), UInt8(code.rawValue & 0xFF)])
  }

  // MARK: Frames

  private func frame(_ opcode: Opcode, _ payload: [UInt8]) -> [UInt8] {
    codec.frame(opcode.rawValue, payload, isMasked: role == .client)
  }

  private func nextPortion() throws(Failure) -> FramePortion? {
    do throws(FrameCodec.Malformed) {
      return try codec.next()
    } catch {
      throw Failure(code: .protocolError)
    }
  }

  /// Handles a portion of a frame. Returns the opcode when the frame is complete.
  private func accept(_ portion: FramePortion) throws(Failure) -> (opcode: Opcode, isFinal: Bool)? {
    guard portion.reserved == 0, portion.isMasked == (role == .server), let opcode = Opcode(rawValue: portion.opcode),
      !opcode.isControl || portion.isFinal
    else { throw Failure(code: .protocolError) }
    let isFirst = received == 0
    received += UInt64(portion.payload.count)
    let isWhole = received == portion.length
    if isWhole { received = 0 }
    if opcode.isControl {
      control += portion.payload
      return isWhole ? (opcode, true) : nil
    }
    if isFirst {
      // A frame begins, and it may be empty.
      guard (opcode == .continuation) == (message != nil) else { throw Failure(code: .protocolError) }
      guard portion.length <= UInt64(limit - (message?.count ?? 0)) else { throw Failure(code: .tooLarge) }
      if message == nil { message = [] }
    }
    message?.append(contentsOf: portion.payload)
    return isWhole ? (opcode, portion.isFinal) : nil
  }

  private func takeControl() -> [UInt8] {
    defer { control = [] }
    return control
  }

  private func closeCode(_ payload: [UInt8]) throws(Failure) -> CloseCode {
    if payload.isEmpty { return .absent }
    guard payload.count >= 2 else { throw Failure(code: .protocolError) }
    let code = CloseCode(rawValue: UInt16(payload[0]) << 8 | UInt16(payload[1]))
    guard code.isAllowed else { throw Failure(code: .protocolError) }
    guard String(validating: payload.dropFirst(2), as: UTF8.self) != nil else { throw Failure(code: .badText) }
    return code
  }

  private func fail(_ code: CloseCode) -> [Action] {
    let frame = close(code)
    phase = .closed
    message = nil
    return (frame.isEmpty ? [] : [.send(frame)]) + [.close(code)]
  }
}
