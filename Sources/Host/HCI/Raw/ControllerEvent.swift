import Bytes

/// An event of a controller on a raw socket: a packet of type 4. These three events are used here.
///
/// | offset | size | field |
/// | --- | --- | --- |
/// | 0 | 1 + 1 + 1 | packet type 4, event code, length of the rest |
/// | 3 | | Command Complete `0E`: number of commands that it accepts (1), opcode (2), return parameters |
/// | 3 | | Number Of Completed Packets `13`: number of links (1), for each a handle (2) and a number of packets (2) |
/// | 3 | | Disconnection Complete `05`: status (1), handle (2), reason (1) |
enum ControllerEvent: Hashable, Sendable {
  /// The reply to LE Read Buffer Size; nil if LE has no separate buffers.
  case buffers(LEBuffers?)
  case completed([CompletedPackets])
  /// The link with this handle has ended; the handle may be reused immediately.
  case disconnected(handle: UInt16)

  /// Number of packets of a link that the controller has completed.
  struct CompletedPackets: Hashable, Sendable {
    var handle: UInt16
    var count: Int
  }

  static let packetType: UInt8 = 0x04
  static let commandComplete: UInt8 = 0x0E
  static let completedPackets: UInt8 = 0x13
  static let disconnectionComplete: UInt8 = 0x05
  /// Maximum bytes of a packet: a header of three bytes, and a one-byte length.
  static let limit = 3 + 255

  /// Decodes a complete packet; nil for another event, a reply to another command, and a failed disconnection.
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
