/// A cipher suite of TLS 1.2 that is spoken here. Both authenticate by a pre-shared key (RFC 5487, RFC 4279).
public enum TLSSuite: CaseIterable, Hashable, Sendable {
  /// `TLS_DHE_PSK_WITH_AES_256_GCM_SHA384`: a new Diffie-Hellman key for each handshake, so that a key that leaks later
  /// does not open what was recorded.
  case ephemeral
  /// `TLS_PSK_WITH_AES_256_CBC_SHA`: without that property, for old peers.
  case plain

  /// The number in IANA's registry.
  public var number: UInt16 {
    switch self {
    case .ephemeral: 0x00AB
    case .plain: 0x008D
    }
  }

  /// The name that OpenSSL has for it.
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
