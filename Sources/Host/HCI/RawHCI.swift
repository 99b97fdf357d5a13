import Bytes
import Loop
import Radio

/// Packets to a controller beside the kernel's own, and what the kernel knows of its links.
@LoopActor
public protocol RawHCI: AnyObject {
  /// Opens the controller `index`, and finds out how much it takes at a time; does nothing the second time.
  func open(_ index: UInt16) throws(HCIError)

  /// Forgets all controllers.
  func closeAll()

  func links(of index: UInt16) throws(HCIError) -> [HCILink]

  /// How much the controller takes of LE data; the least that any does until it has said so.
  func buffers(of index: UInt16) -> LEBuffers

  /// Sends these packets of one link one after the other, their types included, as fast as the controller takes them.
  func send(_ packets: [[UInt8]], to index: UInt16) throws(HCIError)
}

/// A controller's buffers for LE data.
public struct LEBuffers: Hashable, Sendable {
  /// Bytes of one packet.
  public var length: Int
  /// Packets at a time.
  public var count: Int

  /// The least that the specification allows (Core 5.4 Vol 4 Part E 7.8.2), and one of them.
  public static let least = LEBuffers(length: 27, count: 1)

  public init(length: Int, count: Int) {
    self.length = length
    self.count = count
  }
}

/// A link as HCIGETCONNLIST tells of it.
///
/// | offset | size | field of the answer |
/// | --- | --- | --- |
/// | 0 | 2 + 2 | controller, how many links |
/// | 4 + 16n | 2 | handle |
/// | | 6 | address, least significant byte first |
/// | | 1 + 1 | kind (0x80: LE), whether it was made from here |
/// | | 2 + 4 | state (1: connected), mode (bit 0: we are the central) |
public struct HCILink: Hashable, Sendable {
  public var handle: UInt16
  public var address: BluetoothAddress
  public var isLE: Bool
  public var isConnected: Bool
  public var isCentral: Bool

  /// More than a controller has.
  static let limit = 64

  public init(
    handle: UInt16, address: BluetoothAddress, isLE: Bool = true, isConnected: Bool = true, isCentral: Bool = false
  ) {
    self.handle = handle
    self.address = address
    self.isLE = isLE
    self.isConnected = isConnected
    self.isCentral = isCentral
  }

  /// Whether the peer is a client of ours: connected over LE, and it was the peer who connected.
  public var isClient: Bool { isLE && isConnected && !isCentral }

  /// The question about `index`, with room for the answer.
  static func question(_ index: UInt16) -> [UInt8] {
    var writer = ByteWriter()
    writer.u16le(index)
    writer.u16le(UInt16(limit))
    return writer.bytes + [UInt8](repeating: 0, count: 16 * limit)
  }

  /// The links of an answer.
  static func list(reading bytes: [UInt8]) throws(WireError) -> [HCILink] {
    var reader = ByteReader(bytes)
    _ = try reader.u16le()
    let count = Int(try reader.u16le())
    guard count <= limit else { throw .tooLong(field: "links", limit: limit) }
    var links: [HCILink] = []
    for _ in 0..<count {
      let (handle, address) = (try reader.u16le(), try reader.bluetoothAddress())
      let kind = try reader.u8()
      _ = try reader.u8()
      let (state, mode) = (try reader.u16le(), try reader.u32le())
      links.append(
        HCILink(
          handle: handle, address: address, isLE: kind == 0x80, isConnected: state == 1, isCentral: mode & 1 != 0))
    }
    return links
  }
}
