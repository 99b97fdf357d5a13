import Bytes
import Radio

/// A link in the list of HCIGETCONNLIST.
///
/// | offset | size | field of the answer |
/// | --- | --- | --- |
/// | 0 | 2 + 2 | controller, number of links |
/// | 4 + 16n | 2 | handle |
/// | | 6 | address, least significant byte first |
/// | | 1 + 1 | kind (0x80: LE), whether this machine made the link |
/// | | 2 + 4 | state (1: connected), mode (bit 0: this machine is the central) |
public struct HCILink: Hashable, Sendable {
  public var handle: UInt16
  public var address: BluetoothAddress
  public var isLE: Bool
  public var isConnected: Bool
  /// Whether this machine is the central.
  public var isCentral: Bool
  /// Whether this machine made the link. An LE link is made by its central.
  public var isOutgoing: Bool

  /// Maximum links, more than any controller supports.
  public static let limit = 64
  /// The bits of a handle; a packet uses the higher bits as flags.
  static let handleMask: UInt16 = 0x0FFF

  /// Makes a link.
  ///
  /// - Parameter isOutgoing: whether this machine made the link; nil means the value of `isCentral`.
  public init(
    handle: UInt16, address: BluetoothAddress, isLE: Bool = true, isConnected: Bool = true, isCentral: Bool = false,
    isOutgoing: Bool? = nil
  ) {
    self.handle = handle
    self.address = address
    self.isLE = isLE
    self.isConnected = isConnected
    self.isCentral = isCentral
    self.isOutgoing = isOutgoing ?? isCentral
  }

  /// The argument of HCIGETCONNLIST about the controller `index`, with space for the answer.
  static func question(_ index: UInt16) -> [UInt8] {
    var writer = ByteWriter()
    writer.u16le(index)
    writer.u16le(UInt16(limit))
    return writer.bytes + [UInt8](repeating: 0, count: 16 * limit)
  }

  /// Decodes the links of an answer.
  static func list(reading bytes: [UInt8]) throws(WireError) -> [HCILink] {
    var reader = ByteReader(bytes)
    _ = try reader.u16le()
    let count = Int(try reader.u16le())
    guard count <= limit else { throw .tooLong(field: "links", limit: limit) }
    var links: [HCILink] = []
    for _ in 0..<count {
      let (handle, address) = (try reader.u16le(), try reader.bluetoothAddress())
      let (kind, isOutgoing) = (try reader.u8(), try reader.u8() != 0)
      let (state, mode) = (try reader.u16le(), try reader.u32le())
      links.append(
        HCILink(
          handle: handle, address: address, isLE: kind == 0x80, isConnected: state == 1, isCentral: mode & 1 != 0,
          isOutgoing: isOutgoing))
    }
    return links
  }
}
