/// What an advertisement is to be, and which of these a controller and its kernel can do.
public struct AdvertisingFlags: OptionSet, Hashable, Sendable {
  public let rawValue: UInt32

  public init(rawValue: UInt32) {
    self.rawValue = rawValue
  }

  public static let connectable = AdvertisingFlags(rawValue: 1 << 0)
  /// The interval is that of the command.
  public static let intervals = AdvertisingFlags(rawValue: 1 << 14)
  /// A scan response will come with the data.
  public static let scanResponse = AdvertisingFlags(rawValue: 1 << 16)
}
