/// A 128-bit UUID. A UUID on the Bluetooth base UUID (`0000xxxx-0000-1000-8000-00805F9B34FB`) is transmitted as two
/// bytes.
public struct BluetoothUUID: Hashable, Sendable, CustomStringConvertible {
  /// The first eight bytes of the UUID, in the order of its text form.
  public let high: UInt64
  /// The last eight bytes of the UUID, in the order of its text form.
  public let low: UInt64

  private static let baseHigh: UInt64 = 0x0000_0000_0000_1000
  private static let baseLow: UInt64 = 0x8000_0080_5F9B_34FB

  public init(high: UInt64, low: UInt64) {
    self.high = high
    self.low = low
  }

  /// The 128-bit UUID of the 16-bit UUID `short`.
  public init(short: UInt16) {
    self.init(high: UInt64(short) << 32 | Self.baseHigh, low: Self.baseLow)
  }

  /// Parses the hyphenated form with 32 hex digits, or four hex digits for a 16-bit UUID. Nil for any other text.
  public init?(_ text: some StringProtocol) {
    if text.utf8.count == 4, let short = UInt16(digits: text, radix: 16) {
      self.init(short: short)
      return
    }
    let parts = text.split(separator: "-", omittingEmptySubsequences: false).map { String($0) }
    guard parts.map({ $0.utf8.count }) == [8, 4, 4, 4, 12],
      let high = UInt64(digits: parts[0] + parts[1] + parts[2], radix: 16),
      let low = UInt64(digits: parts[3] + parts[4], radix: 16)
    else { return nil }
    self.init(high: high, low: low)
  }

  /// The two-byte form; nil if the UUID is not on the base UUID.
  public var short: UInt16? {
    guard low == Self.baseLow, high & 0xFFFF_FFFF == Self.baseHigh else { return nil }
    return UInt16(exactly: high >> 32)
  }

  /// The form in advertising data: two or sixteen bytes, little endian.
  public var advertisedBytes: [UInt8] {
    if let short { return [UInt8(truncatingIfNeeded: short), UInt8(truncatingIfNeeded: short >> 8)] }
    return [low, high].flatMap { half in (0..<8).map { UInt8(truncatingIfNeeded: half >> (8 * $0)) } }
  }

  /// The hyphenated lower-case form that BlueZ uses.
  public var description: String {
    let digits = [high, low].map { half in
      let text = String(half, radix: 16)
      return String(repeating: "0", count: 16 - text.count) + text
    }
    let all = Array(digits.joined())
    return [0..<8, 8..<12, 12..<16, 16..<20, 20..<32].map { String(all[$0]) }.joined(separator: "-")
  }
}

/// The identity of one link with one peer. A number is never reused while the process runs. A late message of a link
/// that has ended cannot be attributed to the next link, even if both peers have the same address.
public struct LinkID: Hashable, Sendable, CustomStringConvertible {
  public let number: UInt64

  public init(_ number: UInt64) {
    self.number = number
  }

  public var description: String { "link \(number)" }
}

/// A received signal strength (RSSI) in dBm, as D-Bus carries it: a number, with one value for "not known".
public enum SignalStrength {
  /// The value for an unknown signal strength, as in HCI (Core Specification, Vol 4 Part E, 7.7.65.2).
  public static let unknown: Int16 = 127

  /// The number for a signal strength; nil means unknown.
  public static func number(_ dBm: Int?) -> Int16 { dBm.map { Int16(clamping: $0) } ?? unknown }

  /// The signal strength of a number; nil if unknown.
  public static func dBm(_ number: Int?) -> Int? { number == Int(unknown) ? nil : number }
}
