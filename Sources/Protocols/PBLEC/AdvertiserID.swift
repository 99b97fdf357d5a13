/// A peer on the air: its address, and whether that is a public one, as one number. The radio says which number.
public struct AdvertiserID: Hashable, Sendable {
  public let rawValue: UInt64

  public init(rawValue: UInt64) {
    self.rawValue = rawValue
  }
}

extension AdvertiserID: CustomStringConvertible {
  /// An address is not for logs.
  public var description: String { "advertiser" }
}
