internal import COpenSSLTLS

/// One session of libssl and the two buffers in memory between it and its owner, without the rules of a protocol.
///
/// libssl encrypts into `outgoing` and decrypts from `incoming`. A memory buffer accepts any number of bytes, so
/// nothing is written in part.
struct TLSMemory {
  /// Maximum bytes that are accepted, encrypted or decrypted at once: one record.
  static let slice = 16 << 10

  /// The result of a read.
  enum Reading {
    case bytes([UInt8])
    /// The number that `SSL_get_error` returned.
    case error(Int32)
  }

  let handle: OpaquePointer
  private let incoming: OpaquePointer
  private let outgoing: OpaquePointer

  /// - Parameters:
  ///   - context: the `SSL_CTX`, which must exist for longer than the session.
  ///   - owner: the pointer that the callbacks of the context get.
  /// - Returns: nil if libssl has no memory.
  init?(_ context: OpaquePointer, isServer: Bool, owner: UnsafeMutableRawPointer? = nil) {
    var (incoming, outgoing): (OpaquePointer?, OpaquePointer?) = (nil, nil)
    guard let handle = earshot_tls_session(context, isServer ? 1 : 0, owner, &incoming, &outgoing), let incoming,
      let outgoing
    else {
      ERR_clear_error()
      return nil
    }
    (self.handle, self.incoming, self.outgoing) = (handle, incoming, outgoing)
  }

  /// Frees the session with its buffers. Nothing may be called afterwards.
  func free() { SSL_free(handle) }

  /// Accepts at most `slice` bytes from the peer. Returns false if libssl accepts no more.
  func accept(_ portion: ArraySlice<UInt8>) -> Bool {
    portion.withUnsafeBytes { BIO_write(incoming, $0.baseAddress, Int32($0.count)) } == portion.count
  }

  /// Continues the handshake.
  ///
  /// - Returns: nil when it is complete; otherwise the number that `SSL_get_error` returned.
  func advance() -> Int32? {
    ERR_clear_error()
    let result = SSL_do_handshake(handle)
    return result == 1 ? nil : error(result)
  }

  /// Whether bytes from the peer wait that libssl has not read.
  var hasUnread: Bool { earshot_tls_pending(incoming) > 0 }

  /// Encrypts bytes for the peer. Returns false if libssl refuses them.
  func write(_ bytes: ArraySlice<UInt8>) -> Bool {
    var rest = bytes
    while !rest.isEmpty {
      let portion = rest.prefix(Self.slice)
      ERR_clear_error()
      let count = portion.withUnsafeBytes { SSL_write(handle, $0.baseAddress, Int32($0.count)) }
      guard count > 0 else {
        ERR_clear_error()
        return false
      }
      rest = rest.dropFirst(Int(count))
    }
    return true
  }

  /// Decrypts one record of the peer.
  func read() -> Reading {
    ERR_clear_error()
    var result: Int32 = 0
    let bytes = [UInt8](unsafeUninitializedCapacity: Self.slice) { buffer, count in
      result = SSL_read(handle, buffer.baseAddress, Int32(buffer.count))
      count = max(0, Int(result))
    }
    return result > 0 ? .bytes(bytes) : .error(error(result))
  }

  /// Sends `close_notify`.
  func finish() {
    ERR_clear_error()
    _ = SSL_shutdown(handle)
    ERR_clear_error()
  }

  /// All bytes that wait to be sent to the peer.
  func takeOutgoing() -> [UInt8] {
    let size = min(earshot_tls_pending(outgoing), Int(Int32.max))
    guard size > 0 else { return [] }
    return [UInt8](unsafeUninitializedCapacity: size) { buffer, count in
      count = max(0, Int(BIO_read(outgoing, buffer.baseAddress, Int32(size))))
    }
  }

  private func error(_ result: Int32) -> Int32 {
    defer { ERR_clear_error() }
    return SSL_get_error(handle, result)
  }
}
