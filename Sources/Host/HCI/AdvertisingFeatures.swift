import Bytes

/// The answer to Read Advertising Features.
///
/// | offset | size | field |
/// | --- | --- | --- |
/// | 0 | 4 | flags that are supported |
/// | 4 | 1 | longest data |
/// | 5 | 1 | longest scan response |
/// | 6 | 1 | how many instances there can be |
/// | 7 | 1 + n | the instances there are: kernel 6.1 and 6.12 leave out those numbered above their count |
public struct AdvertisingFeatures: Hashable, Sendable {
  public var flags: AdvertisingFlags
  public var dataLimit: UInt8
  public var scanResponseLimit: UInt8
  public var instanceLimit: UInt8
  /// Not to be relied on.
  public var instances: [UInt8]

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
    instances = Array(try reader.bytes(Int(try reader.u8())))
    try reader.finish()
  }
}
