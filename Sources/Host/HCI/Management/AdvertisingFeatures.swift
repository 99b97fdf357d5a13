import Bytes

/// The answer to Read Advertising Features.
///
/// | offset | size | field |
/// | --- | --- | --- |
/// | 0 | 4 | supported flags |
/// | 4 | 1 | maximum data length |
/// | 5 | 1 | maximum scan response length |
/// | 6 | 1 | maximum number of instances |
/// | 7 | 1 + n | existing instances; kernels 6.1 and 6.12 omit those with numbers above their count |
public struct AdvertisingFeatures: Hashable, Sendable {
  public var flags: AdvertisingFlags
  public var dataLimit: UInt8
  public var scanResponseLimit: UInt8
  public var instanceLimit: UInt8
  /// The numbers of existing instances, which may be incomplete; see `state(of:)`.
  public var instances: [UInt8]

  /// Maximum advertising sets of a controller (Core 5.4 Vol 4 Part E 7.8.58: 0xF0).
  public static let limit = 0xF0

  public init(
    flags: AdvertisingFlags, dataLimit: UInt8, scanResponseLimit: UInt8, instanceLimit: UInt8, instances: [UInt8]
  ) {
    self.flags = flags
    self.dataLimit = dataLimit
    self.scanResponseLimit = scanResponseLimit
    self.instanceLimit = instanceLimit
    self.instances = instances
  }

  init(reading reader: inout ByteReader) throws(WireError) {
    flags = AdvertisingFlags(rawValue: try reader.u32le())
    dataLimit = try reader.u8()
    scanResponseLimit = try reader.u8()
    instanceLimit = try reader.u8()
    let count = Int(try reader.u8())
    guard count <= Self.limit else { throw .tooLong(field: "instances", limit: Self.limit) }
    instances = Array(try reader.bytes(count))
    try reader.finish()
  }

  /// The state of one instance, according to the list.
  public enum InstanceState: Hashable, Sendable {
    case used, free, unknown
  }

  /// Whether an instance with this number exists. A kernel lists only instances with numbers up to their count: of the
  /// two instances 1 and 3 it lists only 1, and 3 is then unknown.
  public func state(of instance: UInt8) -> InstanceState {
    if instances.contains(instance) { return .used }
    return Int(instance) <= instances.count ? .free : .unknown
  }
}

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
