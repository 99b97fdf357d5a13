/// Properties of an advertisement in a command, and properties that a controller and its kernel support.
public struct AdvertisingFlags: OptionSet, Hashable, Sendable {
  public let rawValue: UInt32

  public init(rawValue: UInt32) {
    self.rawValue = rawValue
  }

  /// Peers can connect. Without this flag the kernel uses a random address, or the public one while the whole adapter
  /// is connectable. Facts: bluez.md section 13.
  public static let connectable = AdvertisingFlags(rawValue: 1 << 0)
  /// Extended advertising on the 1M PHY. A controller that supports it has several advertising sets; for others the
  /// kernel rotates the instances.
  public static let secondary1M = AdvertisingFlags(rawValue: 1 << 7)
  /// The command specifies the interval.
  public static let intervals = AdvertisingFlags(rawValue: 1 << 14)
  /// The data includes a scan response. A connectable advertisement may have one without this flag.
  public static let scanResponse = AdvertisingFlags(rawValue: 1 << 16)
}
