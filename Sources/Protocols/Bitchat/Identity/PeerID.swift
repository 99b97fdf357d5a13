import Bytes
import Crypto

/// Who a peer is on the air: the first eight bytes of the SHA-256 of its Noise static key. Facts: bitchat.md section 4.
///
/// The text is 16 lower-case hexadecimal digits. The order is that of the texts, which is that of the numbers: of two peers
/// that begin a handshake at a time, the smaller one stays initiator.
public struct PeerID: WireValue, Hashable, Sendable {
  public static let size = 8

  /// The eight bytes as a number, most significant first.
  public let rawValue: UInt64

  public init(rawValue: UInt64) {
    self.rawValue = rawValue
  }

  /// The ID of the peer with this static key.
  public init(noiseKey: X25519.PublicKey) {
    self.init(rawValue: noiseKey.withBytes { SHA256.words($0) }.first)
  }

  /// Reads 16 hexadecimal digits of either case; throws `badValue("peer ID")` for anything else.
  public init(text: some StringProtocol) throws(WireError) {
    guard let bytes = try? Hex.decode(text), bytes.count == Self.size else { throw .badValue("peer ID") }
    var reader = ByteReader(bytes)
    rawValue = try reader.u64be()
  }

  public init(reading reader: inout ByteReader) throws(WireError) {
    rawValue = try reader.u64be()
  }

  public func write(to writer: inout ByteWriter) { writer.u64be(rawValue) }

  /// The recipient that means everybody. The Android app sends it with public packets, the iOS app sends none.
  public static let everybody = PeerID(rawValue: .max)
}

extension PeerID: Comparable {
  public static func < (left: PeerID, right: PeerID) -> Bool { left.rawValue < right.rawValue }
}

extension PeerID: CustomStringConvertible {
  public var description: String { Hex.encode(bytes) }
}
