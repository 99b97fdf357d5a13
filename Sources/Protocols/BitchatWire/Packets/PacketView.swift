import Bytes
import Common
import Crypto

/// Received packet whose fields are read in place, without copying or inflating. Relaying and deduplication need no
/// more. `PacketHeader` has the layout.
public struct PacketView: Sendable {
  /// Bytes of the packet as they were received, including padding.
  public let bytes: [UInt8]

  private let header: PacketHeader

  /// Reads the packet at the beginning of the bytes. Bytes after it are padding or ignored, so padding need not be
  /// removed first.
  ///
  /// Throws `tooShort`, `badVersion`, `payloadTooLong`, or `truncated` if a section exceeds the bytes.
  public init(_ bytes: [UInt8]) throws(PacketError) {
    guard bytes.count >= Limits.smallestPacket else { throw .tooShort(bytes.count) }
    switch bytes.withUnsafeBytes({ PacketHeader.read($0) }) {
    case .refused(let error): throw error
    case .needs(let needed): throw .truncated(needed: needed, available: bytes.count)
    case .header(let header):
      guard header.end <= bytes.count else { throw .truncated(needed: header.end, available: bytes.count) }
      self.bytes = bytes
      self.header = header
    }
  }

  /// Length of the packet, without padding and trailing bytes.
  public var count: Int { header.end }
  public var version: PacketVersion { header.version }
  public var type: MessageType { MessageType(rawValue: bytes[1]) }
  public var timeToLive: UInt8 { bytes[2] }
  /// Timestamp in milliseconds since 1970, by the sender's clock.
  public var timestamp: UInt64 { number(at: 3) }
  /// Flags as received, including unknown ones.
  public var flags: PacketFlags { header.flags }
  public var sender: PeerID { PeerID(rawValue: number(at: version.headerBytes)) }

  /// Recipient; nil for a public packet in either form.
  public var recipient: PeerID? { namedRecipient.flatMap { $0 == .everybody ? nil : $0 } }

  /// Recipient field; nil if absent.
  public var namedRecipient: PeerID? {
    flags.contains(.recipient) ? PeerID(rawValue: number(at: version.headerBytes + PeerID.size)) : nil
  }

  /// Hops between sender and recipient, in order; empty without a route.
  public var route: [PeerID] {
    let first = header.start - header.hops * PeerID.size
    return (0..<header.hops).map { PeerID(rawValue: number(at: first + $0 * PeerID.size)) }
  }

  /// The payload section: the payload, or its original size and a deflate stream.
  public var section: ArraySlice<UInt8> { bytes[header.start..<header.payloadEnd] }

  /// Signature, 64 bytes; nil if absent.
  public var signature: ArraySlice<UInt8>? {
    flags.contains(.signature) ? bytes[header.payloadEnd..<header.end] : nil
  }

  /// Returns the bytes to relay: as received, including padding, with another TTL. Any other change could invalidate
  /// the signature for some verifiers. Facts: bitchat.md section 2.1.
  public func relayed(timeToLive: UInt8) -> [UInt8] {
    var copy = bytes
    copy[2] = timeToLive
    return copy
  }

  /// Bytes that the signature covers, if the sender signed the received form: TTL 0, no signature, flags 02 and 10
  /// clear, padded.
  public var signingPreimage: [UInt8] {
    var preimage = [UInt8]()
    preimage.reserveCapacity(Padding.paddedCount(of: header.payloadEnd))
    preimage.append(contentsOf: bytes[..<header.payloadEnd])
    preimage[2] = 0
    preimage[11] = flags.subtracting([.signature, .syncAnswer]).rawValue
    Padding.pad(&preimage)
    return preimage
  }

  /// Key that identifies copies of this packet before decoding.
  public func wireKey(_ hash: KeyedHash) -> WireKey {
    bytes.withUnsafeBytes { bytes in
      WireKey(
        version: bytes[0], type: bytes[1],
        hash: hash.hash(UnsafeRawBufferPointer(rebasing: bytes[3..<header.payloadEnd])))
    }
  }

  @inline(__always)
  private func number(at offset: Int) -> UInt64 {
    bytes.withUnsafeBytes { UInt64(bigEndian: $0.loadUnaligned(fromByteOffset: offset, as: UInt64.self)) }
  }
}

/// Key of a received packet: header without TTL, IDs, route and payload section.
///
/// Copies over other paths have the same key. A copy that a relay recompressed, or marked as sync answer, has a
/// different key; `PacketID` recognises it. The key does not cover the signature, so store it only after the signature
/// was verified.
public struct WireKey: Hashable, Sendable {
  package let version: UInt8
  package let type: UInt8
  package let hash: KeyedHash.Value

  package init(version: UInt8, type: UInt8, hash: KeyedHash.Value) {
    (self.version, self.type, self.hash) = (version, type, hash)
  }

  public func hash(into hasher: inout Hasher) {
    // The keyed hash cannot be targeted by attackers, so half of it is enough for a hash table.
    hasher.combine(hash.low)
  }
}

/// Key by which the iOS app detects copies: sender, timestamp, type, and four bytes of the payload's SHA-256. The text
/// has the app's format. Facts: bitchat.md section 8.1.
///
/// An attacker can find collisions of four bytes and so suppress packets; `PacketID` does not have this weakness.
public struct DedupKey: Hashable, Sendable {
  public let sender: PeerID
  public let timestamp: UInt64
  public let type: MessageType
  /// First four bytes of the payload's SHA-256, big endian.
  public let digest: UInt32

  public init(_ packet: Packet) {
    sender = packet.sender
    timestamp = packet.timestamp
    type = packet.type
    digest = UInt32(truncatingIfNeeded: packet.payload.withUnsafeBytes { SHA256.words($0) }.first >> 32)
  }
}

extension DedupKey: CustomStringConvertible {
  public var description: String {
    let hash = Hex.encode(withUnsafeBytes(of: digest.bigEndian) { Array($0) })
    return "\(sender)-\(timestamp)-\(type.rawValue)-\(hash)"
  }
}

extension PacketView {
  /// Whether both packets are public, of one type and sender, and have the same uncompressed payload.
  package func hasPayload(of other: [UInt8]) -> Bool {
    guard let other = try? PacketView(other), other.type == type, other.sender == sender, other.version == version
    else {
      return false
    }
    let plain = PacketFlags.signature
    guard flags.subtracting(.syncAnswer) == plain, other.flags.subtracting(.syncAnswer) == plain else { return false }
    return section == other.section
  }
}
