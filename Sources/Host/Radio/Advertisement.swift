/// A legacy advertisement: what is on the air, and how often.
public struct Advertisement: Hashable, Sendable {
  public enum Kind: Hashable, Sendable {
    /// A peer may connect by it. A scanner is answered with the scan response, or not at all where that is empty.
    case connectable(scanResponse: AdvertisingData)
    /// No peer may connect, and a scanner gets no answer. It comes from a random address of its own, which is the same for as
    /// long as the set is on the air, also when the data is exchanged.
    case nonConnectable(AdvertisingSetID)
  }

  public var kind: Kind
  public var data: AdvertisingData
  /// Time between two advertising events.
  public var interval: Duration

  /// An advertisement by which peers may connect.
  public init(
    data: AdvertisingData, scanResponse: AdvertisingData = AdvertisingData(), interval: Duration = .milliseconds(100)
  ) {
    self.init(.connectable(scanResponse: scanResponse), data: data, interval: interval)
  }

  public init(_ kind: Kind, data: AdvertisingData, interval: Duration = .milliseconds(100)) {
    self.kind = kind
    self.data = data
    self.interval = interval
  }

  /// What a scanner is answered with; empty if it is answered with nothing.
  public var scanResponse: AdvertisingData {
    if case .connectable(let scanResponse) = kind { scanResponse } else { AdvertisingData() }
  }

  /// Whether a peer may connect by it.
  public var isConnectable: Bool { setID == nil }

  /// The set that it belongs to; nil for one by which peers may connect.
  public var setID: AdvertisingSetID? {
    if case .nonConnectable(let set) = kind { set } else { nil }
  }

  /// - Throws: `RadioError.advertisementTooLong` if either payload has over 31 bytes.
  public func checkLengths() throws(RadioError) {
    _ = try data.encoded()
    _ = try scanResponse.encoded()
  }
}

/// Advertisements that are to come from one address.
public struct AdvertisingSetID: Hashable, Sendable {
  public let number: Int

  public init(_ number: Int) {
    self.number = number
  }
}
