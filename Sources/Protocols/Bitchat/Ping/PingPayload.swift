import Bytes
import Crypto

/// The payload of a ping (26) and of its answer (27). Facts: bitchat.md section 3. Layout:
///
///     0  8  nonce, random; the answer has that of the ping
///     8  1  time to live that the packet began with
///     9  1  only between neighbours of this kind, of whom one gets a file. In a ping: after so many fragments the other end is to
///           confirm, from then on. In a 27 that confirms unasked, whose nonce is the mark of a fragment: 0
///
/// What follows is passed over. Nobody signs them: the nonce shows that the answer is one.
public struct PingPayload: WireValue, Hashable, Sendable {
  public let nonce: UInt64
  public let firstTimeToLive: UInt8
  /// After how many fragments of a file the other end is to confirm the last one; nil where it is not asked to. An answer has none.
  public let interval: UInt8?

  public init(nonce: UInt64, firstTimeToLive: UInt8 = Limits.timeToLive, interval: UInt8? = nil) {
    (self.nonce, self.firstTimeToLive, self.interval) = (nonce, firstTimeToLive, interval)
  }

  public init(reading reader: inout ByteReader) throws(WireError) {
    nonce = try reader.u64be()
    firstTimeToLive = try reader.u8()
    interval = reader.rest().first
  }

  public func write(to writer: inout ByteWriter) {
    writer.u64be(nonce)
    writer.u8(firstTimeToLive)
    if let interval { writer.u8(interval) }
  }

  /// How many hops a packet has come that arrived with this time to live; nil if it cannot have.
  public func hops(at timeToLive: UInt8) -> Int? {
    guard firstTimeToLive <= Limits.timeToLive, timeToLive >= 1, timeToLive <= firstTimeToLive else { return nil }
    return Int(firstTimeToLive - timeToLive) + 1
  }
}
