/// A received signal strength (RSSI) in dBm, as D-Bus carries it: a number, with one value for "not known".
public enum SignalStrength {
  /// The value for a signal strength that is not known. HCI uses the same one (Core Specification, Vol 4 Part E, 7.7.65.2).
  public static let unknown: Int16 = 127

  /// The number for a signal strength; nil is one that is not known.
  public static func number(_ dBm: Int?) -> Int16 { dBm.map { Int16(clamping: $0) } ?? unknown }

  /// The signal strength that a number stands for; nil where it is not known.
  public static func dBm(_ number: Int?) -> Int? { number == Int(unknown) ? nil : number }
}
