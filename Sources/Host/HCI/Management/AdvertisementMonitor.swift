import Bytes
import Radio

/// Add Advertisement Patterns Monitor: while the monitor exists, the kernel scans passively, without the controller's
/// duplicate filter, and reports each advertisement that matches a pattern. If the controller cannot match patterns,
/// the kernel reports every advertisement. The monitor persists after the socket is closed.
///
/// | offset | size | field |
/// | --- | --- | --- |
/// | 0 | 1 | number of patterns |
/// | 1 + 34 n | 1 | AD type |
/// | | 1 | offset of the bytes after the type |
/// | | 1 | number of bytes |
/// | | 31 | the bytes, padded with zeros |
///
/// Facts: bluez.md section 13.
public struct AddAdvertisementPatternsMonitor: ManagementCommand {
  public static let opcode: UInt16 = 0x0052
  public var patterns: [AdvertisingPattern]

  /// - Parameter patterns: 1 to 16, the kernel's maximum.
  public init(_ patterns: [AdvertisingPattern]) {
    self.patterns = patterns
  }

  public func write(to writer: inout ByteWriter) {
    let patterns = patterns.prefix(AdvertisingPattern.limit)
    writer.u8(UInt8(truncatingIfNeeded: patterns.count))
    for pattern in patterns {
      writer.u8(pattern.type)
      writer.u8(pattern.offset)
      writer.u8(UInt8(truncatingIfNeeded: pattern.bytes.count))
      writer.append(pattern.bytes)
      writer.append([UInt8](repeating: 0, count: AdvertisingData.limit - pattern.bytes.count))
    }
  }

  /// The reply: the handle that the kernel assigned to the monitor, 2 bytes.
  public static func reply(reading reader: inout ByteReader) throws(WireError) -> UInt16 {
    try MonitorHandle.read(&reader)
  }
}

/// Remove Advertisement Monitor: removes the monitor with the given handle (2 bytes). The handle 0 would remove those
/// of all programs.
public struct RemoveAdvertisementMonitor: ManagementCommand {
  public static let opcode: UInt16 = 0x0053
  public var handle: UInt16

  public init(_ handle: UInt16) {
    self.handle = handle
  }

  public func write(to writer: inout ByteWriter) { writer.u16le(handle) }

  public static func reply(reading reader: inout ByteReader) throws(WireError) -> UInt16 {
    try MonitorHandle.read(&reader)
  }
}

private enum MonitorHandle {
  static func read(_ reader: inout ByteReader) throws(WireError) -> UInt16 {
    let handle = try reader.u16le()
    try reader.finish()
    return handle
  }
}
