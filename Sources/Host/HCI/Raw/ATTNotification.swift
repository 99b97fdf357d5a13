import Bytes
import Radio

/// A Handle Value Notification for a client without a subscription, as packets for the controller.
///
/// | layer | bytes |
/// | --- | --- |
/// | HCI, each packet | `02`, handle of the link with 0 in bits 12 and 13 (1 in all but the first), length |
/// | L2CAP, once | length, channel 4 |
/// | ATT | `1B`, handle of the value, value |
public struct ATTNotification: Hashable, Sendable {
  /// The handle of the value in bluetoothd's database.
  public var handle: UInt16
  public var value: [UInt8]

  private static let packetType: UInt8 = 0x02
  private static let packetHeaderLength = 5
  private static let frameHeaderLength = 4 + ATT.overhead
  /// The flag in the handle of each packet of a frame except the first.
  private static let continuation: UInt16 = 1 << 12

  public init(handle: UInt16, value: [UInt8]) {
    self.handle = handle
    self.value = value
  }

  /// Maximum bytes of a value on a link with this `mtu`.
  public static func limit(mtu: Int) -> Int { ATT.valueLimit(mtu: mtu) }

  /// Maximum bytes of a value that fits into one packet.
  public static func packetLimit(_ buffers: LEBuffers) -> Int {
    max(buffers.length, LEBuffers.least.length) - frameHeaderLength
  }

  /// Number of packets for the value with these `buffers`.
  public func packetCount(_ buffers: LEBuffers) -> Int {
    let length = max(buffers.length, LEBuffers.least.length)
    return (Self.frameHeaderLength + value.count + length - 1) / length
  }

  /// The packets for the link with the handle `link`, in order, each of at most the buffer's length.
  public func packets(on link: UInt16, buffers: LEBuffers) -> [[UInt8]] {
    var frame = ByteWriter(capacity: Self.frameHeaderLength + value.count)
    frame.u16le(UInt16(truncatingIfNeeded: ATT.overhead + value.count))
    frame.u16le(ATT.channel)
    frame.u8(ATT.notification)
    frame.u16le(handle)
    frame.append(value)
    let length = max(buffers.length, LEBuffers.least.length)
    return stride(from: 0, to: frame.bytes.count, by: length).map { start in
      let part = frame.bytes[start..<min(start + length, frame.bytes.count)]
      var packet = ByteWriter(capacity: Self.packetHeaderLength + part.count)
      packet.u8(Self.packetType)
      packet.u16le(link & HCILink.handleMask | (start == 0 ? 0 : Self.continuation))
      packet.u16le(UInt16(truncatingIfNeeded: part.count))
      packet.append(part)
      return packet.bytes
    }
  }
}
