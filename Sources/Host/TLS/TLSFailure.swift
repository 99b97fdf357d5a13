import Common

/// A TLS alert: the reason for the end of a connection (RFC 5246 section 7.2, RFC 4279 section 2).
public struct TLSAlert: Hashable, Sendable {
  public let number: UInt8

  public init(_ number: UInt8) { self.number = number }

  public static let closeNotify = TLSAlert(0)
  /// A record does not decrypt: the two sides have different keys.
  public static let badRecord = TLSAlert(20)
  /// There is no common suite, or the Diffie-Hellman group is too small.
  public static let handshakeFailure = TLSAlert(40)
  /// The peer does not support TLS 1.2.
  public static let protocolVersion = TLSAlert(70)
  /// No key belongs to the client's identity.
  public static let unknownIdentity = TLSAlert(115)
}

/// Reason why a TLS connection ended without the peer's `close_notify`.
public enum TLSFailure: Error, Hashable, Sendable {
  /// This side ended the connection, and sent the alert.
  case refused(TLSAlert)
  /// The peer ended the connection, and sent the alert.
  case refusedByPeer(TLSAlert)
  /// The handshake exceeded its time limit.
  case timedOut
  /// The bytes ended without `close_notify`: an attacker may have truncated them.
  case truncated
  /// libssl failed without an alert.
  case failed
}

/// Numbers of failed TLS connections, by reason. The owner of several connections adds up their failures here.
public struct TLSCounters: Hashable, Sendable {
  /// Handshakes that succeeded.
  public private(set) var established: UInt64 = 0
  private var failures: [TLSFailure: UInt64] = [:]

  public init() {}

  public mutating func count(_ event: TLSEvent) {
    switch event {
    case .established: established += 1
    case .failed(let failure): failures[failure, default: 0] += 1
    case .received, .ended: break
    }
  }

  public subscript(_ failure: TLSFailure) -> UInt64 { failures[failure, default: 0] }

  /// All counters with their names. Alerts without a name of their own are counted together.
  public var tallies: [Tally] {
    let named: [(String, TLSFailure)] = [
      ("TLSNoCommonSuite", .refused(.handshakeFailure)), ("TLSOtherVersions", .refused(.protocolVersion)),
      ("TLSUnknownIdentities", .refused(.unknownIdentity)), ("TLSWrongKeys", .refused(.badRecord)),
      ("TLSNoCommonSuiteWithPeer", .refusedByPeer(.handshakeFailure)),
      ("TLSOtherVersionOfPeer", .refusedByPeer(.protocolVersion)),
      ("TLSIdentityUnknownToPeer", .refusedByPeer(.unknownIdentity)),
      ("TLSKeyRefusedByPeer", .refusedByPeer(.badRecord)), ("TLSTimeouts", .timedOut), ("TLSTruncations", .truncated),
    ]
    let others = failures.filter { failure in !named.contains { $0.1 == failure.key } }.values.reduce(0, +)
    return [Tally("TLSHandshakes", established)] + named.map { Tally($0.0, self[$0.1]) }
      + [Tally("TLSOtherFailures", others)]
  }
}
