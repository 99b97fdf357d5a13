/// Advertiser, identified by one number formed of its address and the kind of the address. The radio layer forms the
/// number.
public struct AdvertiserID: Hashable, Sendable {
  public let rawValue: UInt64

  public init(rawValue: UInt64) {
    self.rawValue = rawValue
  }
}

extension AdvertiserID: CustomStringConvertible {
  /// A constant: addresses must not appear in logs.
  public var description: String { "advertiser" }
}
