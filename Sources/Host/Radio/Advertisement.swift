/// A legacy advertisement: what is on the air, and how often.
public struct Advertisement: Hashable, Sendable {
  public var data: AdvertisingData
  /// What a scanner is answered with; empty if it is answered with nothing.
  public var scanResponse: AdvertisingData
  /// Time between two advertising events.
  public var interval: Duration
  /// Whether a peer may connect by it.
  public var isConnectable: Bool

  public init(
    data: AdvertisingData, scanResponse: AdvertisingData = AdvertisingData(), interval: Duration = .milliseconds(100),
    isConnectable: Bool = true
  ) {
    self.data = data
    self.scanResponse = scanResponse
    self.interval = interval
    self.isConnectable = isConnectable
  }

  /// - Throws: `RadioError.advertisementTooLong` if either payload has over 31 bytes.
  public func checkLengths() throws(RadioError) {
    _ = try data.encoded()
    _ = try scanResponse.encoded()
  }
}
