/// Kinds of advertisement, as a command asks for them, and as a controller and its kernel can do them.
public struct AdvertisingFlags: OptionSet, Hashable, Sendable {
  public let rawValue: UInt32

  public init(rawValue: UInt32) {
    self.rawValue = rawValue
  }

  /// Peers may connect. Without it the kernel advertises from a random address, and from the public one while the
  /// adapter as a whole is connectable. Facts: bluez.md section 13.
  public static let connectable = AdvertisingFlags(rawValue: 1 << 0)
  /// The advertisement is an extended one, on the 1M PHY. A controller that supports it sends several advertisements at a
  /// time; for any other the kernel shows one instance after the other.
  public static let secondary1M = AdvertisingFlags(rawValue: 1 << 7)
  /// The interval is that of the command.
  public static let intervals = AdvertisingFlags(rawValue: 1 << 14)
  /// A scan response comes with the data. A connectable advertisement may have one without this.
  public static let scanResponse = AdvertisingFlags(rawValue: 1 << 16)
}
