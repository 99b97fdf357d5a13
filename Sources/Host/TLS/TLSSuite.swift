/// A supported cipher suite of TLS 1.2. Both suites authenticate by a pre-shared key (RFC 5487, RFC 4279).
public enum TLSSuite: CaseIterable, Hashable, Sendable {
  /// `TLS_DHE_PSK_WITH_AES_256_GCM_SHA384`: a new Diffie-Hellman key for each handshake, so that a pre-shared key that
  /// leaks later does not decrypt recorded sessions.
  case ephemeral
  /// `TLS_PSK_WITH_AES_256_CBC_SHA`: without a Diffie-Hellman key, for old peers.
  case plain

  /// The number in IANA's registry.
  public var number: UInt16 {
    switch self {
    case .ephemeral: 0x00AB
    case .plain: 0x008D
    }
  }

  /// OpenSSL's name of the suite.
  public var name: String {
    switch self {
    case .ephemeral: "DHE-PSK-AES256-GCM-SHA384"
    case .plain: "PSK-AES256-CBC-SHA"
    }
  }

  init?(number: UInt32) {
    guard let suite = Self.allCases.first(where: { UInt32($0.number) == number }) else { return nil }
    self = suite
  }
}
