/// Fields of a packet up to its payload, as offsets into the bytes that were read. Facts: bitchat.md section 2. Layout:
///
///     v1  v2  size
///     0   0   1     version 1 or 2
///     1   1   1     type
///     2   2   1     time to live
///     3   3   8     timestamp, milliseconds since 1970, big endian
///     11  11  1     flags
///     12  12  2, 4  bytes of the payload section, big endian
///     14  16  8     sender
///             8     recipient, if flag 01
///             1+8n  route, if version 2 and flag 08: the count n, then the hops
///                   payload section; if flag 04 the original size, 2 or 4 bytes big endian, and a deflate stream
///             64    Ed25519 signature, if flag 02
///                   padding, or bytes that are ignored
package struct PacketHeader {
  package let version: PacketVersion
  package let flags: PacketFlags
  /// Number of hops in the route.
  package let hops: Int
  /// Offset of the payload section from the beginning of the packet.
  package let start: Int
  /// End of the payload section, and start of the signature.
  let payloadEnd: Int
  /// End of the packet, without padding.
  package let end: Int

  static let signatureBytes = 64

  package enum Reading {
    case header(PacketHeader)
    /// The header is incomplete: at least this number of bytes is needed to find the end of the packet.
    case needs(Int)
    case refused(PacketError)
  }

  /// Reads the header at the beginning of `bytes`. Nothing after the route's count is read, so the packet may extend
  /// beyond `bytes`.
  @inline(__always)
  package static func read(_ bytes: UnsafeRawBufferPointer) -> Reading {
    guard let first = bytes.first else { return .needs(Limits.smallestPacket) }
    guard let version = PacketVersion(rawValue: first) else { return .refused(.badVersion(first)) }
    var start = version.headerBytes + PeerID.size
    guard bytes.count >= start else { return .needs(start) }
    let flags = PacketFlags(rawValue: bytes[11])
    let count =
      version == .v1
      ? Int(UInt16(bigEndian: bytes.loadUnaligned(fromByteOffset: 12, as: UInt16.self)))
      : Int(UInt32(bigEndian: bytes.loadUnaligned(fromByteOffset: 12, as: UInt32.self)))
    guard count <= Limits.payloadBytes else { return .refused(.payloadTooLong(count)) }
    if flags.contains(.recipient) { start += PeerID.size }
    var hops = 0
    if version == .v2, flags.contains(.route) {
      guard bytes.count > start else { return .needs(start + 1) }
      hops = Int(bytes[start])
      start += 1 + hops * PeerID.size
    }
    let payloadEnd = start + count
    return .header(
      PacketHeader(
        version: version, flags: flags, hops: hops, start: start, payloadEnd: payloadEnd,
        end: payloadEnd + (flags.contains(.signature) ? signatureBytes : 0)))
  }
}
