import Bytes
import Radio

/// A command of the management interface, with its parameters. BlueZ's `doc/mgmt-api.txt` describes the interface.
public protocol ManagementCommand: Hashable, Sendable {
  /// The kernel's reply to a successful command.
  associatedtype Reply: Hashable, Sendable

  static var opcode: UInt16 { get }
  func write(to writer: inout ByteWriter)
  static func reply(reading reader: inout ByteReader) throws(WireError) -> Reply
}

/// Stop Discovery: ends the controller's discovery, even if another program started it. bluetoothd restarts it for
/// programs that still discover.
public struct StopDiscovery: ManagementCommand {
  public static let opcode: UInt16 = 0x0024
  /// Address types of the discovery, as in the event Discovering (`ManagementEvent.Discovering.types`). The kernel
  /// refuses other values.
  public var types: UInt8

  public init(types: UInt8) {
    self.types = types
  }

  public func write(to writer: inout ByteWriter) { writer.u8(types) }

  public static func reply(reading reader: inout ByteReader) throws(WireError) -> UInt8 {
    let types = try reader.u8()
    try reader.finish()
    return types
  }
}

/// Read Advertising Features: the capacity of a controller for advertisements.
public struct ReadAdvertisingFeatures: ManagementCommand {
  public static let opcode: UInt16 = 0x003D

  public init() {}

  public func write(to writer: inout ByteWriter) {}

  public static func reply(reading reader: inout ByteReader) throws(WireError) -> AdvertisingFeatures {
    try AdvertisingFeatures(reading: &reader)
  }
}

/// Add Advertising: starts an advertisement at the kernel's own interval of 1280 ms. It replaces the instance with the
/// same number.
///
/// | offset | size | field |
/// | --- | --- | --- |
/// | 0 | 1 | instance, from 1 |
/// | 1 | 4 | flags |
/// | 5 | 2 | duration in seconds, if instances are rotated |
/// | 7 | 2 | timeout in seconds |
/// | 9 | 1 + 1 | length of the data, of the scan response |
/// | 11 | | both |
public struct AddAdvertising: ManagementCommand {
  public static let opcode: UInt16 = 0x003E
  public var instance: UInt8
  public var flags: AdvertisingFlags
  public var data: [UInt8]
  public var scanResponse: [UInt8]

  public init(instance: UInt8, flags: AdvertisingFlags, data: [UInt8], scanResponse: [UInt8]) {
    self.instance = instance
    self.flags = flags
    self.data = data
    self.scanResponse = scanResponse
  }

  public func write(to writer: inout ByteWriter) {
    writer.u8(instance)
    writer.u32le(flags.rawValue)
    writer.u16le(0)
    writer.u16le(0)
    writer.payloads(data, scanResponse)
  }

  public static func reply(reading reader: inout ByteReader) throws(WireError) -> UInt8 {
    try AdvertisingInstance.read(&reader)
  }
}

/// Remove Advertising: removes an instance.
public struct RemoveAdvertising: ManagementCommand {
  public static let opcode: UInt16 = 0x003F
  public var instance: UInt8

  public init(instance: UInt8) {
    self.instance = instance
  }

  public func write(to writer: inout ByteWriter) { writer.u8(instance) }

  public static func reply(reading reader: inout ByteReader) throws(WireError) -> UInt8 {
    try AdvertisingInstance.read(&reader)
  }
}

/// Add Extended Advertising Parameters: the first part of an advertisement with an interval;
/// `AddExtendedAdvertisingData` is the second. It replaces the instance with the same number, including its random
/// address.
///
/// | offset | size | field |
/// | --- | --- | --- |
/// | 0 | 1 | instance, from 1 |
/// | 1 | 4 | flags |
/// | 5 | 2 + 2 | duration, timeout, in seconds |
/// | 9 | 4 + 4 | minimum and maximum interval, in 0.625 ms |
/// | 17 | 1 | transmit power in dBm, 127 for no preference |
public struct AddExtendedAdvertisingParameters: ManagementCommand {
  public static let opcode: UInt16 = 0x0054
  public var instance: UInt8
  public var flags: AdvertisingFlags
  /// The interval, in units of 0.625 ms.
  public var interval: UInt32

  public struct Reply: Hashable, Sendable {
    public var instance: UInt8
    /// The selected transmit power, in dBm.
    public var power: Int8
    public var dataLimit: UInt8
    public var scanResponseLimit: UInt8

    public init(instance: UInt8, power: Int8, dataLimit: UInt8, scanResponseLimit: UInt8) {
      self.instance = instance
      self.power = power
      self.dataLimit = dataLimit
      self.scanResponseLimit = scanResponseLimit
    }
  }

  public init(instance: UInt8, flags: AdvertisingFlags, interval: UInt32) {
    self.instance = instance
    self.flags = flags
    self.interval = interval
  }

  /// The parameters of an instance with this `interval`.
  public init(instance: UInt8, isConnectable: Bool, hasScanResponse: Bool, interval: UInt32) {
    var flags: AdvertisingFlags = .intervals
    if isConnectable { flags.insert(.connectable) }
    if hasScanResponse { flags.insert(.scanResponse) }
    self.init(instance: instance, flags: flags, interval: interval)
  }

  public func write(to writer: inout ByteWriter) {
    writer.u8(instance)
    writer.u32le(flags.rawValue)
    writer.u16le(0)
    writer.u16le(0)
    writer.u32le(interval)
    writer.u32le(interval)
    writer.u8(127)
  }

  public static func reply(reading reader: inout ByteReader) throws(WireError) -> Reply {
    let reply = Reply(
      instance: try reader.u8(), power: Int8(bitPattern: try reader.u8()), dataLimit: try reader.u8(),
      scanResponseLimit: try reader.u8())
    try reader.finish()
    return reply
  }
}

/// Add Extended Advertising Data: the data of an instance whose parameters were added, and which this command starts.
/// For a running instance it replaces only the data; interval and address do not change.
public struct AddExtendedAdvertisingData: ManagementCommand {
  public static let opcode: UInt16 = 0x0055
  public var instance: UInt8
  public var data: [UInt8]
  public var scanResponse: [UInt8]

  public init(instance: UInt8, data: [UInt8], scanResponse: [UInt8]) {
    self.instance = instance
    self.data = data
    self.scanResponse = scanResponse
  }

  public func write(to writer: inout ByteWriter) {
    writer.u8(instance)
    writer.payloads(data, scanResponse)
  }

  public static func reply(reading reader: inout ByteReader) throws(WireError) -> UInt8 {
    try AdvertisingInstance.read(&reader)
  }
}

/// The reply to each command that changes an instance: the number of the instance.
enum AdvertisingInstance {
  static func read(_ reader: inout ByteReader) throws(WireError) -> UInt8 {
    let instance = try reader.u8()
    try reader.finish()
    return instance
  }
}

extension ByteWriter {
  /// Writes the lengths of both payloads, then both. Callers pass at most 31 bytes each; the kernel refuses more.
  fileprivate mutating func payloads(_ data: [UInt8], _ scanResponse: [UInt8]) {
    let (data, scanResponse) = (data.prefix(255), scanResponse.prefix(255))
    u8(UInt8(truncatingIfNeeded: data.count))
    u8(UInt8(truncatingIfNeeded: scanResponse.count))
    append(data)
    append(scanResponse)
  }
}
