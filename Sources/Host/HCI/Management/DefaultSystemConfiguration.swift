import Bytes

/// The kernel's default link parameters for a controller, in the format of Read and Set Default System Configuration: a
/// list of numbered parameters.
///
/// | offset | size | field, for each parameter |
/// | --- | --- | --- |
/// | 0 | 2 | number of the parameter |
/// | 2 | 1 | length of the value |
/// | 3 | | value, little endian |
///
/// Facts: bluez.md section 13.
public struct DefaultSystemConfiguration: Hashable, Sendable {
  /// A parameter of two bytes. The kernel has about thirty; these concern links.
  public enum Parameter: UInt16, CaseIterable, Sendable {
    /// Minimum interval of new links, in units of 1.25 ms.
    case minimumInterval = 0x0017
    /// Maximum interval of new links, in units of 1.25 ms.
    case maximumInterval = 0x0018
    /// Number of connection events that a peripheral may skip.
    case latency = 0x0019
    /// Time without a packet after which a link ends, in units of 10 ms.
    case supervisionTimeout = 0x001A
  }

  /// The parameters that are present.
  public private(set) var values: [Parameter: UInt16] = [:]

  public init(_ values: [Parameter: UInt16] = [:]) {
    self.values = values
  }

  public subscript(parameter: Parameter) -> UInt16? {
    get { values[parameter] }
    set { values[parameter] = newValue }
  }

  /// The parameters whose values differ from `other`.
  public func difference(from other: DefaultSystemConfiguration) -> DefaultSystemConfiguration {
    DefaultSystemConfiguration(values.filter { other[$0.key] != $0.value })
  }

  /// Ignores parameters that are not in `Parameter`; throws if one of them is not two bytes long, or occurs twice.
  init(reading reader: inout ByteReader) throws(WireError) {
    while !reader.isAtEnd {
      let number = try reader.u16le()
      let value = try reader.bytes(Int(try reader.u8()))
      guard let parameter = Parameter(rawValue: number) else { continue }
      guard values[parameter] == nil else { throw .badValue("parameter") }
      var bytes = ByteReader(value)
      values[parameter] = try bytes.u16le()
      try bytes.finish()
    }
  }

  func write(to writer: inout ByteWriter) {
    for parameter in Parameter.allCases {
      guard let value = values[parameter] else { continue }
      writer.u16le(parameter.rawValue)
      writer.u8(2)
      writer.u16le(value)
    }
  }
}

/// Read Default System Configuration: the reply contains the kernel's default parameters for new links.
public struct ReadDefaultSystemConfiguration: ManagementCommand {
  public static let opcode: UInt16 = 0x004B

  public init() {}

  public func write(to writer: inout ByteWriter) {}

  public static func reply(reading reader: inout ByteReader) throws(WireError) -> DefaultSystemConfiguration {
    try DefaultSystemConfiguration(reading: &reader)
  }
}

/// Set Default System Configuration: applies to new links. Omitted parameters are not changed.
public struct SetDefaultSystemConfiguration: ManagementCommand {
  public static let opcode: UInt16 = 0x004C
  public var configuration: DefaultSystemConfiguration

  public init(_ configuration: DefaultSystemConfiguration) {
    self.configuration = configuration
  }

  public func write(to writer: inout ByteWriter) { configuration.write(to: &writer) }

  public static func reply(reading reader: inout ByteReader) throws(WireError) -> Nothing {
    try Nothing(reading: &reader)
  }
}

/// The empty reply of a command that returns only its status.
public struct Nothing: Hashable, Sendable {
  public init() {}

  init(reading reader: inout ByteReader) throws(WireError) { try reader.finish() }
}
