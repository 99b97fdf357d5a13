internal import COpenSSLTLS
import Common
import Crypto

/// An event of a TLS connection.
public enum TLSEvent: Hashable, Sendable {
  /// The handshake is complete. The identity is the client's, on both sides.
  case established(identity: String, suite: TLSSuite)
  /// The peer sent these bytes, at least one.
  case received([UInt8])
  /// The peer sent `close_notify`, and sends no more bytes. It may still receive.
  case ended
  /// The connection has failed. `takeOutgoing` then returns an alert, which the owner still sends.
  case failed(TLSFailure)
}

/// One TLS connection over any ordered stream of bytes. It has no socket and no clock: the owner passes the peer's
/// bytes to it, sends the result of `takeOutgoing`, and calls `timer` at `deadline`.
///
/// It stores at most one incomplete record of the peer (16 KiB). All other bytes leave with the call that brought them,
/// so the owner limits memory by the bytes that it passes in.
public final class TLSSession {
  /// Maximum length of an identity, in bytes.
  public static let identitySize = 192
  /// Maximum duration of a handshake.
  public static let handshakeTime = Duration.seconds(10)
  /// Maximum length of a pre-shared key, in bytes.
  public static let keySize = 64

  private enum Phase {
    case handshake(deadline: Instant)
    case open
    case over
  }

  private let context: TLSContext
  private let role: TLSRole
  private var memory: TLSMemory?
  private var phase: Phase
  private var identity: String
  private var hasEnded = false
  private var hasFinished = false
  private var sentAlert: TLSAlert?
  private var receivedAlert: TLSAlert?

  /// Starts a handshake. A client has bytes to send at once.
  ///
  /// - Parameter limit: maximum duration of the handshake.
  /// - Throws: `failed` if the context is for the opposite side, the identity or key has a bad length, or libssl
  ///   refuses.
  public init(
    _ context: TLSContext, _ role: TLSRole, at now: Instant, within limit: Duration = TLSSession.handshakeTime
  ) throws(TLSFailure) {
    (self.context, self.role) = (context, role)
    phase = .handshake(deadline: now.advanced(by: limit))
    switch role {
    case .client(let identity, let key):
      self.identity = identity
      guard !context.isServer, (1...Self.identitySize).contains(identity.utf8.count), !identity.utf8.contains(0),
        (1...Self.keySize).contains(key.count)
      else { throw .failed }
    case .server:
      identity = ""
      guard context.isServer else { throw .failed }
    }
    let owner = Unmanaged.passUnretained(self).toOpaque()
    memory = TLSMemory(context.handle, isServer: context.isServer, owner: owner)
    guard memory != nil else { throw .failed }
    if !context.isServer { _ = advance() }
    if isOver { throw .failed }
  }

  deinit { memory?.free() }

  /// When `timer` is due; nil after the handshake.
  public var deadline: Instant? { if case .handshake(let deadline) = phase { deadline } else { nil } }

  public var isEstablished: Bool { if case .open = phase { true } else { false } }

  /// Handles bytes from the peer. Bytes after its `close_notify` cause the failure `failed`.
  public func receive(_ bytes: ArraySlice<UInt8>) -> [TLSEvent] {
    var events: [TLSEvent] = []
    var rest = bytes
    // In portions, so that a long one is not held twice.
    while let memory, !isOver, !rest.isEmpty {
      // libssl would store bytes behind close_notify without a limit.
      guard !hasEnded else { return events + fail(.failed) }
      let portion = rest.prefix(TLSMemory.slice)
      rest = rest.dropFirst(portion.count)
      guard memory.accept(portion) else { return events + fail(.failed) }
      if case .handshake = phase { events += advance() }
      if case .open = phase { events += read(memory) }
    }
    return events
  }

  /// Handles the end of the peer's bytes.
  public func receiveEnd() -> [TLSEvent] { isOver || hasEnded ? [] : fail(.truncated) }

  /// Ends a handshake that exceeds its time limit.
  public func timer(at now: Instant) -> [TLSEvent] {
    guard case .handshake(let deadline) = phase, deadline <= now else { return [] }
    return fail(.timedOut)
  }

  /// Encrypts bytes for the peer.
  ///
  /// - Returns: false, and nothing is sent, before `established`, after `finish` and after the end.
  @discardableResult
  public func send(_ bytes: ArraySlice<UInt8>) -> Bool {
    guard case .open = phase, !hasFinished, let memory else { return false }
    return memory.write(bytes)
  }

  /// Notifies the peer that this side sends no more bytes. The peer may continue to send.
  public func finish() {
    guard case .open = phase, !hasFinished, let memory else { return }
    hasFinished = true
    memory.finish()
  }

  /// All bytes that wait to be sent to the peer. It must be called after every other call.
  public func takeOutgoing() -> [UInt8] { memory?.takeOutgoing() ?? [] }

  // MARK: libssl

  private var isOver: Bool { if case .over = phase { true } else { false } }

  private func advance() -> [TLSEvent] {
    guard let memory else { return [] }
    if let error = memory.advance() { return error == SSL_ERROR_WANT_READ ? [] : fail(reason) }
    guard let suite = TLSSuite(number: earshot_tls_suite(memory.handle)), context.suites.contains(suite) else {
      return fail(.failed)
    }
    phase = .open
    return [.established(identity: identity, suite: suite)]
  }

  private func read(_ memory: TLSMemory) -> [TLSEvent] {
    var events: [TLSEvent] = []
    while !hasEnded {
      switch memory.read() {
      case .bytes(let bytes): events.append(.received(bytes))
      case .error(SSL_ERROR_WANT_READ): return events
      case .error(SSL_ERROR_ZERO_RETURN) where receivedAlert == .closeNotify:
        hasEnded = true
        events.append(.ended)
        return memory.hasUnread ? events + fail(.failed) : events
      case .error: return events + fail(reason)
      }
    }
    return events
  }

  /// The reason that follows from the alert of either side.
  private var reason: TLSFailure {
    if let sentAlert, sentAlert != .closeNotify { return .refused(sentAlert) }
    if let receivedAlert, receivedAlert != .closeNotify { return .refusedByPeer(receivedAlert) }
    return .failed
  }

  private func fail(_ failure: TLSFailure) -> [TLSEvent] {
    guard !isOver else { return [] }
    phase = .over
    return [.failed(failure)]
  }

  // MARK: What libssl calls

  static var calls: earshot_tls_calls {
    earshot_tls_calls(
      find_key: { owner, identity, key, size in
        TLSSession.of(owner)?.findKey(identity, key, Int(size)) ?? 0
      },
      own_key: { owner, identity, identitySize, key, size in
        TLSSession.of(owner)?.writeOwnKey(identity, Int(identitySize), key, Int(size)) ?? 0
      },
      alert: { owner, isSent, description in
        guard let session = TLSSession.of(owner), let number = UInt8(exactly: description) else { return }
        if isSent != 0 { session.sentAlert = TLSAlert(number) } else { session.receivedAlert = TLSAlert(number) }
      })
  }

  private static func of(_ owner: UnsafeMutableRawPointer?) -> TLSSession? {
    owner.map { Unmanaged<TLSSession>.fromOpaque($0).takeUnretainedValue() }
  }

  private func findKey(
    _ identity: UnsafePointer<CChar>?, _ buffer: UnsafeMutablePointer<UInt8>?, _ size: Int
  ) -> UInt32 {
    guard case .server(let find) = role, let identity, let memory,
      let suite = TLSSuite(number: earshot_tls_suite(memory.handle)), let text = String(validatingCString: identity),
      (1...Self.identitySize).contains(text.utf8.count), let key = find(text, suite)
    else { return 0 }
    self.identity = text
    return Self.write(key, buffer, size)
  }

  private func writeOwnKey(
    _ identity: UnsafeMutablePointer<CChar>?, _ identitySize: Int, _ buffer: UnsafeMutablePointer<UInt8>?, _ size: Int
  ) -> UInt32 {
    guard case .client(let text, let key) = role, let identity, text.utf8.count < identitySize else { return 0 }
    let bytes = UnsafeMutableRawBufferPointer(start: identity, count: identitySize)
    bytes.copyBytes(from: text.utf8)
    bytes[text.utf8.count] = 0
    return Self.write(key, buffer, size)
  }

  private static func write(_ key: SecretBytes, _ buffer: UnsafeMutablePointer<UInt8>?, _ size: Int) -> UInt32 {
    guard let buffer, (1...min(keySize, max(1, size))).contains(key.count) else { return 0 }
    key.withUnsafeBytes { UnsafeMutableRawBufferPointer(start: buffer, count: size).copyMemory(from: $0) }
    return UInt32(key.count)
  }
}
