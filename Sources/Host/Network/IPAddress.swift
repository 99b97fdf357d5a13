/// An address of IPv4 or IPv6, without a zone.
public enum IPAddress: Hashable, Sendable {
  case v4(UInt32)
  case v6(high: UInt64, low: UInt64)

  public static let loopback4 = IPAddress.v4(0x7F00_0001)
  public static let loopback6 = IPAddress.v6(high: 0, low: 1)

  /// Whether the address is valid on one link only: 169.254.0.0/16 and fe80::/10.
  public var isLinkLocal: Bool {
    switch self {
    case .v4(let value): value >> 16 == 0xA9FE
    case .v6(let high, _): high >> 54 == 0xFE80 >> 6
    }
  }

  public var isMulticast: Bool {
    switch self {
    case .v4(let value): value >> 28 == 0xE
    case .v6(let high, _): high >> 56 == 0xFF
    }
  }

  public var isIPv6: Bool { if case .v6 = self { true } else { false } }

  /// The 4 or 16 bytes, most significant first.
  public var bytes: [UInt8] {
    switch self {
    case .v4(let value): withUnsafeBytes(of: value.bigEndian, Array.init)
    case .v6(let high, let low):
      withUnsafeBytes(of: high.bigEndian, Array.init) + withUnsafeBytes(of: low.bigEndian, Array.init)
    }
  }

  /// Reads 4 or 16 bytes, most significant first; nil for any other count.
  public init?(bytes: some Collection<UInt8>) {
    func number<Value: FixedWidthInteger>(_ bytes: some Sequence<UInt8>, _: Value.Type) -> Value {
      bytes.reduce(0) { $0 << 8 | Value($1) }
    }
    switch bytes.count {
    case 4: self = .v4(number(bytes, UInt32.self))
    case 16: self = .v6(high: number(bytes.prefix(8), UInt64.self), low: number(bytes.dropFirst(8), UInt64.self))
    default: return nil
    }
  }
}

extension IPAddress: CustomStringConvertible {
  /// Constant text, because addresses must not appear in logs.
  public var description: String { "IP address" }
}

/// One end of a connection, or the source or destination of a datagram.
public struct Endpoint: Hashable, Sendable {
  public let address: IPAddress
  public let port: UInt16
  /// The index of the interface that a link-local IPv6 address belongs to; 0 for other addresses.
  public let zone: UInt32

  public init(_ address: IPAddress, port: UInt16, zone: UInt32 = 0) {
    (self.address, self.port, self.zone) = (address, port, zone)
  }
}
