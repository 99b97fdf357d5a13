import Bytes
import Radio

/// A report of an advertiser for an advertisement monitor: Adv Monitor Device Found.
///
/// | offset | size | field |
/// | --- | --- | --- |
/// | 0 | 2 | handle of the monitor; 0 if the kernel does not report it |
/// | 2 | | as in Device Found |
public struct MonitoredReport: Hashable, Sendable {
  public var monitor: UInt16
  public var report: AdvertisingReport

  public init(monitor: UInt16, report: AdvertisingReport) {
    self.monitor = monitor
    self.report = report
  }

  init(reading reader: inout ByteReader) throws(WireError) {
    monitor = try reader.u16le()
    report = try AdvertisingReport(reading: &reader)
  }

  func write(to writer: inout ByteWriter) {
    writer.u16le(monitor)
    report.write(to: &writer)
  }

  /// The AD structures of a management packet that reports an advertiser, with either event, and the index of the controller. Nil for other
  /// packets, and for one with a wrong length. Nothing is allocated.
  static func data(in packet: ArraySlice<UInt8>) -> (data: ArraySlice<UInt8>, index: UInt16)? {
    let start = packet.startIndex
    guard packet.count >= ManagementPacket.headerLength, packet[start + 1] == 0 else { return nil }
    let header: Int
    switch packet[start] {
    case 0x12: header = ManagementPacket.headerLength + AdvertisingReport.headerLength
    case 0x2F: header = ManagementPacket.headerLength + 2 + AdvertisingReport.headerLength
    default: return nil
    }
    guard packet.count >= header else { return nil }
    let length = Int(packet[start + header - 2]) | Int(packet[start + header - 1]) << 8
    guard packet.count == header + length else { return nil }
    return (packet[(start + header)...], UInt16(packet[start + 2]) | UInt16(packet[start + 3]) << 8)
  }
}
