import Bytes
import Crypto

/// Identifies a peer in packets: the first eight bytes of the SHA-256 of its Noise static key. Facts: bitchat.md
/// section 4.
///
/// The text is 16 lower-case hexadecimal digits. Texts and numbers sort alike. If two peers begin a handshake at once,
/// the one with the smaller ID stays initiator.
public struct PeerID: WireValue, Hashable, Sendable {
  public static let size = 8

  /// The eight bytes as a number, most significant first.
  public let rawValue: UInt64

  public init(rawValue: UInt64) {
    self.rawValue = rawValue
  }

  /// Derives the ID from the static key of a peer.
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

  /// Recipient of public packets in the Android app. The iOS app omits the recipient.
  public static let everybody = PeerID(rawValue: .max)
}

extension PeerID: Comparable {
  public static func < (left: PeerID, right: PeerID) -> Bool { left.rawValue < right.rawValue }
}

extension PeerID: CustomStringConvertible {
  public var description: String { Hex.encode(bytes) }
}

/// The SHA-256 of a Noise static key, which people compare. Facts: bitchat.md section 4.
public struct Fingerprint: Hashable, Sendable {
  /// The 32 bytes of the hash.
  public let bytes: [UInt8]

  public init(noiseKey: X25519.PublicKey) {
    bytes = SHA256.hash(noiseKey.bytes)
  }

  /// Reads 64 hexadecimal digits of either case; throws `badValue("fingerprint")` for anything else.
  public init(text: some StringProtocol) throws(WireError) {
    guard let bytes = try? Hex.decode(text), bytes.count == SHA256.size else { throw .badValue("fingerprint") }
    self.bytes = bytes
  }

  /// Peer ID of the owner: the first eight bytes.
  public var peerID: PeerID {
    PeerID(rawValue: bytes.prefix(PeerID.size).reduce(0) { $0 << 8 | UInt64($1) })
  }
}

extension Fingerprint: CustomStringConvertible {
  public var description: String { Hex.encode(bytes) }
}
