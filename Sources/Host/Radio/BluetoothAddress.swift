import Common

/// A device address: six bytes, most significant first, as in its text form.
public struct BluetoothAddress: Hashable, Sendable, CustomStringConvertible {
  /// The address as a number; the upper 16 bits are zero.
  public let value: UInt64

  public init(_ value: UInt64) {
    self.value = value & 0xFFFF_FFFF_FFFF
  }

  /// Parses `00:AA:01:00:00:23`, ignoring case; nil for anything else.
  public init?(_ text: some StringProtocol) {
    let parts = text.split(separator: ":", omittingEmptySubsequences: false)
    guard parts.count == 6 else { return nil }
    var value: UInt64 = 0
    for part in parts {
      guard part.utf8.count == 2, let byte = UInt8(digits: part, radix: 16) else { return nil }
      value = value << 8 | UInt64(byte)
    }
    self.value = value
  }

  public var description: String {
    (0..<6).map { index in
      let byte = UInt8(truncatingIfNeeded: value >> UInt64(8 * (5 - index)))
      return (byte < 16 ? "0" : "") + String(byte, radix: 16, uppercase: true)
    }.joined(separator: ":")
  }
}
