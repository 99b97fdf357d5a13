import Bytes
import Crypto

/// Payload of a ping (26) and of its answer (27). Facts: bitchat.md section 3. Layout:
///
///     0  8  nonce, random; repeated in the answer
///     8  1  initial TTL of the packet
///     9  1  only between Earshot neighbours that transfer a file. In a ping: number of fragments after which the
///           peer sends each confirmation. In an unsolicited 27, whose nonce is the mark of a fragment: 0
///
/// Further bytes are ignored. The packets are not signed; the nonce authenticates the answer.
public struct PingPayload: WireValue, Hashable, Sendable {
  public let nonce: UInt64
  public let firstTimeToLive: UInt8
  /// Interval at which the peer confirms fragments of a file: each confirmation is for the last of this number of
  /// fragments. Nil if no confirmations are requested. An answer has none.
  public let interval: UInt8?

  public init(nonce: UInt64, firstTimeToLive: UInt8 = Limits.timeToLive, interval: UInt8? = nil) {
    (self.nonce, self.firstTimeToLive, self.interval) = (nonce, firstTimeToLive, interval)
  }

  /// Returns a random nonce for a ping.
  package static func nonce(randomFrom random: inout some RandomSource) -> UInt64 {
    random.bytes(8).reduce(0) { $0 << 8 | UInt64($1) }
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

  /// Number of hops of a packet that arrived with this TTL; nil if the values are inconsistent.
  public func hops(at timeToLive: UInt8) -> Int? {
    guard firstTimeToLive <= Limits.timeToLive, timeToLive >= 1, timeToLive <= firstTimeToLive else { return nil }
    return Int(firstTimeToLive - timeToLive) + 1
  }
}
