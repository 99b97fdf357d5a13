import Bytes

/// An event of the management socket, including replies to commands.
public enum ManagementEvent: Hashable, Sendable {
  case commandComplete(opcode: UInt16, ManagementStatus, [UInt8])
  case commandStatus(opcode: UInt16, ManagementStatus)
  /// A controller was added; the packet contains its index.
  case indexAdded
  /// A controller was removed; the packet contains its index.
  case indexRemoved
  case newSettings(ControllerSettings)
  /// An LE or BR/EDR link came up.
  case deviceConnected(DeviceConnected)
  /// An LE or BR/EDR link ended.
  case deviceDisconnected(DeviceDisconnected)
  /// An advertisement of another program was added or, in the next case, removed. The kernel sends neither event for
  /// commands of this socket.
  case advertisingAdded(instance: UInt8)
  case advertisingRemoved(instance: UInt8)
  case discovering(Discovering)
  /// An advertiser was received, or a device was found by inquiry, while a program discovers.
  case deviceFound(AdvertisingReport)
  /// Any program removed a monitor with this handle.
  case monitorRemoved(UInt16)
  /// An advertiser was received for a monitor, while no program discovers.
  case monitoredDeviceFound(MonitoredReport)
  /// Any other event.
  case other(code: UInt16)

  /// Whether the controller is discovering, for any program.
  public struct Discovering: Hashable, Sendable {
    /// Address types that are discovered. Bit 0: BR/EDR; bits 1 and 2: LE with public and random addresses.
    public var types: UInt8
    public var isOn: Bool

    public init(types: UInt8, isOn: Bool) {
      self.types = types
      self.isOn = isOn
    }
  }

  /// Decodes the event of a packet; throws if a known event is malformed.
  public init(reading packet: ManagementPacket) throws(WireError) {
    var reader = ByteReader(packet.parameters)
    switch packet.code {
    case 0x0001:
      self = .commandComplete(
        opcode: try reader.u16le(), ManagementStatus(rawValue: try reader.u8()), Array(reader.rest()))
    case 0x0002:
      self = .commandStatus(opcode: try reader.u16le(), ManagementStatus(rawValue: try reader.u8()))
    case 0x0004: self = .indexAdded
    case 0x0005: self = .indexRemoved
    case 0x0006: self = .newSettings(ControllerSettings(rawValue: try reader.u32le()))
    case 0x000B: self = .deviceConnected(try DeviceConnected(reading: &reader))
    case 0x000C: self = .deviceDisconnected(try DeviceDisconnected(reading: &reader))
    case 0x0012: self = .deviceFound(try AdvertisingReport(reading: &reader))
    case 0x002C: self = .monitorRemoved(try reader.u16le())
    case 0x002F: self = .monitoredDeviceFound(try MonitoredReport(reading: &reader))
    case 0x0013: self = .discovering(Discovering(types: try reader.u8(), isOn: try reader.u8() != 0))
    case 0x0023: self = .advertisingAdded(instance: try reader.u8())
    case 0x0024: self = .advertisingRemoved(instance: try reader.u8())
    case let code:
      self = .other(code: code)
      return
    }
    try reader.finish()
  }

  /// The packet that contains the event about the controller `index`.
  public func packet(of index: UInt16) -> ManagementPacket {
    var writer = ByteWriter()
    let code: UInt16
    switch self {
    case .commandComplete(let opcode, let status, let parameters):
      code = 0x0001
      writer.u16le(opcode)
      writer.u8(status.rawValue)
      writer.append(parameters)
    case .commandStatus(let opcode, let status):
      code = 0x0002
      writer.u16le(opcode)
      writer.u8(status.rawValue)
    case .indexAdded: code = 0x0004
    case .indexRemoved: code = 0x0005
    case .newSettings(let settings):
      code = 0x0006
      writer.u32le(settings.rawValue)
    case .deviceConnected(let link):
      code = 0x000B
      link.write(to: &writer)
    case .deviceDisconnected(let link):
      code = 0x000C
      link.write(to: &writer)
    case .deviceFound(let report):
      code = 0x0012
      report.write(to: &writer)
    case .discovering(let discovering):
      code = 0x0013
      writer.u8(discovering.types)
      writer.u8(discovering.isOn ? 1 : 0)
    case .advertisingAdded(let instance):
      code = 0x0023
      writer.u8(instance)
    case .advertisingRemoved(let instance):
      code = 0x0024
      writer.u8(instance)
    case .monitorRemoved(let handle):
      code = 0x002C
      writer.u16le(handle)
    case .monitoredDeviceFound(let monitored):
      code = 0x002F
      monitored.write(to: &writer)
    case .other(let other): code = other
    }
    return ManagementPacket(code: code, index: index, parameters: writer.bytes)
  }
}
