internal import COpenSSLTLS

/// The certificates that a client of TLS trusts.
///
/// `@unchecked Sendable`: libssl locks what sessions share, and nothing changes a context after `init`.
public final class TLSTrust: @unchecked Sendable {
  fileprivate let handle: OpaquePointer

  /// - Parameter file: the path of certificates in PEM; nil for those that the system trusts.
  /// - Returns: nil if the file has no certificates, or cannot be read.
  public init?(file: String? = nil) {
    guard let handle = earshot_tls_verifying_context(file) else { return nil }
    self.handle = handle
  }

  deinit { SSL_CTX_free(handle) }
}

/// The certificate that a server of TLS presents, and its private key.
///
/// `@unchecked Sendable`: libssl locks what sessions share, and nothing changes a context after `init`.
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
  /// The peer sent `close_notify`: it sends no more.
  case ended
  /// The connection is over: a reason as part of a sentence. What `takeOutgoing` returns then still goes to the peer.
  case failed(String)
}

/// One side of a connection of TLS 1.2 or 1.3 over any ordered stream of bytes. The server has a certificate, and the
/// client verifies it. The session has no socket and no clock: the owner hands it what the peer sent, and sends what
/// `takeOutgoing` returns.
public final class TLSCertificateSession {
  /// Bytes that are decrypted at once: one record.
  private static let slice = 16 << 10

  private enum Phase { case handshake, open, over }

  /// The context outlives the session.
  private let context: AnyObject
  private var handle: OpaquePointer?
  private var incoming: OpaquePointer?
  private var outgoing: OpaquePointer?
  private var phase = Phase.handshake
  private var hasEnded = false

  /// The server's side. It waits for the client.
  ///
  /// - Returns: nil if libssl has no memory.
  public init?(_ identity: TLSIdentity) {
    context = identity
    handle = earshot_tls_session(identity.handle, 1, nil, &incoming, &outgoing)
    guard handle != nil else { return nil }
  }

  /// The client's side. `takeOutgoing` returns the first bytes of the handshake.
  ///
  /// - Parameter host: the name or the numeric address that the certificate must have.
  /// - Returns: nil if libssl refuses the host.
  public init?(_ trust: TLSTrust, host: String, isNumeric: Bool) {
    context = trust
    guard !host.isEmpty, !host.utf8.contains(0) else { return nil }
    handle = earshot_tls_session(trust.handle, 0, nil, &incoming, &outgoing)
    guard let handle, earshot_tls_expect(handle, host, isNumeric ? 1 : 0) == 1 else {
      // `deinit` frees the handle.
      ERR_clear_error()
      return nil
    }
    _ = advance()
  }

  deinit { SSL_free(handle) }

  /// Takes bytes that the peer sent.
  public func receive(_ bytes: [UInt8]) -> [TLSCertificateEvent] {
    var events: [TLSCertificateEvent] = []
    var rest = bytes[...]
    while phase != .over, !rest.isEmpty {
      let portion = rest.prefix(Self.slice)
      rest = rest.dropFirst(portion.count)
      let count = portion.withUnsafeBytes { BIO_write(incoming, $0.baseAddress, Int32($0.count)) }
      guard count == portion.count else { return events + fail("libssl takes no more bytes") }
      if phase == .handshake { events += advance() }
      if phase == .open { events += read() }
    }
    return events
  }

  /// Encrypts bytes for the peer. They are dropped before `established` and after the end.
  public func send(_ bytes: [UInt8]) {
    guard phase == .open, let handle else { return }
    var rest = bytes[...]
    while !rest.isEmpty {
      let portion = rest.prefix(Self.slice)
      ERR_clear_error()
      // A memory BIO takes everything, so that nothing is written in part.
      let count = portion.withUnsafeBytes { SSL_write(handle, $0.baseAddress, Int32($0.count)) }
      guard count > 0 else { return ERR_clear_error() }
      rest = rest.dropFirst(Int(count))
    }
  }

  /// Replaces the keys of this side and asks the peer to replace its own. TLS 1.2 has no such request.
  public func updateKeys() {
    guard phase == .open, let handle else { return }
    ERR_clear_error()
    if SSL_key_update(handle, Int32(SSL_KEY_UPDATE_REQUESTED)) == 1 { _ = SSL_do_handshake(handle) }
    ERR_clear_error()
  }

  /// Notifies the peer that nothing more is sent.
  public func finish() {
    guard phase == .open, let handle else { return }
    ERR_clear_error()
    _ = SSL_shutdown(handle)
    ERR_clear_error()
  }

  /// Bytes for the peer, all there are. Call it after every other call.
  public func takeOutgoing() -> [UInt8] {
    guard let outgoing else { return [] }
    let size = min(earshot_tls_pending(outgoing), Int(Int32.max))
    guard size > 0 else { return [] }
    return [UInt8](unsafeUninitializedCapacity: size) { buffer, count in
      count = max(0, Int(BIO_read(outgoing, buffer.baseAddress, Int32(size))))
    }
  }

  private func advance() -> [TLSCertificateEvent] {
    guard let handle else { return [] }
    ERR_clear_error()
    let result = SSL_do_handshake(handle)
    guard result == 1 else {
      let error = SSL_get_error(handle, result)
      ERR_clear_error()
      if error == SSL_ERROR_WANT_READ { return [] }
      if let problem = earshot_tls_certificate_problem(handle) {
        return fail("its certificate is not trusted: \(String(cString: problem))")
      }
      return fail("the TLS handshake failed")
    }
    phase = .open
    return [.established]
  }

  private func read() -> [TLSCertificateEvent] {
    var events: [TLSCertificateEvent] = []
    while let handle, !hasEnded {
      ERR_clear_error()
      var result: Int32 = 0
      let bytes = [UInt8](unsafeUninitializedCapacity: Self.slice) { buffer, count in
        result = SSL_read(handle, buffer.baseAddress, Int32(buffer.count))
        count = max(0, Int(result))
      }
      if result > 0 {
        events.append(.received(bytes))
        continue
      }
      let error = SSL_get_error(handle, result)
      ERR_clear_error()
      switch error {
      case SSL_ERROR_WANT_READ: return events
      case SSL_ERROR_ZERO_RETURN:
        hasEnded = true
        return events + [.ended]
      default: return events + fail("the TLS connection failed")
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
