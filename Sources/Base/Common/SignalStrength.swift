/// A received signal strength (RSSI) in dBm, as D-Bus carries it: a number, with one value for "not known".
public enum SignalStrength {
  /// The value for an unknown signal strength, as in HCI (Core Specification, Vol 4 Part E, 7.7.65.2).
  public static let unknown: Int16 = 127

  /// The number for a signal strength; nil means unknown.
  public static func number(_ dBm: Int?) -> Int16 { dBm.map { Int16(clamping: $0) } ?? unknown }

  /// The signal strength of a number; nil if unknown.
  public static func dBm(_ number: Int?) -> Int? { number == Int(unknown) ? nil : number }
}
