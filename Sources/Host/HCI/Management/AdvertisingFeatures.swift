import Bytes

/// The answer to Read Advertising Features.
///
/// | offset | size | field |
/// | --- | --- | --- |
/// | 0 | 4 | flags that are supported |
/// | 4 | 1 | longest data |
/// | 5 | 1 | longest scan response |
/// | 6 | 1 | how many instances there can be |
/// | 7 | 1 + n | the instances there are; kernels 6.1 and 6.12 leave out those numbered above their count |
public struct AdvertisingFeatures: Hashable, Sendable {
  public var flags: AdvertisingFlags
  public var dataLimit: UInt8
  public var scanResponseLimit: UInt8
  public var instanceLimit: UInt8
  /// The numbers of instances that there are, but not of all: `state(of:)` says what the list tells.
  public var instances: [UInt8]

  /// More sets than a controller has (Core 5.4 Vol 4 Part E 7.8.58: 0xF0).
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

  /// What the list tells of one instance.
  public enum InstanceState: Hashable, Sendable {
    case used, free, unknown
  }

  /// Whether there is an instance of this number, as far as the list tells: a kernel lists those numbered up to their
  /// count. Of 1 and 3, which are two, it lists 1 alone; 3 is then unknown.
  public func state(of instance: UInt8) -> InstanceState {
    if instances.contains(instance) { return .used }
    return Int(instance) <= instances.count ? .free : .unknown
  }
}
