import Bytes

/// A value for a client that never asked for it: an ATT notification, put straight into packets for the controller.
///
/// | layer | bytes |
/// | --- | --- |
/// | HCI, each packet | `02`, handle of the link with 0 in bits 12 and 13 (1 in all but the first), length |
/// | L2CAP, once | length, CID 4 |
/// | ATT | `1B`, handle of the value, value |
public struct ATTNotification: Hashable, Sendable {
  public var handle: UInt16
  public var value: [UInt8]

  static let headerLength = 4 + 3

  public init(handle: UInt16, value: [UInt8]) {
    self.handle = handle
    self.value = value
  }

  /// How long a value can be: what the link's MTU and an attribute hold.
  public static func limit(mtu: Int) -> Int { max(0, min(512, mtu - 3)) }

  /// What is sent on the link with this handle.
  public func packets(on link: UInt16, buffers: LEBuffers) -> [[UInt8]] {
    var frame = ByteWriter(capacity: Self.headerLength + value.count)
    frame.u16le(UInt16(truncatingIfNeeded: 3 + value.count))
    frame.u16le(4)
    frame.u8(0x1B)
    frame.u16le(handle)
    frame.append(value)
    let length = max(buffers.length, LEBuffers.least.length)
    return stride(from: 0, to: frame.bytes.count, by: length).map { start in
      let part = frame.bytes[start..<min(start + length, frame.bytes.count)]
      var packet = ByteWriter(capacity: 5 + part.count)
      packet.u8(0x02)
      packet.u16le(link & 0x0FFF | (start == 0 ? 0 : 1 << 12))
      packet.u16le(UInt16(truncatingIfNeeded: part.count))
      packet.append(part)
      return packet.bytes
    }
  }
}
