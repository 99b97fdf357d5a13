internal import COpenSSLTLS

/// The certificates that a client of TLS trusts.
///
/// `@unchecked Sendable`: libssl locks the data that sessions share, and nothing changes a context after `init`.
public final class TLSTrust: @unchecked Sendable {
  fileprivate let handle: OpaquePointer

  /// - Parameter file: the path of certificates in PEM; nil for the certificates that the system trusts.
  /// - Returns: nil if the file has no certificates, or cannot be read.
  public init?(file: String? = nil) {
    guard let handle = earshot_tls_verifying_context(file) else { return nil }
    self.handle = handle
  }

  deinit { SSL_CTX_free(handle) }
}

/// The certificate that a server of TLS presents, and its private key.
///
/// `@unchecked Sendable`: libssl locks the data that sessions share, and nothing changes a context after `init`.
public final class TLSIdentity: @unchecked Sendable {
  fileprivate let handle: OpaquePointer

  /// - Parameters:
  ///   - chain: certificates in PEM, the server's own one first.
  ///   - key: its private key in PEM, without a password.
  /// - Returns: nil if one of them is not valid, or they do not belong together.
  public init?(chain: [UInt8], key: [UInt8]) {
    let handle = chain.withUnsafeBytes { chain in
      key.withUnsafeBytes { key in
        earshot_tls_serving_context(
          chain.baseAddress, Int32(clamping: chain.count), key.baseAddress, Int32(clamping: key.count))
      }
    }
    guard let handle else { return nil }
    self.handle = handle
  }

  deinit { SSL_CTX_free(handle) }
}

/// An event of a TLS connection with a certificate.
public enum TLSCertificateEvent: Hashable, Sendable {
  /// The handshake is complete. For a client, the server has the expected name.
  case established
  /// The peer sent these bytes, at least one.
  case received([UInt8])
  /// The peer sent `close_notify`, and sends no more bytes.
  case ended
  /// The connection has failed; the reason is part of a sentence. The owner still sends the result of `takeOutgoing`.
  case failed(String)
}

/// One side of a connection of TLS 1.2 or 1.3 over any ordered stream of bytes. The server has a certificate, and the
/// client verifies it. The session has no socket and no clock: the owner passes the peer's bytes to it, and sends the
/// result of `takeOutgoing`.
public final class TLSCertificateSession {
  private enum Phase { case handshake, open, over }

  /// The context of the session, which must outlive the session.
  private let context: AnyObject
  private var memory: TLSMemory?
  private var phase = Phase.handshake
  private var hasEnded = false

  /// Makes the server's side, which waits for the client.
  ///
  /// - Returns: nil if libssl has no memory.
  public init?(_ identity: TLSIdentity) {
    context = identity
    memory = TLSMemory(identity.handle, isServer: true)
    guard memory != nil else { return nil }
  }

  /// Makes the client's side. `takeOutgoing` returns the first bytes of the handshake.
  ///
  /// - Parameter host: the name or the numeric address that the certificate must have.
  /// - Returns: nil if libssl refuses the host.
  public init?(_ trust: TLSTrust, host: String, isNumeric: Bool) {
    context = trust
    guard !host.isEmpty, !host.utf8.contains(0) else { return nil }
    memory = TLSMemory(trust.handle, isServer: false)
    guard let memory, earshot_tls_expect(memory.handle, host, isNumeric ? 1 : 0) == 1 else {
      // `deinit` frees the session.
      ERR_clear_error()
      return nil
    }
    _ = advance()
  }

  deinit { memory?.free() }

  /// Handles bytes from the peer.
  public func receive(_ bytes: [UInt8]) -> [TLSCertificateEvent] {
    var events: [TLSCertificateEvent] = []
    var rest = bytes[...]
    while let memory, phase != .over, !rest.isEmpty {
      // libssl would store bytes behind close_notify without a limit.
      guard !hasEnded else { return events + fail("bytes arrived after the end of the TLS connection") }
      let portion = rest.prefix(TLSMemory.slice)
      rest = rest.dropFirst(portion.count)
      guard memory.accept(portion) else { return events + fail("libssl takes no more bytes") }
      if phase == .handshake { events += advance() }
      if phase == .open { events += read(memory) }
    }
    return events
  }

  /// Encrypts bytes for the peer. They are dropped before `established` and after the end.
  public func send(_ bytes: [UInt8]) {
    if phase == .open { _ = memory?.write(bytes[...]) }
  }

  /// Notifies the peer that this side sends no more bytes.
  public func finish() {
    if phase == .open { memory?.finish() }
  }

  /// All bytes that wait to be sent to the peer. Call it after every other call.
  public func takeOutgoing() -> [UInt8] { memory?.takeOutgoing() ?? [] }

  private func advance() -> [TLSCertificateEvent] {
    guard let memory else { return [] }
    if let error = memory.advance() {
      if error == SSL_ERROR_WANT_READ { return [] }
      if let problem = earshot_tls_certificate_problem(memory.handle) {
        return fail("its certificate is not trusted: \(String(cString: problem))")
      }
      return fail("the TLS handshake failed")
    }
    phase = .open
    return [.established]
  }

  private func read(_ memory: TLSMemory) -> [TLSCertificateEvent] {
    var events: [TLSCertificateEvent] = []
    while !hasEnded {
      switch memory.read() {
      case .bytes(let bytes): events.append(.received(bytes))
      case .error(SSL_ERROR_WANT_READ): return events
      case .error(SSL_ERROR_ZERO_RETURN):
        hasEnded = true
        return events + [.ended]
      case .error: return events + fail("the TLS connection failed")
      }
    }
    return events
  }

  private func fail(_ reason: String) -> [TLSCertificateEvent] {
    guard phase != .over else { return [] }
    phase = .over
    return [.failed(reason)]
  }
}
