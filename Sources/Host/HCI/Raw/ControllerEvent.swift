import Bytes

/// What a controller says on a raw socket: a packet of type 4, of which these three are of use here.
///
/// | offset | size | field |
/// | --- | --- | --- |
/// | 0 | 1 + 1 + 1 | packet type 4, event, length of what follows |
/// | 3 | | Command Complete `0E`: commands it takes (1), opcode (2), answer |
/// | 3 | | Number Of Completed Packets `13`: how many links (1), for each a handle (2) and a number of packets (2) |
/// | 3 | | Disconnection Complete `05`: status (1), handle (2), reason (1) |
enum ControllerEvent: Hashable, Sendable {
  /// The answer to LE Read Buffer Size; nil where LE has no buffers of its own.
  case buffers(LEBuffers?)
  case completed([CompletedPackets])
  /// The link with this handle is gone; the handle may be given to the next one at once.
  case disconnected(handle: UInt16)

  /// How many packets of a link the controller is through with.
  struct CompletedPackets: Hashable, Sendable {
    var handle: UInt16
    var count: Int
  }

  static let packetType: UInt8 = 0x04
  static let commandComplete: UInt8 = 0x0E
  static let completedPackets: UInt8 = 0x13
  static let disconnectionComplete: UInt8 = 0x05
  /// The longest packet: three bytes of header, and what one byte can count.
  static let limit = 3 + 255

  /// Reads a whole packet; nil for an event that is none of the three, an answer to another command, and a
  /// disconnection that failed.
  init?(reading bytes: [UInt8]) throws(WireError) {
    var reader = ByteReader(bytes)
    guard try reader.u8() == Self.packetType else { throw .badValue("packet type") }
    let event = try reader.u8()
    guard Int(try reader.u8()) == reader.remaining else { throw .badValue("length") }
    switch event {
    case Self.commandComplete:
      _ = try reader.u8()
      guard try reader.u16le() == LEBuffers.opcode else { return nil }
      self = .buffers(try LEBuffers.answer(reading: &reader))
    case Self.completedPackets:
      var links: [CompletedPackets] = []
      for _ in 0..<(try reader.u8()) {
        let handle = try reader.u16le() & HCILink.handleMask
        links.append(CompletedPackets(handle: handle, count: Int(try reader.u16le())))
      }
      self = .completed(links)
    case Self.disconnectionComplete:
      let status = try reader.u8()
      let handle = try reader.u16le() & HCILink.handleMask
      _ = try reader.u8()
      guard status == 0 else { return nil }
      self = .disconnected(handle: handle)
    default: return nil
    }
    try reader.finish()
  }
}
