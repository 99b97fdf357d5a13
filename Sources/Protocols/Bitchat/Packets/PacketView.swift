import Bytes
import Crypto

/// A packet as it was received: its fields are read where they lie, and nothing is copied or inflated. A relay and the search
/// for duplicates need no more. `PacketHeader` has the table of the layout.
public struct PacketView: Sendable {
  /// The bytes as they came, padding included.
  public let bytes: [UInt8]

  private let header: PacketHeader

  /// Reads the packet at the beginning of the bytes. What follows it is padding or ignored, so the bytes need not be unpadded
  /// before: they are no packet without their padding if they are none with it.
  ///
  /// Throws `tooShort`, `badVersion`, `payloadTooLong`, or `truncated` where a section reaches past the end.
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

  /// Bytes of the packet, without padding and whatever else follows it.
  public var count: Int { header.end }
  public var version: PacketVersion { header.version }
  public var type: MessageType { MessageType(rawValue: bytes[1]) }
  public var timeToLive: UInt8 { bytes[2] }
  /// Milliseconds since 1970, by the sender's clock.
  public var timestamp: UInt64 { number(at: 3) }
  /// The flags as they came, unknown ones included.
  public var flags: PacketFlags { header.flags }
  public var sender: PeerID { PeerID(rawValue: number(at: version.headerBytes)) }

  /// The peer that the packet is for; nil if it is for everybody, in either form.
  public var recipient: PeerID? { namedRecipient.flatMap { $0 == .everybody ? nil : $0 } }

  /// The recipient field; nil if there is none.
  public var namedRecipient: PeerID? {
    flags.contains(.recipient) ? PeerID(rawValue: number(at: version.headerBytes + PeerID.size)) : nil
  }

  /// The hops between sender and recipient, in the order of the way; empty without a route.
  public var route: [PeerID] {
    let first = header.start - header.hops * PeerID.size
    return (0..<header.hops).map { PeerID(rawValue: number(at: first + $0 * PeerID.size)) }
  }

  /// The payload section: the payload, or its original size and a deflate stream.
  public var section: ArraySlice<UInt8> { bytes[header.start..<header.payloadEnd] }

  /// The 64 bytes of the signature; nil if there is none.
  public var signature: ArraySlice<UInt8>? {
    flags.contains(.signature) ? bytes[header.payloadEnd..<header.end] : nil
  }

  /// The bytes to be sent on: as they came, padding included, with another time to live. Nothing else may change, or the
  /// signature would not hold with some verifiers. Facts: bitchat.md section 2.1.
  public func relayed(timeToLive: UInt8) -> [UInt8] {
    var copy = bytes
    copy[2] = timeToLive
    return copy
  }

  /// What the sender signed, if it signed the bytes that came: time to live 0, no signature, flags 02 and 10 clear, padded.
  public var signingPreimage: [UInt8] {
    var preimage = [UInt8]()
    preimage.reserveCapacity(Padding.paddedCount(of: header.payloadEnd))
    preimage.append(contentsOf: bytes[..<header.payloadEnd])
    preimage[2] = 0
    preimage[11] = flags.subtracting([.signature, .syncAnswer]).rawValue
    Padding.pad(&preimage)
    return preimage
  }

  /// The key by which a copy of this packet is recognised before it is decoded.
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
