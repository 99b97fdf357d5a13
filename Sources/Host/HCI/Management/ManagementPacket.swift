import Bytes

/// A packet of the management socket, in either direction. Numbers are little endian.
///
/// | offset | size | field |
/// | --- | --- | --- |
/// | 0 | 2 | opcode of the command, or code of the event |
/// | 2 | 2 | index of the controller, 0xFFFF for none |
/// | 4 | 2 | length of the parameters |
/// | 6 | | parameters |
public struct ManagementPacket: Hashable, Sendable {
  public var code: UInt16
  public var index: UInt16
  public var parameters: [UInt8]

  /// Maximum bytes of a packet, more than any event that is decoded here. A report contains up to 1650 bytes of an
  /// extended advertisement.
  public static let limit = 4096
  static let headerLength = 6

  public init(code: UInt16, index: UInt16, parameters: [UInt8]) {
    self.code = code
    self.index = index
    self.parameters = parameters
  }

  public init(reading bytes: [UInt8]) throws(WireError) {
    var reader = ByteReader(bytes)
    code = try reader.u16le()
    index = try reader.u16le()
    let length = Int(try reader.u16le())
    guard length <= Self.limit - Self.headerLength else {
      throw .tooLong(field: "parameters", limit: Self.limit - Self.headerLength)
    }
    parameters = Array(try reader.bytes(length))
    try reader.finish()
  }

  public func write(to writer: inout ByteWriter) {
    writer.u16le(code)
    writer.u16le(index)
    // No command is longer. Parameters beyond the limit are cut.
    let parameters = parameters.prefix(Self.limit - Self.headerLength)
    writer.u16le(UInt16(truncatingIfNeeded: parameters.count))
    writer.append(parameters)
  }

  public var bytes: [UInt8] {
    var writer = ByteWriter(capacity: Self.headerLength + parameters.count)
    write(to: &writer)
    return writer.bytes
  }
}

/// The status code of a reply to a management command. Other codes are possible.
public struct ManagementStatus: RawRepresentable, Hashable, Sendable, CustomStringConvertible {
  public let rawValue: UInt8

  public init(rawValue: UInt8) {
    self.rawValue = rawValue
  }

  public static let success = ManagementStatus(rawValue: 0x00)
  public static let unknownCommand = ManagementStatus(rawValue: 0x01)
  public static let failed = ManagementStatus(rawValue: 0x03)
  public static let noResources = ManagementStatus(rawValue: 0x07)
  public static let busy = ManagementStatus(rawValue: 0x0A)
  public static let rejected = ManagementStatus(rawValue: 0x0B)
  public static let notSupported = ManagementStatus(rawValue: 0x0C)
  public static let invalidParameters = ManagementStatus(rawValue: 0x0D)
  public static let notPowered = ManagementStatus(rawValue: 0x0F)
  public static let invalidIndex = ManagementStatus(rawValue: 0x11)
  public static let permissionDenied = ManagementStatus(rawValue: 0x14)

  public var description: String {
    switch self {
    case .success: "Success"
    case .unknownCommand: "Unknown Command"
    case .failed: "Failed"
    case .noResources: "No Resources"
    case .busy: "Busy"
    case .rejected: "Rejected"
    case .notSupported: "Not Supported"
    case .invalidParameters: "Invalid Parameters"
    case .notPowered: "Not Powered"
    case .invalidIndex: "Invalid Index"
    case .permissionDenied: "Permission Denied"
    default: "status \(rawValue)"
    }
  }
}
