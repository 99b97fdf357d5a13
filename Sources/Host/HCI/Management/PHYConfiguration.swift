import Bytes

/// The PHYs that a controller supports, and those that it uses for new links.
///
/// | offset | size | field |
/// | --- | --- | --- |
/// | 0 | 4 | supported |
/// | 4 | 4 | configurable: the supported PHYs that can be deselected |
/// | 8 | 4 | selected |
public struct PHYConfiguration: Hashable, Sendable {
  public var supported: PHYs
  public var configurable: PHYs
  public var selected: PHYs

  public init(supported: PHYs, configurable: PHYs, selected: PHYs) {
    self.supported = supported
    self.configurable = configurable
    self.selected = selected
  }

  init(reading reader: inout ByteReader) throws(WireError) {
    supported = PHYs(rawValue: try reader.u32le())
    configurable = PHYs(rawValue: try reader.u32le())
    selected = PHYs(rawValue: try reader.u32le())
    try reader.finish()
  }
}

/// PHYs, separately for each direction. Those of BR/EDR are included, but have no names here.
public struct PHYs: OptionSet, Hashable, Sendable {
  public let rawValue: UInt32

  public init(rawValue: UInt32) {
    self.rawValue = rawValue
  }

  public static let send1M = PHYs(rawValue: 1 << 9)
  public static let receive1M = PHYs(rawValue: 1 << 10)
  public static let send2M = PHYs(rawValue: 1 << 11)
  public static let receive2M = PHYs(rawValue: 1 << 12)

  /// LE 2M in both directions.
  public static let le2M: PHYs = [.send2M, .receive2M]
}

/// Get PHY Configuration: the reply contains the supported, the configurable and the selected PHYs.
public struct GetPHYConfiguration: ManagementCommand {
  public static let opcode: UInt16 = 0x0044

  public init() {}

  public func write(to writer: inout ByteWriter) {}

  public static func reply(reading reader: inout ByteReader) throws(WireError) -> PHYConfiguration {
    try PHYConfiguration(reading: &reader)
  }
}

/// Set PHY Configuration: the PHYs for new links; existing links are not changed (LE Set Default PHY, Core 5.4 Vol 4
/// Part E 7.8.48). The kernel refuses unsupported PHYs, the omission of a PHY that is not configurable, and every
/// change while the controller is off.
public struct SetPHYConfiguration: ManagementCommand {
  public static let opcode: UInt16 = 0x0045
  public var selected: PHYs

  public init(selected: PHYs) {
    self.selected = selected
  }

  public func write(to writer: inout ByteWriter) { writer.u32le(selected.rawValue) }

  public static func reply(reading reader: inout ByteReader) throws(WireError) -> Nothing {
    try Nothing(reading: &reader)
  }
}
