internal import COpenSSLTLS
import Crypto

/// The side of a TLS session, and its proof of identity.
public enum TLSRole {
  /// - Parameters:
  ///   - identity: the name under which the server finds the key, at most 192 bytes of UTF-8 without NUL.
  ///   - key: the pre-shared key, at most 64 bytes.
  case client(identity: String, key: SecretBytes)
  /// - Parameter key: the key for a client's identity and the suite that both sides use; nil if there is none. It is
  ///   called while `TLSSession.receive` runs.
  case server(key: (String, TLSSuite) -> SecretBytes?)
}

/// The common state of all TLS sessions of one side: TLS 1.2, and the suites.
///
/// `@unchecked Sendable`: libssl locks the data that sessions share, and nothing changes a context after `init`.
public final class TLSContext: @unchecked Sendable {
  public let isServer: Bool
  public let suites: [TLSSuite]
  let handle: OpaquePointer
  private let calls: UnsafeMutablePointer<earshot_tls_calls>

  /// - Parameter suites: the permitted suites, the preferred one first. A server with `plain` must not give the key of
  ///   an identity that is meant for `ephemeral`.
  /// - Returns: nil if libssl does not have the suites.
  public init?(isServer: Bool, suites: [TLSSuite] = [.ephemeral]) {
    let calls = UnsafeMutablePointer<earshot_tls_calls>.allocate(capacity: 1)
    calls.initialize(to: TLSSession.calls)
    let list = suites.map(\.name).joined(separator: ":")
    guard !suites.isEmpty, let handle = earshot_tls_context(isServer ? 1 : 0, list, calls) else {
      calls.deallocate()
      ERR_clear_error()
      return nil
    }
    (self.isServer, self.suites, self.handle, self.calls) = (isServer, suites, handle, calls)
  }

  deinit {
    SSL_CTX_free(handle)
    calls.deallocate()
  }
}
