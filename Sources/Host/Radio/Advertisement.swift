import Loop

/// A legacy advertisement: its data and its interval.
public struct Advertisement: Hashable, Sendable {
  public enum Kind: Hashable, Sendable {
    /// Peers can connect. A scanner receives the scan response, if it is not empty.
    case connectable(scanResponse: AdvertisingData)
    /// Peers cannot connect, and scanners receive no response. It is sent from a separate random address, which does
    /// not change while the set is active, even if the data is replaced.
    case nonConnectable(AdvertisingSetID)
  }

  public var kind: Kind
  public var data: AdvertisingData
  /// Time between two advertising events.
  public var interval: Duration

  /// Creates a connectable advertisement.
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

  /// The scan response; empty if there is none.
  public var scanResponse: AdvertisingData {
    if case .connectable(let scanResponse) = kind { scanResponse } else { AdvertisingData() }
  }

  /// Whether peers can connect.
  public var isConnectable: Bool { setID == nil }

  /// The set of the advertisement; nil for a connectable one.
  public var setID: AdvertisingSetID? {
    if case .nonConnectable(let set) = kind { set } else { nil }
  }

  /// - Throws: `RadioError.advertisementTooLong` if a payload has more than 31 bytes.
  public func checkLengths() throws(RadioError) {
    _ = try data.encoded()
    _ = try scanResponse.encoded()
  }
}

/// Identifies advertisements that use one address.
public struct AdvertisingSetID: Hashable, Sendable {
  public let number: Int

  public init(_ number: Int) {
    self.number = number
  }
}

extension AdvertisingSetID {
  /// Number of the last identity. It starts at 2^32, above the numbers that `SharedRadio` gives to its sets.
  @LoopActor private static var last = 1 << 32

  /// An identity that no other set of this process has. An advertisement with a new identity is sent from a new
  /// address.
  @LoopActor
  public static func unique() -> AdvertisingSetID {
    last += 1
    return AdvertisingSetID(last)
  }
}
